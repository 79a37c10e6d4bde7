"""Loads models, applies plans, generates with the sentinel, checks and repairs. Everything here may use torch and diffusers."""
