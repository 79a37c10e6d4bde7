"""A UNet and a Control-LoRA for it, whose numbers are given by formulas: other programs can be given the same ones."""

import math
from typing import Any

import torch
from diffusers import ControlNetModel, ControlNetUnionModel, UNet2DConditionModel
from tests.helpers.controls import original_name
from tests.helpers.originals import unet_name

TEXT = 16
RANK = 2


def numbers(seed: int, shape: tuple[int, ...], scale: float = 1.0) -> torch.Tensor:
    count = math.prod(shape)
    return (scale * torch.cos(torch.arange(count, dtype=torch.float64) * 1.7 + seed * 0.37)).float().reshape(shape)


def fill(module: torch.nn.Module, seed: int) -> None:
    with torch.no_grad():
        for index, (_, parameter) in enumerate(sorted(module.named_parameters())):
            shape = tuple(parameter.shape)
            if len(shape) == 1:
                parameter.copy_(numbers(seed + index, shape, 0.1) + (0.5 if parameter.mean() > 0.5 else 0.0))
            else:
                parameter.copy_(numbers(seed + index, shape, 1 / math.sqrt(math.prod(shape[1:]))))


def formula_unet() -> Any:
    made: Any = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=TEXT,
        attention_head_dim=4,
    )
    fill(made, 1)
    return made.eval()


def formula_control_lora(unet: Any) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(tensors of the file, those of the UNet that it needs), both in the original names."""
    net = formula_net(unet, 500)
    own = unet.state_dict()
    file = {"lora_controlnet": torch.zeros(1)}
    for index, (name, value) in enumerate(sorted(net.state_dict().items())):
        theirs, shape = original_name(name, net), tuple(value.shape)
        if name not in own or value.dim() < 2:
            file[theirs] = value
            continue
        stem = theirs.removesuffix(".weight")
        up = numbers(900 + index, (shape[0], RANK), 0.3)
        file[f"{stem}.up"] = up[:, :, None, None] if len(shape) == 4 else up
        file[f"{stem}.down"] = numbers(1300 + index, (RANK, *shape[1:]), 0.3 / math.sqrt(math.prod(shape[1:])))
    return file, {original_name(name, net): own[name] for name in net.state_dict() if name in own}


def formula_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(latents, words, control picture from 0 to 1)."""
    return numbers(3, (1, 4, 8, 8)), numbers(4, (1, 7, TEXT)), numbers(5, (1, 3, 64, 64), 0.5) + 0.5


def formula_shown(index: int) -> torch.Tensor:
    """Another control picture."""
    return numbers(20 + index, (1, 3, 64, 64), 0.5) + 0.5


def formula_net(unet: Any, seed: int) -> Any:
    """A ControlNet for that UNet."""
    made: Any = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(16, 32, 96, 256))
    fill(made, seed)
    return made.eval()


def thinned(tensor: torch.Tensor) -> list[float]:
    """Every 61st number."""
    return tensor.flatten()[::61].tolist()


READER_TEXT = {"sd15": 32, "sdxl": 2048}
"""Widths of the words of `formula_reader`: by 2048 ComfyUI's IP-Adapters know SDXL."""
ENCODED, SEEN = 24, 20
"""Widths of an image encoder's parts and of its picture as a whole."""
FACE = 512


def formula_reader(family: str) -> Any:
    """A UNet with as many blocks and layers of attention as SD 1.5 or SDXL has, each 32 wide."""
    xl = family == "sdxl"
    attention = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D")
    layers: Any = (1, 2, 10) if xl else 1
    made: Any = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32,) * (3 if xl else 4),
        layers_per_block=2,
        down_block_types=("DownBlock2D", attention[0], attention[0]) if xl else (*attention[:1] * 3, "DownBlock2D"),
        up_block_types=(attention[1], attention[1], "UpBlock2D") if xl else ("UpBlock2D", *attention[1:] * 3),
        cross_attention_dim=READER_TEXT[family],
        attention_head_dim=2,
        use_linear_projection=xl,
        transformer_layers_per_block=layers,
        addition_embed_type="text_time" if xl else None,
        addition_time_embed_dim=8 if xl else None,
        projection_class_embeddings_input_dim=60 if xl else None,
    )
    fill(made, 1)
    return made.eval()


def formula_adapter(unet: Any, form: str) -> dict[str, torch.Tensor]:
    """An IP-Adapter's file for such a UNet. form: "plain", "plus", "full face" or "face" (FaceID, with LoRAs)."""
    text = int(unet.config.cross_attention_dim)
    wide, inner = (64, 128) if text == READER_TEXT["sdxl"] else (text, 768)
    shapes: dict[str, tuple[int, ...]] = {
        "plain": {"proj.weight": (4 * text, SEEN), "proj.bias": (4 * text,), **_normed("norm", text)},
        "full face": {
            "proj.0.weight": (ENCODED, ENCODED), "proj.0.bias": (ENCODED,), "proj.2.weight": (text, ENCODED),
            "proj.2.bias": (text,), **_normed("proj.3", text),
        },
        "plus": _resampler(wide, inner, text),
        "face": {
            "proj.0.weight": (FACE, FACE), "proj.0.bias": (FACE,), "proj.2.weight": (4 * text, FACE), "proj.2.bias": (4 * text,),
            **_normed("norm", text),
        },
    }[form]  # fmt: skip
    tensors = {f"image_proj.{name}": _filled(700 + index, shape, name) for index, (name, shape) in enumerate(shapes.items())}
    for index, name in enumerate(unet.attn_processors):
        if name.endswith("attn2.processor"):
            for part in ("to_k_ip", "to_v_ip"):
                seed = 1000 + 2 * index + (part == "to_v_ip")
                tensors[f"ip_adapter.{index}.{part}.weight"] = numbers(seed, (32, text), 1.5 / math.sqrt(text))
    return tensors | (_face_loras(unet) if form == "face" else {})


def _face_loras(unet: Any) -> dict[str, torch.Tensor]:
    """LoRAs for every layer of attention, by their number."""
    tensors: dict[str, torch.Tensor] = {}
    for index, name in enumerate(unet.attn_processors):
        for place, part in enumerate(("q", "k", "v", "out")):
            layer = unet.get_submodule(name.removesuffix("processor") + f"to_{part}".replace("to_out", "to_out.0"))
            start, seed = f"ip_adapter.{index}.to_{part}_lora", 5000 + 8 * index + 2 * place
            tensors[f"{start}.down.weight"] = numbers(seed, (3, layer.in_features), 1.5 / math.sqrt(layer.in_features))
            tensors[f"{start}.up.weight"] = numbers(seed + 1, (layer.out_features, 3), 0.3)
    return tensors


def _filled(seed: int, shape: tuple[int, ...], name: str) -> torch.Tensor:
    if len(shape) > 1:
        return numbers(seed, shape, 1.5 / math.sqrt(shape[-1]))
    return numbers(seed, shape, 0.1) + ("norm" in name and name.endswith("weight"))


def _normed(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _resampler(wide: int, inner: int, text: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "latents": (1, 16, wide), "proj_in.weight": (wide, ENCODED), "proj_in.bias": (wide,), "proj_out.weight": (text, wide),
        "proj_out.bias": (text,), **_normed("norm_out", text),
    }  # fmt: skip
    for at in (f"layers.{block}" for block in range(4)):
        shapes |= _normed(f"{at}.0.norm1", wide) | _normed(f"{at}.0.norm2", wide) | _normed(f"{at}.1.0", wide)
        shapes |= {f"{at}.0.to_q.weight": (inner, wide), f"{at}.0.to_kv.weight": (2 * inner, wide)}
        shapes |= {
            f"{at}.0.to_out.weight": (wide, inner),
            f"{at}.1.1.weight": (4 * wide, wide),
            f"{at}.1.3.weight": (wide, 4 * wide),
        }
    return shapes


def formula_sight(form: str, seed: int, pictures: int = 1) -> torch.Tensor:
    """What an image encoder gives of pictures, or insightface of their faces, as this form of an IP-Adapter takes it."""
    if form == "face":
        return numbers(seed, (pictures, FACE), math.sqrt(2 / FACE))
    return numbers(seed, (pictures, SEEN) if form == "plain" else (pictures, 9, ENCODED))


LIGHT_TEXT = 32


def formula_lit_unet() -> Any:
    """A UNet with SDXL's blocks, one layer of attention each, as narrow as sd-scripts' can be made."""
    heads: Any = (1, 1, 2)
    made: Any = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64, 128),
        layers_per_block=2,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=LIGHT_TEXT,
        attention_head_dim=heads,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=4,
        projection_class_embeddings_input_dim=40,
    )
    fill(made, 1)
    return made.eval()


def formula_lllite(unet: Any, seed: int = 3000) -> dict[str, torch.Tensor]:
    """A ControlNet-LLLite's file for such a UNet: the queries, keys and values of each attention on the way down, as kohya's."""
    tensors: dict[str, torch.Tensor] = {}
    emb, mlp = 8, 6
    for index, (name, layer) in enumerate(unet.named_modules()):
        if not name.startswith(("down_blocks", "mid_block")) or not name.endswith(
            ("attn1.to_q", "attn1.to_k", "attn1.to_v", "attn2.to_q")
        ):
            continue
        deep = 3 if name.startswith(("mid_block", "down_blocks.2")) else 2
        start = "lllite_unet_" + unet_name(name, unet).replace(".", "_")
        inner, edge = emb // 2, 4 if deep == 2 else 2
        convs = [(inner, 3, 4, 4), *([(inner, inner, 4, 4)] if deep == 3 else []), (emb, inner, edge, edge)]
        shapes: dict[str, tuple[int, ...]] = {f"conditioning1.{2 * at}": shape for at, shape in enumerate(convs)}
        wide = layer.in_features
        shapes |= {"down.0": (mlp, wide), "mid.0": (mlp, mlp + emb), "up.0": (wide, mlp)}
        for at, (part, shape) in enumerate(shapes.items()):
            own = seed + 20 * index + at
            tensors[f"{start}.{part}.weight"] = numbers(
                own, shape, (12 if part == "up.0" else 1.5) / math.sqrt(math.prod(shape[1:]))
            )
            tensors[f"{start}.{part}.bias"] = numbers(own + 7, shape[:1], 0.2)
    return tensors


def formula_lit_inputs() -> dict[str, torch.Tensor]:
    """Latents, words, the pooled vector with SDXL's six sizes, and a control picture from 0 to 1."""
    return {
        "sample": numbers(3, (1, 4, 16, 16)),
        "words": numbers(4, (1, 7, LIGHT_TEXT)),
        "pooled": numbers(6, (1, 16)),
        "sizes": torch.tensor([[128.0, 128.0, 0.0, 0.0, 128.0, 128.0]]),
        "picture": numbers(5, (1, 3, 128, 128), 0.5) + 0.5,
    }


def formula_union() -> Any:
    """A ControlNet Union for six kinds, whose widths are those that ComfyUI's class has fixed."""
    heads: Any = (5, 10)
    made: Any = ControlNetUnionModel(
        block_out_channels=(320, 640),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=heads,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=6 * 256 + 16,
        conditioning_embedding_out_channels=(16, 32, 96, 256),
        num_control_type=6,
        num_trans_channel=320,
        num_proj_channel=320,
    )
    fill(made, 40)
    return made.eval()


def comfyui_name(name: str, net: Any) -> str:
    """Of a parameter of a ControlNet Union in ComfyUI's class."""
    if name.startswith(("task_embedding", "transformer_layes", "spatial_ch_projs", "control_add_embedding")):
        return name.replace(".attn.in_proj_", ".attn.in_proj.")
    return original_name(name, net)
