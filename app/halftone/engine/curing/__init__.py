"""The least change that keeps a network finite, and what is remembered of it."""
