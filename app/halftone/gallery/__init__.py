"""Finished pictures and their history."""
