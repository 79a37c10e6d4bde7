"""Places in a network where numbers can be made larger or smaller by powers of two and made up for elsewhere.

Found by the names that diffusers and transformers give to their layers. Nothing here is trusted: `inject` measures in float32
that the picture stayed the same, and in float16 that the fault is there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import nn


@dataclass(frozen=True)
class Site:
    """Tensors that grow together by a power of two, tensors that shrink by as much to make up for it, and the first module that
    shows it.

    A tensor may be a part of a stored one: "proj.weight[:8]" (the first rows), "proj.weight[8:]" (the others).
    watch: modules whose outputs grow.
    """

    component: str
    kind: str
    grow: tuple[str, ...]
    shrink: tuple[str, ...]
    module: str
    watch: tuple[str, ...]


def part(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The rows that a name like "proj.weight[:8]" means."""
    found = re.search(r"\[(\d*):(\d*)\]$", name)
    if found is None:
        return tensor
    start, stop = (int(text) if text else None for text in found.groups())
    return tensor[start:stop]


def base(name: str) -> str:
    return name.partition("[")[0]


def own(prefix: str, module: Any, kinds: tuple[str, ...] = ("weight", "bias"), rows: str = "") -> list[str]:
    """Names of those tensors a layer has."""
    return [f"{prefix}.{kind}{rows}" for kind in kinds if isinstance(getattr(module, kind, None), torch.Tensor)]


def child(module: nn.Module, *names: str) -> tuple[str, nn.Module] | None:
    """The first of several names that the module has, dotted ones included."""
    for name in names:
        try:
            found = module.get_submodule(name)
        except AttributeError:
            continue
        if any(True for _ in found.parameters(recurse=False)):
            return name, found
    return None


def sites(component: str, module: nn.Module) -> Iterator[Site]:
    for name, owner in module.named_modules():
        if not name:
            continue
        yield from _values(component, name, owner)
        yield from _gates(component, name, owner)
        yield from _norms(component, name, owner)
        yield from _read_by_norms(component, name, owner)
    yield from _streams(component, module)


def _values(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """to_v, undone by the output projection."""
    yield from _fused_values(component, name, owner)
    value = child(owner, "to_v", "v_proj", "v", "self.value")
    out = child(owner, "to_out.0", "out_proj", "o_proj", "o", "to_out", "output.dense")
    if value is None or out is None or not isinstance(value[1], nn.Linear):
        return
    grow, shrink = own(f"{name}.{value[0]}", value[1]), own(f"{name}.{out[0]}", out[1], ("weight",))
    if (added := child(owner, "add_v_proj")) is not None:
        grow += own(f"{name}.add_v_proj", added[1])
    if (second := child(owner, "to_add_out")) is not None:
        shrink += own(f"{name}.to_add_out", second[1], ("weight",))
    first = f"{name}.{value[0]}"
    yield Site(component, "value", tuple(grow), tuple(shrink), first, (first,))


def _fused_values(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """Queries, keys and values from one layer: the last third of its rows."""
    fused, out = child(owner, "to_qkv"), child(owner, "proj", "to_out.0")
    if fused is None or out is None:
        return
    rows = cast("Any", fused[1]).weight.shape[0] // 3 * 2
    path = f"{name}.to_qkv"
    grow = own(path, fused[1], rows=f"[{rows}:]")
    yield Site(component, "value", tuple(grow), tuple(own(f"{name}.{out[0]}", out[1], ("weight",))), path, (path,))


_GATED = (("up_proj", "down_proj"), ("wi_1", "wo"), ("linear_3", "linear_2"), ("w3", "w2"), ("linear_2", "out_projection"))


def _gates(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """The linear half of a gated feed-forward, undone by the next layer."""
    for linear, following in _GATED:
        first, then = child(owner, linear), child(owner, following)
        if first is not None and then is not None:
            path = f"{name}.{linear}"
            grow = own(path, first[1])
            yield Site(component, "gate", tuple(grow), tuple(own(f"{name}.{following}", then[1], ("weight",))), path, (path,))
    proj, out = child(owner, "net.0.proj"), child(owner, "net.2")
    if proj is not None and out is not None and type(owner.get_submodule("net.0")).__name__ in ("GEGLU", "SwiGLU"):
        half = cast("nn.Linear", proj[1]).out_features // 2
        path = f"{name}.net.0.proj"
        grow = own(path, proj[1], rows=f"[:{half}]")
        yield Site(component, "gate", tuple(grow), tuple(own(f"{name}.net.2", out[1], ("weight",))), path, (path,))
    both, down = child(owner, "gate_up_proj"), child(owner, "down_proj")
    if both is not None and down is not None:
        half = cast("nn.Linear", both[1]).out_features // 2
        path = f"{name}.gate_up_proj"
        grow = own(path, both[1], rows=f"[{half}:]")
        yield Site(component, "gate", tuple(grow), tuple(own(f"{name}.down_proj", down[1], ("weight",))), path, (path,))
    depth, point = child(owner, "conv_depth"), child(owner, "conv_point")
    if depth is not None and point is not None:
        half = cast("nn.Conv2d", depth[1]).out_channels // 2
        path = f"{name}.conv_depth"
        grow = own(path, depth[1], rows=f"[:{half}]")
        yield Site(component, "gate", tuple(grow), tuple(own(f"{name}.conv_point", point[1], ("weight",))), path, (path,))


_NORM_READERS = (
    ("layer_norm1", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("layer_norm2", ("mlp.fc1",)),
    ("input_layernorm", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("pre_feedforward_layernorm", ("mlp.gate_proj", "mlp.up_proj")),
    ("layer_norm", ("SelfAttention.q", "SelfAttention.k", "SelfAttention.v")),
    ("layer_norm", ("DenseReluDense.wi_0", "DenseReluDense.wi_1")),
    ("layer_norm", ("DenseReluDense.wi",)),
    ("norm1", ("attn1.to_q", "attn1.to_k", "attn1.to_v")),
    ("norm2", ("attn2.to_q",)),
    ("norm3", ("ff.net.0.proj",)),
    ("group_norm", ("to_q", "to_k", "to_v")),
)


def _norms(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """The weights of a norm, undone by every layer that reads it."""
    for norm, readers in _NORM_READERS:
        first, found = child(owner, norm), [child(owner, reader) for reader in readers]
        if first is None or any(reader is None for reader in found):
            continue
        if norm == "post_attention_layernorm" and child(owner, "pre_feedforward_layernorm") is not None:
            continue
        if type(first[1]).__name__.startswith(("Gemma", "AdaLayerNorm")):
            continue  # Gemma's norm multiplies by one plus its weight
        path = f"{name}.{norm}"
        shrink = [tensor for reader in readers for tensor in own(f"{name}.{reader}", owner.get_submodule(reader), ("weight",))]
        yield Site(component, "norm", tuple(own(path, first[1])), tuple(shrink), path, (path,))


def _read_by_norms(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """What a scale-invariant norm reads: a residual block's first half, queries and keys."""
    for layer, norm in (("to_q", "norm_q"), ("to_k", "norm_k"), ("add_q_proj", "norm_added_q"), ("q_proj", "q_norm")):
        first, then = child(owner, layer), getattr(owner, norm, None)
        if first is not None and isinstance(then, nn.Module) and any(True for _ in then.parameters()):
            path = f"{name}.{layer}"
            yield Site(component, "prenorm", tuple(own(path, first[1])), (), path, (path,))
    conv, norm2 = child(owner, "conv1", "conv1.conv"), getattr(owner, "norm2", None)
    if conv is not None and isinstance(conv[1], nn.Conv2d | nn.Conv3d) and "norm" in type(norm2).__name__.lower():
        path = f"{name}.{conv[0]}"
        grow = own(path, conv[1])
        if (time := child(owner, "time_emb_proj")) is not None:
            grow += own(f"{name}.time_emb_proj", time[1])
        yield Site(component, "prenorm", tuple(grow), (), path, (path,))


# --- residual streams --------------------------------------------------------------------------------

_CONV_STREAM = (
    (r"conv_in", ("weight", "bias")),
    (r"(down_blocks|up_blocks|mid_block)\..*conv2", ("weight", "bias")),
    (r"(down_blocks|up_blocks|mid_block)\..*conv_shortcut", ("bias",)),
    (r"(down_blocks|up_blocks|mid_block)\..*(downsamplers|upsamplers)\.\d+\.conv", ("bias",)),
    (r"(down_blocks|up_blocks|mid_block)\..*proj_out", ("weight", "bias")),
)
_TEXT_STREAM = (
    (r".*(token_embedding|position_embedding|embed_tokens|shared|word_embeddings|wte)", ("weight",)),
    (r".*(out_proj|fc2|o_proj|down_proj|SelfAttention\.o|DenseReluDense\.wo)", ("weight", "bias")),
)
_DIT_STREAM = (
    (r"(pos_embed\.proj|patch_embed\.proj|x_embedder|patch_embedding|img_in|proj_in|context_embedder)", ("weight", "bias")),
    (r"(context_refiner|noise_refiner|transformer_blocks|blocks|layers)\.\d+\..*(to_out\.0|to_add_out)", ("weight", "bias")),
    (r"(transformer_blocks|blocks)\.\d+\.(ff|ff_context|ffn|img_mlp|txt_mlp)\.net\.2", ("weight", "bias")),
)
_BUFFERS = (r"pos_embed\.pos_embed",)


def _streams(component: str, module: nn.Module) -> Iterator[Site]:
    for name, owner in module.named_modules():
        yield from _inner_stream(component, name, owner)
        if isinstance(getattr(owner, "conv_norm_out", None), nn.GroupNorm) and child(owner, "conv_in") is not None:
            yield from _stream(component, name, owner, (*_CONV_STREAM, *_vae_attention(owner)))
    if component.startswith("text_encoder"):
        yield from _stream(component, "", module, _TEXT_STREAM)
    elif hasattr(module, "config") and not hasattr(module, "decode") and child(module, "conv_in") is None:
        yield from _stream(component, "", module, _DIT_STREAM)


def _inner_stream(component: str, name: str, owner: nn.Module) -> Iterator[Site]:
    """The transformer inside a UNet's attention: its own stream between two projections."""
    if (
        name
        and child(owner, "proj_in") is not None
        and child(owner, "proj_out") is not None
        and hasattr(owner, "transformer_blocks")
    ):
        writers = (
            (r"proj_in", ("weight", "bias")),
            (r"transformer_blocks\.\d+\.(attn1|attn2)\.to_out\.0", ("weight", "bias")),
            (r"transformer_blocks\.\d+\.ff\.net\.2", ("weight", "bias")),
        )
        for site in _stream(component, name, owner, writers):
            yield replace(site, shrink=(f"{name}.proj_out.weight",))


def _vae_attention(owner: nn.Module) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The output projections of attentions that stand in the stream themselves."""
    names = [name for name, found in owner.named_modules() if getattr(found, "group_norm", None) is not None]
    return tuple((re.escape(f"{name}.to_out.0"), ("weight", "bias")) for name in names)


def _stream(component: str, prefix: str, owner: nn.Module, writers: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterator[Site]:
    grow: list[str] = []
    watch: list[str] = []
    seen: set[int] = set()
    for name, found in owner.named_modules():
        for pattern, kinds in writers:
            path = f"{prefix}.{name}" if prefix else name
            if re.fullmatch(pattern, name) and not isinstance(found, nn.ModuleList):
                names = [n for n in own(path, found, kinds) if id(getattr(found, n.rpartition(".")[2])) not in seen]
                seen |= {id(getattr(found, n.rpartition(".")[2])) for n in names}
                grow += names
                watch.append(path)
    for name in owner.state_dict():
        if any(re.fullmatch(pattern, name) for pattern in _BUFFERS):
            grow.append(f"{prefix}.{name}" if prefix else name)
    if len(watch) > 1:
        yield Site(component, "stream", tuple(grow), (), watch[0], tuple(watch))
