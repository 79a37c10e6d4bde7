"""Jobs of the commands: the engine in this process, its log, its end."""
