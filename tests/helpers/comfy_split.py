"""Tiny models of newer families as diffusers folders, and the same in the files that ComfyUI keeps their parts in."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import diffusers
import torch
import transformers
from tests.bench.faults.parts import letters, qwen_tokenizer
from tests.helpers.file_forms import save
from tests.helpers.originals import vae_tensors
from tests.helpers.tiny import liven, t5_tokenizer

from halftone.library.families.layer_names import NAMINGS, layer_places
from halftone.library.files.small_files import LLAMA3, QWEN3, QWEN25, UMT5, SmallFile
from halftone.library.prompts.tokens import END, START, merges, vocabulary

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
    family: str = ""
    """Where it is another name."""
    base: str = ""
    """Which model of the family, where that matters."""
    whole: bool = True
    """Whether the picture is compared with that of the folder."""
    packed: bool = True
    """Whether packed files of it are tried."""
    table: int = 0
    """Words of the text encoder's table, by which it is recognised: more than its tokenizer has here. All but the first are zero,
    and take no place on the disk.
    """


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
    if split.table:
        _widen(pipe.text_encoder, split.table)
    file = models / "diffusion_models" / split.transformer
    file.parent.mkdir(parents=True)
    save(split.original(pipe.transformer), file)
    for component, (name, tensors) in split.files.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        put = save_with_holes if split.table and component == "text_encoder" else save
        put(tensors(pipe.components[component]), models / name)
    put_words(pipe.components[split.words[1]], split.words[0])
    return pipe, file


def _widen(encoder: Any, words: int) -> None:
    """Give the encoder a table of so many words; memory is taken for those alone that are not zero."""
    small = encoder.get_input_embeddings().weight.data
    whole = torch.zeros(words, small.shape[1], dtype=small.dtype)
    whole[: small.shape[0]] = small
    encoder.get_input_embeddings().weight.data = whole
    encoder.config.vocab_size = words


def save_folder(split: Split, pipe: Any, folder: Path) -> None:
    """The pipeline as a diffusers folder."""
    if not split.table:
        pipe.save_pretrained(folder)
        return
    encoder = pipe.text_encoder
    table, whole = encoder.get_input_embeddings(), encoder.get_input_embeddings().weight.data
    table.weight.data = whole[:_FEW].clone()
    pipe.save_pretrained(folder)
    table.weight.data = whole
    save_with_holes(encoder.state_dict(), folder / "text_encoder" / "model.safetensors")


_FEW = 300
"""Words of the tables here."""


def save_with_holes(tensors: Tensors, path: Path) -> None:
    """In bfloat16; of large tensors only the first rows are written, which are all that is not zero."""
    header, end = dict[str, Any](), 0
    for name, value in tensors.items():
        size = 2 * value.numel()
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [end, end + size]}
        end += size
    head = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        start = file.tell()
        for name, value in tensors.items():
            file.seek(start + header[name]["data_offsets"][0])
            some = value[:_FEW] if value.numel() > 10**8 else value
            file.write(some.to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
        file.truncate(start + end)


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
    return diffusers.AutoencoderKL(**kinds, **sizes, **factors, use_quant_conv=False, use_post_quant_conv=False)


def z_image(shift: float = 6.0) -> Any:
    config = transformers.Qwen3Config(
        vocab_size=300, hidden_size=2560, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip
    return diffusers.ZImagePipeline(
        transformer=diffusers.ZImageTransformer2DModel(
            in_channels=16, dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=2560,
            axes_dims=[4, 6, 6], axes_lens=[1536, 512, 512],
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=shift),
        vae=_vae(),
        text_encoder=transformers.Qwen3Model(config),
        tokenizer=qwen_tokenizer(),
    )  # fmt: skip


def _qwen_image() -> Any:
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 3584, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 28,
            "num_key_value_heads": 1, "vocab_size": 300, "rms_norm_eps": 1e-6,
            "rope_parameters": {"mrope_section": [16, 24, 24], "rope_type": "default", "rope_theta": 1e6},
        },
        vision_config={"depth": 1, "hidden_size": 64, "intermediate_size": 16, "num_heads": 16, "out_hidden_size": 3584},
    )  # fmt: skip
    return diffusers.QwenImagePipeline(
        transformer=diffusers.QwenImageTransformer2DModel(
            in_channels=64, out_channels=16, num_layers=2, attention_head_dim=32, num_attention_heads=2,
            joint_attention_dim=3584, axes_dims_rope=(4, 14, 14),
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(
            base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9, shift=1.0,
            shift_terminal=cast("Any", 0.02), use_dynamic_shifting=True,
        ),
        vae=diffusers.AutoencoderKLQwenImage(
            base_dim=8, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True]
        ),
        text_encoder=transformers.Qwen2_5_VLForConditionalGeneration(config),
        tokenizer=qwen_tokenizer(),
    )  # fmt: skip


_WAN_RESIDUAL = {"norm1": "residual.0", "conv1": "residual.2", "norm2": "residual.3", "conv2": "residual.6"}
_WAN_OUTER = {
    "quant_conv": "conv1", "post_quant_conv": "conv2", "encoder.conv_in": "encoder.conv1", "decoder.conv_in": "decoder.conv1",
    "encoder.norm_out": "encoder.head.0", "encoder.conv_out": "encoder.head.2", "decoder.norm_out": "decoder.head.0",
    "decoder.conv_out": "decoder.head.2", "mid_block.resnets.0": "middle.0", "mid_block.attentions.0": "middle.1",
    "mid_block.resnets.1": "middle.2", "encoder.down_blocks": "encoder.downsamples", "conv_shortcut": "shortcut",
}  # fmt: skip


def wan_vae_tensors(vae: Any) -> Tensors:
    """A VAE of Wan 2.1 in its makers' names: a level of the decoder has one residual block more than that of the encoder."""
    level = vae.config.num_res_blocks + 2
    found = Tensors()
    for name, value in vae.state_dict().items():
        own = name
        if (up := re.match(r"decoder\.up_blocks\.(\d+)\.(resnets|upsamplers)\.(\d+)\.(.*)", name)) is not None:
            at = int(up[3]) if up[2] == "resnets" else level - 1
            own = f"decoder.upsamples.{int(up[1]) * level + at}.{up[4]}"
        for ours, theirs in (*_WAN_RESIDUAL.items(), *_WAN_OUTER.items()) if "." in own else ():
            inner = r"(^|\.)" if ours not in ("quant_conv", "post_quant_conv") else "(^)"
            residual = ours in _WAN_RESIDUAL and not re.search(r"(resnets|blocks|upsamples)\.\d+\.\w", own)
            own = own if residual else re.sub(rf"{inner}{re.escape(ours)}\.", rf"\g<1>{theirs}.", own, count=1)
        found[own] = value
    assert len(found) == len(vae.state_dict())
    return found


def _qwen_tensors(encoder: Any) -> Tensors:
    """As Qwen published it."""
    names = (("model.language_model.", "model."), ("model.visual.", "visual."))
    found = encoder.state_dict()
    for ours, theirs in names:
        found = {theirs + name.removeprefix(ours) if name.startswith(ours) else name: value for name, value in found.items()}
    return found


def as_it_is(network: Any) -> Tensors:
    return network.state_dict()


def _wan() -> Any:
    config = transformers.UMT5Config(
        vocab_size=256, d_model=4096, d_kv=8, d_ff=16, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"
    )
    return diffusers.WanPipeline(
        transformer=diffusers.WanTransformer3DModel(
            num_attention_heads=1, attention_head_dim=128, text_dim=4096, freq_dim=32, ffn_dim=32, num_layers=2
        ),
        scheduler=cast(
            "Any",
            diffusers.UniPCMultistepScheduler(
                beta_start=0.0001, beta_end=0.02, prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
            ),
        ),
        vae=diffusers.AutoencoderKLWan(
            base_dim=8, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True]
        ),
        text_encoder=transformers.UMT5EncoderModel(config),
        tokenizer=t5_tokenizer(),
    )


def wan_original(network: Any) -> Tensors:
    bare = {"scale_shift_table": "head.modulation"}
    bare |= {f"blocks.{index}.scale_shift_table": f"blocks.{index}.modulation" for index in range(network.config.num_layers)}
    return written_back(network, bare)


def umt5_tensors(encoder: Any) -> Tensors:
    """With its tokenizer's words beside the weights, and one of the two tables of words."""
    found = {name: value for name, value in encoder.state_dict().items() if name != "encoder.embed_tokens.weight"}
    return found | {"spiece_model": torch.zeros(7, dtype=torch.uint8)}


_LLAMA_MARKS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<pad>", "<|end_of_text|>")


def _llama_tokenizer() -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=letters(*_LLAMA_MARKS),
        bos_token="<|begin_of_text|>",
        eos_token="<|end_of_text|>",
        pad_token="<pad>",
        model_max_length=256,
    )


def _clip_l() -> Any:
    config = transformers.CLIPTextConfig(
        vocab_size=49408, hidden_size=768, intermediate_size=8, num_hidden_layers=1, num_attention_heads=12, projection_dim=768,
        eos_token_id=2, hidden_act="quick_gelu",
    )  # fmt: skip
    return transformers.CLIPTextModel(config)


def _hunyuan_video() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=_FEW, hidden_size=4096, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 5e5}, rms_norm_eps=1e-5,
    )  # fmt: skip
    kinds: Any = {"down_block_types": ("HunyuanVideoDownBlock3D",) * 4, "up_block_types": ("HunyuanVideoUpBlock3D",) * 4}
    return diffusers.HunyuanVideoPipeline(
        transformer=diffusers.HunyuanVideoTransformer3DModel(
            num_attention_heads=1, attention_head_dim=32, num_layers=1, num_single_layers=1, num_refiner_layers=1,
            mlp_ratio=2.0, rope_axes_dim=(4, 14, 14),
        ),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0),
        vae=diffusers.AutoencoderKLHunyuanVideo(block_out_channels=cast("Any", (32,) * 4), layers_per_block=1, **kinds),
        text_encoder=transformers.LlamaModel(config),
        tokenizer=_llama_tokenizer(),
        text_encoder_2=_clip_l(),
        tokenizer_2=bundled_tokenizer(),
    )  # fmt: skip


def bundled_tokenizer() -> Any:
    """CLIP's own, which models in one file have from Halftone."""
    marks: dict[str, Any] = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END, "model_max_length": 77}
    return transformers.CLIPTokenizer(vocab=vocabulary(), merges=cast("Any", merges()), **marks)


def _clip_tensors(encoder: Any) -> Tensors:
    held = encoder.state_dict().items()
    return {name if name.startswith("text_") else f"text_model.{name}": value for name, value in held}


def comfyui_names(network: Any) -> Tensors:
    """HunyuanVideo as ComfyUI names its tensors."""
    found = Tensors()
    for name, value in written_back(network).items():
        own = name
        for theirs, other in _HUNYUAN_COMFYUI:
            own = own.replace(theirs, other)
        found[own] = value
    return found


_HUNYUAN_COMFYUI = (
    ("txt_in.t_embedder.mlp.0.", "txt_in.t_embedder.in_layer."), ("txt_in.t_embedder.mlp.2.", "txt_in.t_embedder.out_layer."),
    ("txt_in.c_embedder.linear_1.", "txt_in.c_embedder.in_layer."),
    ("txt_in.c_embedder.linear_2.", "txt_in.c_embedder.out_layer."),
    ("_mod.linear.", "_mod.lin."), ("_attn_qkv.", "_attn.qkv."), ("mlp.fc1.", "mlp.0."), ("mlp.fc2.", "mlp.2."),
    ("_attn_q_norm.weight", "_attn.norm.query_norm.scale"), ("_attn_k_norm.weight", "_attn.norm.key_norm.scale"),
    (".q_norm.weight", ".norm.query_norm.scale"), (".k_norm.weight", ".norm.key_norm.scale"), ("_attn_proj.", "_attn.proj."),
    (".modulation.linear.", ".modulation.lin."), ("_in.mlp.2.", "_in.out_layer."), ("_in.mlp.0.", "_in.in_layer."),
)  # fmt: skip
"""What ComfyUI replaces when it reads Tencent's file."""
_HUNYUAN = Split(
    _hunyuan_video,
    "hunyuan_video_t2v_720p_bf16.safetensors",
    written_back,
    {
        "text_encoder": ("text_encoders/llava_llama3_fp16.safetensors", with_start("model.")),
        "text_encoder_2": ("text_encoders/clip_l.safetensors", _clip_tensors),
        "vae": ("vae/hunyuan_video_vae_bf16.safetensors", vae_tensors),
    },
    (LLAMA3, "tokenizer"),
    {"text_encoder": "the text encoder LLaVA Llama 3 8B"},
    table=128320,
)
SPLITS: dict[str, Split] = {
    "Z-Image": Split(
        z_image,
        "z_image_bf16.safetensors",
        written_back,
        {
            "text_encoder": ("text_encoders/qwen_3_4b.safetensors", with_start("model.")),
            "vae": ("vae/ae.safetensors", vae_tensors),
        },
        (QWEN3, "tokenizer"),
        {"text_encoder": "the text encoder Qwen3 4B", "vae": "the VAE"},
    ),
    "Qwen-Image": Split(
        _qwen_image,
        "qwen_image_bf16.safetensors",
        as_it_is,
        {
            "text_encoder": ("text_encoders/qwen_2.5_vl_7b.safetensors", _qwen_tensors),
            "vae": ("vae/qwen_image_vae.safetensors", wan_vae_tensors),
        },
        (QWEN25, "tokenizer"),
        {"text_encoder": "the text encoder Qwen2.5-VL 7B", "vae": "the VAE"},
    ),
    "Wan": Split(
        _wan,
        "wan2.1_t2v_bf16.safetensors",
        wan_original,
        {
            "text_encoder": ("text_encoders/umt5_xxl_fp16.safetensors", umt5_tensors),
            "vae": ("vae/wan_2.1_vae.safetensors", wan_vae_tensors),
        },
        (UMT5, "tokenizer"),
        {"text_encoder": "the text encoder UMT5-XXL", "vae": "the VAE"},
    ),
    "HunyuanVideo": _HUNYUAN,
    "HunyuanVideo as ComfyUI names it": replace(_HUNYUAN, original=comfyui_names, lacking={}, family="HunyuanVideo", whole=False),
}
