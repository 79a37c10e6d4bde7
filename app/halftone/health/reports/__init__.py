"""A check as a page and as sentences."""
