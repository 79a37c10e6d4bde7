"""Powers of two moved through a network, so that its result stays the same in exact arithmetic."""
