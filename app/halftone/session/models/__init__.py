"""The models that the user knows, and the files that are used beside them."""
