"""A training in numbers and sentences."""
