"""Judges what other trainers left of a run: where the first bad number stood, what came before it, and the likely causes."""
