"""A process that gives up its rights before it reads a file that may be hostile."""
