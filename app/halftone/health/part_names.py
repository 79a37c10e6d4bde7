"""Names of components, modules and cures in plain words; numbers and durations as text."""

import math
from typing import Final

from halftone.contract.wording import MINUS, Words


def capital(text: str) -> str:
    """With the first letter upper case and the rest as it was."""
    return text[:1].upper() + text[1:]


def bits(value: float) -> str:
    """Room with one decimal: "−1.7"."""
    shown = rounded_room(value)
    return f"{MINUS}{-shown:.1f}" if shown < 0 else f"{shown:.1f}"


def percent(share: float) -> str:
    """A change with its sign: 0.011 -> "+1.1 %"."""
    sign = "+" if share >= 0 else MINUS
    return f"{sign}{abs(share) * 100:.1f}\u00a0%"


def share_of_change(share: float) -> str:
    """A relative change without a sign, in two digits: 0.0031 -> "0.31 %"."""
    return f"{share * 100:.2g}\u00a0%"


def rounded_room(value: float) -> float:
    """Room in tenths of a bit, rounded down, so that an overflow never reads as a fit."""
    return math.floor(value * 10 + 1e-6) / 10 + 0.0


def duration(seconds: float) -> str:
    """ "9 s", "1 min 51 s", "3 h 28 min" with non-breaking spaces, rounded up, never 0 s: for the future and for long times.
    `elapsed` shows measured ones.
    """
    whole = max(1, math.ceil(seconds - 1e-6))
    hours, minutes, rest = whole // 3600, whole // 60, whole % 60
    if hours:
        hours, minutes = divmod(math.ceil(whole / 60), 60)
        rest = 0
    parts = [f"{hours}\u00a0h" if hours else "", f"{minutes}\u00a0min" if minutes else "", f"{rest}\u00a0s" if rest else ""]
    return "\u00a0".join(part for part in parts if part)


def elapsed(seconds: float) -> str:
    """A measured time: "0.2 s", "3.0 s", "42.1 s", from a minute on as `duration`."""
    return f"{max(0.1, seconds):.1f}\u00a0s" if seconds < 59.95 else duration(round(seconds))


def plain_component(component: str, module: str = "") -> Words:
    """The name of a component in plain words; for a VAE the half that `module` is in."""
    if component.startswith("vae"):
        half = module.partition(".")[0]
        if half in {"decoder", "post_quant_conv"}:
            return Words("VAE decoder")
        if half in {"encoder", "quant_conv"}:
            return Words("VAE encoder")
    stem = component.rstrip("_0123456789")
    name = _COMPONENTS.get(component) or _COMPONENTS.get(stem)
    if name is None:
        return Words(capital(component.replace("_", " "))) if component else Words("Model")
    suffix = component[len(stem) :].strip("_")
    return Words("{0} {1}", (Words(name), suffix)) if suffix and component not in _COMPONENTS else Words(name)


def detail_name(detail: str) -> str:
    """The plain name of the component or the cure of a phase; another detail as it is."""
    return CURE_NAMES.get(detail) or COMPONENT_NAMES.get(detail, detail)


def plain_module(component: str, module: str) -> str:
    """("vae", "decoder.up_blocks.2.resnets.0.conv1") -> "VAE decoder, third up block, first residual layer"."""
    return module_words(component, module).text()


def module_words(component: str, module: str) -> Words:
    """Component, block and part of a dotted module name in plain words; at most two places inside the component.

    Known are the names of diffusers' UNet, VAE and transformer models and of CLIP and T5 in transformers; other numbered
    containers are counted ("fourth layer"), and the last part is shown as it is.
    """
    parts = [p for p in module.split(".") if p]
    if component.startswith("vae") and parts and parts[0] in {"decoder", "encoder"}:
        parts = parts[1:]
    places = _places(parts)
    shown = [*places[:2], *places[-1:]] if len(places) > 2 and places[-1] in _TELLING else places[:2]
    found: Words = plain_component(component, module)
    for place in dict.fromkeys(shown):
        found = Words("{0}, {1}", (found, place))
    return found


def ordinal(index: int) -> Words:
    """0 -> "first", 20 -> "21st"."""
    if index < len(_ORDINALS):
        return Words(_ORDINALS[index])
    count = index + 1
    return Words("{0}th" if count % 100 in {11, 12, 13} else _ENDINGS.get(count % 10, "{0}th"), (count,))


_ENDINGS: Final = {1: "{0}st", 2: "{0}nd", 3: "{0}rd"}


def _places(parts: list[str]) -> list[Words]:
    places: list[Words] = []
    index = 0
    while index < len(parts):
        part = parts[index]
        following = parts[index + 1] if index + 1 < len(parts) else ""
        counted = _COUNTED.get(part)
        if following.isdigit() and counted is not None:
            places.append(Words(counted, (ordinal(int(following)),)))
            index += 2
            continue
        if part in _NAMED:
            places.append(Words(_NAMED[part]))
        elif following.isdigit() and part not in _SILENT:
            places.append(Words("{0} part of {1}", (ordinal(int(following)), part)))
            index += 1
        elif index == len(parts) - 1 and not part.isdigit() and part not in _SILENT:
            places.append(Words("{0}", (part,)))
        index += 1
    return places


_ORDINALS: Final = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth",
)  # fmt: skip

COMPONENT_NAMES: Final[dict[str, str]] = {
    "text_encoder": "text encoder",
    "text_encoder_2": "second text encoder",
    "text_encoder_3": "third text encoder",
    "unet": "denoiser",
    "transformer": "denoiser",
    "vae": "VAE decoder",
    "controlnet": "ControlNet",
    "image_encoder": "image encoder",
    "upscaler": "upscale model",
}
"""Within a line, in the window and the terminal."""
CURE_NAMES: Final[dict[str, str]] = {
    "read-again": "reread from the file",
    "rescale": "rescaled by powers of two",
    "setting": "with a safer setting",
    "upcast-region": "these parts in FP32",
    "bfloat16": "in BF16",
    "float32-component": "in FP32",
    "float32-all": "everything in FP32",
}
"""Names of cures within a line."""

_COMPONENTS: Final[dict[str, str]] = {
    "unet": "UNet",
    "transformer": "Transformer",
    "prior": "Prior",
    "controlnet": "ControlNet",
    "vae": "VAE decoder",
    "vqvae": "VQ-VAE decoder",
    "text_encoder": "Text encoder",
    "image_encoder": "Image encoder",
    "safety_checker": "Safety checker",
    "vocoder": "Vocoder",
    "latents": "Latents",
}

_COUNTED: Final[dict[str, str]] = {
    "down_blocks": "{0} down block",
    "up_blocks": "{0} up block",
    "mid_blocks": "{0} mid block",
    "resnets": "{0} residual layer",
    "attentions": "{0} attention layer",
    "motion_modules": "{0} motion layer",
    "transformer_blocks": "{0} transformer block",
    "single_transformer_blocks": "{0} single transformer block",
    "blocks": "{0} block",
    "layers": "{0} layer",
    "block": "{0} layer",
}

_NAMED: Final[dict[str, str]] = {
    "mid_block": "mid block",
    "conv_in": "input convolution",
    "conv_out": "output convolution",
    "conv_norm_out": "output norm",
    "post_quant_conv": "input convolution",
    "quant_conv": "output convolution",
    "time_embedding": "timestep embedding",
    "time_proj": "timestep embedding",
    "add_embedding": "size embedding",
    "time_emb_proj": "timestep input",
    "downsamplers": "downsampling",
    "upsamplers": "upsampling",
    "conv1": "first convolution",
    "conv2": "second convolution",
    "conv_shortcut": "shortcut",
    "attn1": "self-attention",
    "attn2": "cross-attention",
    "attn": "attention",
    "self_attn": "self-attention",
    "SelfAttention": "self-attention",
    "EncDecAttention": "cross-attention",
    "ff": "feed-forward",
    "ff_context": "prompt feed-forward",
    "mlp": "feed-forward",
    "DenseReluDense": "feed-forward",
    "proj_in": "input projection",
    "proj_out": "output projection",
    "norm_out": "output norm",
    "final_layer_norm": "output norm",
    "final_layer_norm.weight": "output norm",
    "embeddings": "word embedding",
    "token_embedding": "word embedding",
    "position_embedding": "position embedding",
    "text_projection": "text projection",
    "pos_embed": "patch embedding",
    "x_embedder": "patch embedding",
    "context_embedder": "prompt input",
    "shared": "word embedding",
    "embed_tokens": "word embedding",
    "to_q": "queries",
    "to_k": "keys",
    "to_v": "values",
    "to_out": "attention output",
    "q_proj": "queries",
    "k_proj": "keys",
    "v_proj": "values",
    "out_proj": "attention output",
    "fc1": "first linear layer",
    "fc2": "second linear layer",
    "wi_0": "first linear layer",
    "wi_1": "second linear layer",
    "wo": "last linear layer",
}
_SILENT: Final = frozenset({"text_model", "encoder", "decoder", "model", "net", "layer", "proj", "linear", "conv", "norm"})
_TELLING: Final = tuple(
    Words(_NAMED[name])
    for name in ("conv1", "conv2", "attn1", "attn2", "to_q", "to_k", "to_v", "to_out", "ff", "conv_shortcut", "fc1", "fc2", "wo")
)
"""Last parts worth naming as a third place."""
