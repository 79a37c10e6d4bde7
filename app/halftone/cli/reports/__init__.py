"""What a command prints in the end: lines for people, objects for programs."""
