"""The commands that make pictures: `generate` and `upscale`."""
