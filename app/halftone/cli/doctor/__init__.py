"""`train doctor`: what another trainer left of a run."""
