"""Logs, settings and checkpoints that training programs leave, read into one common form. Nothing here judges."""
