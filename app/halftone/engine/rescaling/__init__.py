"""Powers of two moved through a network, so that its result stays what it was."""
