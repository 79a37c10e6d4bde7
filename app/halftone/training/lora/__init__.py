"""LoRA training: a folder of pictures and a base model become a LoRA file, under the guard."""
