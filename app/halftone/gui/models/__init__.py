"""The Models page: everything in the watched folders, what it is, and how its numbers behave."""
