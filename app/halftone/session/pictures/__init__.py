"""The next pictures and those that were made: the draft, its problems, time and memory, the history."""
