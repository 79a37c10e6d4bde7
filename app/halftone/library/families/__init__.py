"""Families of models: what they are recognised by and built of."""
