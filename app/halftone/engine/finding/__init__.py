"""What goes wrong, where, and how much time a part takes: measured by running it."""
