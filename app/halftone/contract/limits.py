"""What a picture may be asked for: one table for the window and the terminal."""

from typing import Final

SIZE_MULTIPLE: Final = 8
"""Pixels per latent of Stable Diffusion; every other supported family uses a multiple of it."""
SIZE_RANGE: Final = (8, 16384)
STEPS_RANGE: Final = (1, 1000)
BATCH_RANGE: Final = (1, 1000)
SEED_RANGE: Final = (0, 2**64 - 1)
"""What torch's generators take, and ComfyUI writes."""
RANDOM_SEED: Final = -1
"""The random seed of other programs."""
FRAMES_RANGE: Final = (1, 10_000)
FPS_RANGE: Final = (1, 120)
GUIDANCE_RANGE: Final = (0, 1000)
CLIP_SKIP_RANGE: Final = (1, 12)
"""As A1111 counts: one more than the skipped layers."""
LORA_RANGE: Final = (-10.0, 10.0)
"""Weights of a LoRA; sliders are made to be used with either sign, and far beyond 1."""
STRENGTH_RANGE: Final = (0.01, 1.0)
"""How much of a start picture is made anew; at 0 no step would be computed."""
MASK_BLUR_RANGE: Final = (0, 64)
ONLY_MASKED_RANGE: Final = (0, 1024)
"""Pixels around the masked part."""
OUTPAINT_RANGE: Final = (0, 2048)
"""Pixels at one side."""
CONTROL_RANGE: Final = (0.0, 10.0)
"""Strengths, as in ComfyUI; those of A1111 end at 2."""
IP_ADAPTER_RANGE: Final = (0.0, 2.0)
"""Strengths."""
SCALE_RANGE: Final = (1.0, 8.0)
"""Factors by which a picture may be enlarged."""
REFINER_AT_RANGE: Final = (0.01, 0.99)
"""The share of the steps after which a refiner takes over."""
