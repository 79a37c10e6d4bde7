"""Workers: how one runs as a process of its own, and how in this process."""
