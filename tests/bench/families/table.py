"""Every family that Halftone knows to run: how a tiny one is made, what it is to be recognised as, and what it can do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tests.bench.families import flows, kin, moving, stages
from tests.bench.families.remade import remade
from tests.bench.faults import architectures as pictures
from tests.bench.faults import videos
from tests.bench.faults.parts import ddim
from tests.helpers import tiny

from halftone.contract.request import OptionValue

Task = Literal["text", "picture", "mask"]
"""What a picture or a video is made from: a prompt alone, a prompt and a picture, these and a mask."""
TASKS: Final[tuple[Task, ...]] = ("text", "picture", "mask")

Published = tuple[str, str, dict[str, Any]]
"""Part, class and configuration."""
_TEXT: Final[tuple[Task, ...]] = ("text",)
_BOTH: Final[tuple[Task, ...]] = ("text", "picture")
_PICTURE: Final[tuple[Task, ...]] = ("picture",)
_MASK: Final[tuple[Task, ...]] = ("mask",)
_SHORT: Final[dict[str, OptionValue]] = {"max_sequence_length": 32}
_PRIOR: Final[dict[str, OptionValue]] = {"prior_num_inference_steps": 2}
_OWN_SIZE: Final[dict[str, OptionValue]] = {**_SHORT, "use_resolution_binning": False}


@dataclass(frozen=True)
class Case:
    """family, prediction, base: as it is to be recognised. tasks: what its pipelines in diffusers can do."""

    name: str
    build: Callable[[], Any]
    family: str
    prediction: str = "flow"
    base: str = ""
    tasks: tuple[Task, ...] = TASKS
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    """Arguments beyond prompt, size and steps, by which it stays tiny."""
    size: int = 32
    frames: int | None = None
    folder: str = ""
    """How its folder is called, where words tell the base."""
    published: Published | None = None
    """Its published denoiser, where the tiny one does not tell the base."""
    amend: Callable[[Path], object] = lambda _folder: None
    """Writes into its folder what cannot be saved here."""
    parts: Callable[[Path], Mapping[str, Any]] = lambda _folder: {}
    """Of that folder, what diffusers' own `from_pretrained` cannot load here, ready made."""
    refused: str = ""
    """Words of the sentence, where it cannot run."""
    tight: str = ""
    """Why its numbers truly come close to the limit, where they do."""
    idle: tuple[str, ...] = ()
    """Parts that its pipeline never calls."""


def _cogvideox() -> Any:
    """As it is published: it predicts the velocity."""
    pipe = videos.cogvideox()
    pipe.register_modules(scheduler=ddim(prediction_type="v_prediction"))
    return pipe


def _hunyuandit() -> Any:
    """Deep enough that a ControlNet reaches it."""
    pipe = pictures.hunyuandit()
    pipe.register_modules(transformer=remade(pipe.transformer, num_layers=4))
    return pipe


def _kontext() -> dict[str, OptionValue]:
    """It brings every picture to a megapixel otherwise."""
    return {**_SHORT, "_auto_resize": False, "max_area": 64 * 64}


_GUIDED: Final = "it multiplies its guidance of 30 by 1000"
_EDIT: Final[tuple[Task, ...]] = ("picture", "mask")
_SD: Final = "Stable Diffusion"
_FIRST: Final = "first of two stages"
_SECOND: Final = "second of two stages"
_KANDINSKY: Final = "Kandinsky 2"
_SD3: Final[Published] = (
    "transformer",
    "SD3Transformer2DModel",
    {"num_layers": 24, "num_attention_heads": 24, "attention_head_dim": 64, "caption_projection_dim": 1536},
)
_FLUX2: Final[Published] = ("transformer", "Flux2Transformer2DModel", {})
_KLEIN: Final[Published] = (
    "transformer",
    "Flux2Transformer2DModel",
    {"num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24, "joint_attention_dim": 7680},
)
_SANA: Final[Published] = ("transformer", "SanaTransformer2DModel", {})
_WAN: Final[Published] = ("transformer", "WanTransformer3DModel", {})
_COG: Final[dict[str, OptionValue]] = {"max_sequence_length": 16}

CASES: Final = (
    Case("SD 1.x", tiny.sd15, f"{_SD} 1.x", "epsilon"),
    Case("SD 1.x inpaint", kin.sd15_inpaint, f"{_SD} 1.x", "epsilon", f"{_SD} 1.x inpainting", _MASK),
    Case("SD 1.x LCM", kin.sd15_lcm, f"{_SD} 1.x", "epsilon", f"{_SD} 1.x LCM", _BOTH),
    Case("SD 2.x", kin.sd2, f"{_SD} 2.x", "v_prediction"),
    Case("SD 2.x inpaint", kin.sd2_inpaint, f"{_SD} 2.x", "epsilon", f"{_SD} 2.x inpainting", _MASK),
    Case("SD Turbo", kin.sd_turbo, f"{_SD} 2.x", "epsilon", "SD Turbo", folder="sd-turbo"),
    Case("SDXL", tiny.sdxl, "SDXL", "epsilon"),
    Case("SDXL inpaint", kin.sdxl_inpaint, "SDXL", "epsilon", "SDXL inpainting", _MASK),
    Case("SDXL refiner", kin.refiner, "SDXL refiner", "epsilon", tasks=_PICTURE),
    Case("SDXL Turbo", kin.sdxl_turbo, "SDXL", "epsilon", "SDXL Turbo", folder="sdxl-turbo"),
    Case("SDXL Lightning", kin.sdxl_lightning, "SDXL", "epsilon", "SDXL Lightning", folder="sdxl-lightning-4step"),
    Case("SDXL LCM", kin.sdxl_lcm, "SDXL", "epsilon", "SDXL LCM"),
    Case("SD 3", flows.sd3, "SD 3", base="SD 3 medium", options=_SHORT, published=_SD3),
    Case("SD 3.5 medium", flows.sd35_medium, "SD 3", base="SD 3.5 medium", options=_SHORT),
    Case("SD 3.5 large", flows.sd35_large, "SD 3", base="SD 3.5 large", options=_SHORT),
    Case("FLUX.1 dev", flows.flux_dev, "FLUX", base="FLUX.1 dev", options=_SHORT, size=64),
    Case("FLUX.1 schnell", flows.flux_schnell, "FLUX", base="FLUX.1 schnell", options=_SHORT, size=64),
    Case("FLUX.1 Fill", flows.flux_fill, "FLUX", "flow", "FLUX.1 Fill", _MASK, _SHORT, 64, tight=_GUIDED),
    Case("FLUX.1 Kontext", flows.flux_kontext, "FLUX", base="FLUX.1 Kontext", options=_kontext(), size=64),
    Case("FLUX.2 dev", flows.flux2, "FLUX.2", "flow", "FLUX.2 dev", _BOTH, size=64, amend=flows.name_pixtral, published=_FLUX2),
    Case("FLUX.2 klein", flows.flux2_klein, "FLUX.2", base="FLUX.2 klein 4B", size=64, published=_KLEIN),
    Case("Sana", tiny.sana, "Sana", "flow", "Sana 1.6B", _TEXT, _OWN_SIZE, published=_SANA),
    Case("Sana Sprint", flows.sana_sprint, "Sana", "flow", "Sana Sprint", _BOTH, _OWN_SIZE),
    Case("PixArt-α", flows.pixart_alpha, "PixArt-α", "epsilon", tasks=_TEXT, options=_OWN_SIZE),
    Case("PixArt-Σ", pictures.pixart, "PixArt-Σ", "epsilon", tasks=_TEXT, options=_OWN_SIZE),
    Case("Kolors", kin.kolors, "Kolors", "epsilon", tasks=_BOTH, options=_SHORT),
    Case("HunyuanDiT", _hunyuandit, "HunyuanDiT", "v_prediction", "", _TEXT, {"use_resolution_binning": False}, 64),
    Case("HunyuanImage", videos.hunyuan_image, "HunyuanImage", tasks=_TEXT),
    Case("Lumina 2", pictures.lumina2, "Lumina 2", tasks=_TEXT, options={"max_sequence_length": 192}),
    Case("AuraFlow", pictures.auraflow, "AuraFlow", tasks=_TEXT, options=_SHORT),
    Case("Qwen-Image", videos.qwen_image, "Qwen-Image", options={"max_sequence_length": 256}),
    Case("Qwen-Image Edit", flows.qwen_edit, "Qwen-Image", "flow", "Qwen-Image Edit", _EDIT,
         amend=flows.name_qwen_vl, parts=flows.qwen_vl),
    Case("Z-Image", pictures.z_image, "Z-Image", options={"max_sequence_length": 64}),
    Case("CogView4", pictures.cogview4, "CogView4", tasks=_TEXT, options=_SHORT),
    Case("Chroma", pictures.chroma, "Chroma", options=_SHORT),
    Case("Stable Cascade", stages.cascade, "Stable Cascade", "epsilon", "", _TEXT, _PRIOR, 128, idle=("text_encoder",)),
    Case("Cascade's prior alone", stages.cascade_prior, "Stable Cascade", "epsilon", "", (), refused=_FIRST),
    Case("Cascade's decoder alone", stages.cascade_decoder, "Stable Cascade", "epsilon", "", (), refused=_SECOND),
    Case("Kandinsky 2.2", videos.kandinsky22, _KANDINSKY, "epsilon", "Kandinsky 2.2", _BOTH, _PRIOR),
    Case("Kandinsky 2.2 inpaint", stages.kandinsky22_inpaint, _KANDINSKY, "epsilon", f"{_KANDINSKY}.2 inpainting", _MASK, _PRIOR),
    Case("Kandinsky 2.2's prior alone", stages.kandinsky22_prior, _KANDINSKY, "epsilon", "", (), refused=_FIRST),
    Case("Kandinsky 2.2's decoder alone", stages.kandinsky22_decoder, _KANDINSKY, "epsilon", "", (), refused=_SECOND),
    Case("Kandinsky 3", videos.kandinsky3, "Kandinsky 3", "epsilon", tasks=_BOTH),
    Case("Stable Video Diffusion", moving.svd, "Stable Video Diffusion", "v_prediction", tasks=_PICTURE, frames=3),
    Case("Wan", videos.wan, "Wan", "flow", "Wan 14B", _TEXT, _SHORT, frames=5, published=_WAN),
    Case("Wan 2.2", moving.wan22, "Wan", tasks=_TEXT, options=_SHORT, frames=5),
    Case("Wan image to video", moving.wan_i2v, "Wan", "flow", "Wan 2.1 image to video", _PICTURE, _SHORT, frames=5),
    Case("LTX-Video", videos.ltx, "LTX-Video", tasks=_BOTH, options=_SHORT, frames=9),
    Case("LTX-Video image to video", moving.ltx_i2v, "LTX-Video", tasks=_PICTURE, options=_SHORT, frames=9),
    Case("CogVideoX", _cogvideox, "CogVideoX", "v_prediction", "", _TEXT, _COG, frames=9),
    Case("CogVideoX image to video", moving.cogvideox_i2v, "CogVideoX", "v_prediction", "", _PICTURE, _COG, frames=9),
)  # fmt: skip
