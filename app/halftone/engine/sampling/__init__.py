"""A picture's way through the pipeline: prompts read, steps watched, latents kept, frames judged."""
