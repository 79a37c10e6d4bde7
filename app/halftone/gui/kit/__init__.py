"""Widgets and helpers that several pages share."""
