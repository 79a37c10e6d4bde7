"""Updates of packages, with the standard library alone: they work without an environment, or where it is broken."""
