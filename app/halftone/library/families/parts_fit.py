"""Whether a folder's denoiser and VAE belong together, from their configurations alone."""

from collections.abc import Mapping
from typing import Final

from halftone.contract.wording import Words
from halftone.library.files.folder import Part

_BOTH: Final = ("out_channels", "in_channels")
_GIVES: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "UNet2DConditionModel": (("out_channels",), 1),
    "SD3Transformer2DModel": (_BOTH, 1),
    "FluxTransformer2DModel": (_BOTH, 4),
    "ChromaTransformer2DModel": (_BOTH, 4),
    "QwenImageTransformer2DModel": (("out_channels",), 1),
    "PixArtTransformer2DModel": (("in_channels",), 1),
    "SanaTransformer2DModel": (("in_channels",), 1),
    "AuraFlowTransformer2DModel": (_BOTH, 1),
    "Lumina2Transformer2DModel": (_BOTH, 1),
    "CogView4Transformer2DModel": (_BOTH, 1),
    "ZImageTransformer2DModel": (("in_channels",), 1),
    "HunyuanDiT2DModel": (("in_channels",), 1),
}
"""By class: where its configuration tells how many numbers it gives a place, the first that is set; and how many of them are one
channel.
"""


def misfit(parts: Mapping[str, Part]) -> Words | None:
    """Why the VAE cannot take what the denoiser gives, as the end of a sentence; None where it can or nothing tells."""
    denoiser, vae = parts.get("unet") or parts.get("transformer"), parts.get("vae")
    if denoiser is None or vae is None:
        return None
    fields, places = _GIVES.get(str(denoiser.config.get("_class_name")), ((), 1))
    gives = next((value for name in fields if isinstance(value := denoiser.config.get(name), int)), None)
    takes = vae.config.get("latent_channels", vae.config.get("z_dim"))
    if gives is None or not isinstance(takes, int) or gives == takes * places:
        return None
    return Words("its VAE takes {0} channels, and its denoiser gives {1}", (str(takes), str(gives // places)))
