"""Commands of the farm."""
