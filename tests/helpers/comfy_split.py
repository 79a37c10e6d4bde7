"""Tiny models of newer families as diffusers folders, and the same in the files that ComfyUI keeps their parts in."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import diffusers as D
import torch
import transformers as T
from tests.bench.faults.parts import qwen_tokenizer
from tests.helpers.file_forms import save
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import liven

from halftone.library.families.layer_names import NAMINGS, layer_places
from halftone.library.files.small_files import QWEN3, SmallFile

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Split:
    """build: the pipeline. transformer: name of its file; files: component -> (file below the folder of models, its tensors
    there). words: the tokenizer's file and the component that it is of.
    """

    build: Callable[[], Any]
    transformer: str
    original: Callable[[Any], Tensors]
    files: dict[str, tuple[str, Callable[[Any], Tensors]]]
    words: tuple[SmallFile, str]
    lacking: dict[str, str] = field(default_factory=dict[str, str])
    """Component -> what is said where its file lacks."""


def written_back(network: Any, bare: Mapping[str, str] | None = None) -> Tensors:
    """A transformer in the names of its makers, joined and swapped as they have it. bare: parameter -> tensor, beside layers."""
    naming, own = NAMINGS[type(network).__name__], cast("Tensors", network.state_dict())
    sizes = {name.removesuffix(".weight"): value.shape[0] for name, value in own.items() if name.endswith(".weight")}
    left, found = dict(own), Tensors()
    for layer, places in layer_places(naming, sizes).items():
        for kind in ("weight", "bias"):
            parts = [left.pop(f"{name}.{kind}") for name in places if f"{name}.{kind}" in left]
            if parts:
                value = torch.cat(parts)
                swapped = next(iter(places.values())).swapped
                end = "scale" if layer.endswith(("query_norm", "key_norm")) else kind
                found[f"{layer}.{end}"] = torch.cat(value.chunk(2)[::-1]) if swapped else value
    return found | {(bare or {}).get(name, name): value for name, value in left.items()}


def save_split(split: Split, models: Path) -> tuple[Any, Path]:
    """In the folders of ComfyUI, and the tokenizer where Halftone keeps it; the pipeline, and the transformer's file."""
    torch.manual_seed(0)
    pipe = split.build()
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            liven(part)
            part.to(torch.bfloat16)
    file = models / "diffusion_models" / split.transformer
    file.parent.mkdir(parents=True)
    save(split.original(pipe.transformer), file)
    for component, (name, tensors) in split.files.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        save(tensors(pipe.components[component]), models / name)
    put_words(pipe.components[split.words[1]], split.words[0])
    return pipe, file


def put_words(tokenizer: Any, file: SmallFile) -> None:
    """The tokenizer where Halftone keeps the published one, with as many words."""
    file.place.parent.mkdir(parents=True, exist_ok=True)
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    vocab = content["model"]["vocab"]
    if isinstance(vocab, dict):
        content["model"]["vocab"] = vocab | {f"\ue000{number}": number for number in range(len(vocab), file.words[0])}
    else:
        vocab += [[f"\ue000{number}", -9.0] for number in range(file.words[0] - len(vocab))]
    file.place.write_text(json.dumps(content))


def with_start(start: str) -> Callable[[Any], Tensors]:
    """The tensors of a network with this before each name."""
    return lambda network: {start + name: value for name, value in network.state_dict().items()}


def _vae() -> Any:
    kinds: Any = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    sizes: Any = {"block_out_channels": (32, 32), "layers_per_block": 1, "latent_channels": 16}
    factors: Any = {"scaling_factor": 0.3611, "shift_factor": 0.1159, "sample_size": 1024}
    return D.AutoencoderKL(**kinds, **sizes, **factors, use_quant_conv=False, use_post_quant_conv=False)


def _z_image() -> Any:
    config = T.Qwen3Config(
        vocab_size=300, hidden_size=2560, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip
    return D.ZImagePipeline(
        transformer=D.ZImageTransformer2DModel(
            in_channels=16, dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=2560,
            axes_dims=[4, 6, 6], axes_lens=[1536, 512, 512],
        ),
        scheduler=D.FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=_vae(),
        text_encoder=T.Qwen3Model(config),
        tokenizer=qwen_tokenizer(),
    )  # fmt: skip


SPLITS: dict[str, Split] = {
    "Z-Image": Split(
        _z_image,
        "z_image_bf16.safetensors",
        written_back,
        {
            "text_encoder": ("text_encoders/qwen_3_4b.safetensors", with_start("model.")),
            "vae": ("vae/ae.safetensors", vae_tensors),
        },
        (QWEN3, "tokenizer"),
        {"text_encoder": "the text encoder Qwen3 4B", "vae": "the VAE"},
    ),
}
