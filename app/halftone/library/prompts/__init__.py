"""Prompts: syntax, tokens, styles, wildcards."""
