"""What is added to a component's exact weights: LoRAs, LyCORIS, textual inversions, the attention of IP-Adapters."""
