"""`train`: a LoRA from a file of settings."""
