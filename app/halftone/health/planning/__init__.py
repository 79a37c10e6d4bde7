"""Cures as plans, and what the sentinel does next."""
