"""Logs, settings and checkpoints that other training programs leave, read into one common form. Nothing here judges."""
