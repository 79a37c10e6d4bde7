"""Checks of whole models, what their cures cost, and sound copies on disk."""
