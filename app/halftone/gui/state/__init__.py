"""What the window knows: the frozen state, its events, and the pure step between two states."""
