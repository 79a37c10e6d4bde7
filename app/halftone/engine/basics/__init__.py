"""Tensors, snapshots of them, and settings of torch: what every other room of the engine uses."""
