"""The middle of Create: the picture, its banner, its receipt and what can be done with it."""
