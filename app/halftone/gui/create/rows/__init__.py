"""Folded rows of the Create form: add-ons, replaced parts, start picture, styles and more."""
