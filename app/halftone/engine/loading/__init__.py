"""A model brought into memory, offline, and the plan that it runs under."""
