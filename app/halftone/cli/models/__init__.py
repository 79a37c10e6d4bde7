"""The commands that list models and fetch small files."""
