"""Halftone finds half-precision overflow before it turns a picture black, and cures it."""

__version__ = "0.1.0"
