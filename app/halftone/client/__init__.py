"""The window's side of the protocol as a pure state machine, and how a worker is started and logged."""
