"""The Gallery page: all pictures by day, found, compared and reused."""
