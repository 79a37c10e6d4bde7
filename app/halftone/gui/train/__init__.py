"""The Train page: a LoRA in the making, under the guard."""
