"""The left panel of Create: what the next pictures depend on."""
