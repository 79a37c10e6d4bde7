"""Widgets that paint themselves, and the small stock ones that several pages share."""
