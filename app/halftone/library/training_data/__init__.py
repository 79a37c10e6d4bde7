"""What a LoRA training reads and leaves: pictures, settings, runs."""
