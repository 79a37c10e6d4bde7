"""What a family's models can be used with: a LoRA, a ControlNet, an IP-Adapter and a second, larger pass, two steps each.

What can be done is asked of diffusers (which loaders a pipeline has, which ControlNets exist), not of Halftone.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import diffusers
import torch
from peft import LoraConfig, get_peft_model_state_dict
from tests.helpers import tiny
from tests.helpers.controls import save_net
from tests.helpers.ip_adapters import save_adapter, save_encoder, save_flux_adapter, save_sd3_adapter, save_siglip

from halftone.contract.request import LANCZOS, LATENT, Control, Hires, IpAdapter, Lora

Fields = Mapping[str, Any]
"""Of a PictureRequest."""
MORE: Final = ("LoRA", "ControlNet", "IP-Adapter", "two passes")
_NETS: Final = {
    "StableDiffusionPipeline": "ControlNetModel",
    "StableDiffusionXLPipeline": "ControlNetModel",
    "StableDiffusion3Pipeline": "SD3ControlNetModel",
    "FluxPipeline": "FluxControlNetModel",
    "QwenImagePipeline": "QwenImageControlNetModel",
    "HunyuanDiTPipeline": "HunyuanDiT2DControlNetModel",
    "SanaPipeline": "SanaControlNetModel",
    "ZImagePipeline": "ZImageControlNetModel",
}
"""Pipelines that have one with a ControlNet beside it, and the class of that."""


def used_with(what: str, model: Path, folder: Path, given: Path) -> Fields | None:
    """What to ask for; None where the pipeline can do no such thing. given: a picture."""
    pipe = tiny.load_tiny(model)
    torch.manual_seed(7)
    match what:
        case "LoRA":
            return _lora(pipe, folder)
        case "ControlNet":
            return _control(pipe, folder, given)
        case "IP-Adapter":
            return _adapter(pipe, model, folder, given)
        case _:
            way = LATENT if type(getattr(pipe, "vae", None)).__name__ != "AutoencoderDC" and hasattr(pipe, "vae") else LANCZOS
            return {"hires": Hires(scale=2, steps=2, strength=0.6, upscaler=way)} if _draws_over(pipe) else None


def _denoiser(pipe: Any) -> Any:
    return getattr(pipe, "unet", None) or getattr(pipe, "transformer", None)


def _lora(pipe: Any, folder: Path) -> Fields | None:
    """On two layers of every attention of the denoiser, whatever they are called, in the form that diffusers writes."""
    denoiser = _denoiser(pipe)
    if not hasattr(pipe, "load_lora_weights") or not hasattr(denoiser, "add_adapter"):
        return None
    linear = [name for name, one in denoiser.named_modules() if isinstance(one, torch.nn.Linear)]
    chosen = [name for name in linear if name.endswith((".to_q", ".to_v", ".qkv", ".attention.to_q"))]
    assert chosen, "no attention of it has a name that is known here"
    denoiser.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=chosen, init_lora_weights=False))
    kind = "unet" if getattr(pipe, "unet", None) is not None else "transformer"
    saved = {f"{kind}_lora_layers": get_peft_model_state_dict(denoiser)}
    type(pipe).save_lora_weights(folder, weight_name="lora.safetensors", **saved)
    return {"loras": (Lora(path=str(folder / "lora.safetensors")),)}


def _control(pipe: Any, folder: Path, given: Path) -> Fields | None:
    kind = _NETS.get(type(pipe).__name__)
    if kind is None:
        return None
    net = _net(kind, pipe)
    tiny.liven(net)
    return {"controls": (Control(path=str(save_net(net, folder / "net")), image=str(given)),)}


def _net(kind: str, pipe: Any) -> Any:
    """Beside the denoiser, with numbers of its own."""
    made: Any = getattr(diffusers, kind)
    denoiser = _denoiser(pipe)
    heads = {"attention_head_dim": 16, "num_attention_heads": 2}
    match kind:
        case "ControlNetModel":
            return made.from_unet(denoiser, conditioning_embedding_out_channels=(4, 8), load_weights_from_unet=False)
        case "SD3ControlNetModel":
            return made.from_transformer(denoiser, num_layers=1, num_extra_conditioning_channels=0)
        case "FluxControlNetModel":
            return made.from_transformer(denoiser, num_layers=1, num_single_layers=1, **heads)
        case "QwenImageControlNetModel":
            own = {name: denoiser.config[name] for name in heads}
            return made.from_transformer(denoiser, num_layers=1, load_weights_from_transformer=False, **own)
        case "HunyuanDiT2DControlNetModel":
            return made.from_transformer(denoiser, transformer_num_layers=4, load_weights_from_transformer=False)
        case "SanaControlNetModel":
            known = inspect.signature(made.__init__).parameters
            return made.from_config({name: value for name, value in denoiser.config.items() if name in known} | {"num_layers": 1})
        case _:
            raise AssertionError(f"diffusers has {kind}, Halftone runs none")


def _adapter(pipe: Any, model: Path, folder: Path, given: Path) -> Fields | None:
    if not hasattr(pipe, "load_ip_adapter"):
        return None
    file = folder / "adapter.safetensors"
    match type(_denoiser(pipe)).__name__:
        case "UNet2DConditionModel":
            save_adapter(model, file)
        case "FluxTransformer2DModel" | "ChromaTransformer2DModel":
            save_flux_adapter(pipe.transformer, file)
        case "SD3Transformer2DModel":
            save_sd3_adapter(pipe.transformer, file)
        case other:
            raise AssertionError(f"diffusers has IP-Adapters for a {other}, Halftone has none")
    (save_siglip if "SD3" in type(_denoiser(pipe)).__name__ else save_encoder)(folder)
    return {"ip_adapters": (IpAdapter(path=str(file), images=(str(given),)),)}


def _draws_over(pipe: Any) -> bool:
    """Whether it, or what diffusers has beside it, begins with a picture and a strength. What draws inside of a mask makes no
    first picture that a second pass could enlarge as a whole: there A1111 has none either.
    """
    own = type(pipe).__name__
    if any(word in own for word in ("Inpaint", "Fill")):
        return False
    beside = own.replace("Combined", "Img2ImgCombined") if "Combined" in own else own.replace("Pipeline", "Img2ImgPipeline")
    kinds = [getattr(diffusers, name) for name in (own, beside) if hasattr(diffusers, name)]
    return any("strength" in inspect.signature(kind.__call__).parameters for kind in kinds)
