"""The window's side of the protocol: the session as a pure state machine, and a Popen transport."""
