"""The options of the commands, and the requests that they become."""
