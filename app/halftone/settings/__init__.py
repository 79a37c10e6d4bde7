"""Where things lie, every setting declared once with its words, and the settings file."""
