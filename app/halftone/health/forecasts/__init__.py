"""How much memory and time a picture takes."""
