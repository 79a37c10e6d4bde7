"""What stands around every page: window, top bar, status bar, messages, help."""
