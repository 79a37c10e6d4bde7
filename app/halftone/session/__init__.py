"""What the program does, without a window, a terminal or torch: the state, its events, and the use cases."""
