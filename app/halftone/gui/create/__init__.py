"""Create: from words to picture, with the numbers behind it in sight."""
