"""LoRA training, and the guard that keeps any training from going NaN. Uses torch; never Qt."""
