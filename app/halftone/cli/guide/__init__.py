"""`guide`: the user guide as plain lines."""
