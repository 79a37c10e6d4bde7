"""The launcher: everything between a fresh clone and a running Halftone, with nothing but the standard library."""
