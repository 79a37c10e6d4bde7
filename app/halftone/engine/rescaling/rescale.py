"""Finds, by structure, sets of parameters that can be scaled by a power of two without changing what a network computes.

Four kinds, all exact in floating point, as the epsilon of a norm that reads the smaller numbers shrinks with them:

* stream: everything that is added into a residual stream which is read only through group norms (VAE encoder and decoder, UNet);
* time: a residual block's first convolution and its time projection, if any, read through the block's second norm;
* value: the value projection of attention, undone by the output projection;
* gate: the linear half of a gated feed-forward (GEGLU), undone by the next linear layer.

What a ControlNet or a T2I-Adapter adds to a stream enters through arguments of forward: they belong to its group.

Nothing is assumed: a block of an unknown shape inside a stream means that the stream is not offered.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from torch import nn

from halftone.contract.plan import input_of
from halftone.engine.patches.image_prompts import adds_beside_output
from halftone.health.planning.rescaling import RescaleGroup

INSIDE: Final = "(inside)"
"""Stands after a module's name for values its own code makes between its children (the probe books them on the module)."""

_ADDED: Final = ("down_block_additional_residuals", "mid_block_additional_residual", "down_intrablock_additional_residuals")
"""Arguments of a UNet's forward that are added to its residual stream: of ControlNets, and of T2I-Adapters."""


@dataclass
class _Stream:
    """What is collected while walking along a residual stream."""

    shrink: list[str] = field(default_factory=list[str])
    modules: list[str] = field(default_factory=list[str])
    epsilons: list[str] = field(default_factory=list[str])
    whole: bool = True


def rescale_groups(component: str, module: nn.Module) -> tuple[RescaleGroup, ...]:
    """All groups of a component, widest first."""
    groups = [group for name, owner in module.named_modules() if (group := _stream(component, name, owner)) is not None]
    for name, child in module.named_modules():
        groups += _local_groups(component, name, cast("Any", child))
    return tuple(groups)


def _path(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _tensors(prefix: str, module: nn.Module, kinds: tuple[str, ...] = ("weight", "bias")) -> list[str]:
    """Names of those parameters that the module really has."""
    return [_path(prefix, kind) for kind in kinds if getattr(module, kind, None) is not None]


def _is_group_norm(module: object) -> bool:
    return isinstance(module, nn.GroupNorm)


# --- the residual stream ---------------------------------------------------------------------------


def _stream(component: str, prefix: str, owner: nn.Module) -> RescaleGroup | None:
    """conv_in, blocks, conv_norm_out: the shape of every convolutional autoencoder and UNet of diffusers."""
    if not _is_group_norm(getattr(owner, "conv_norm_out", None)) or not isinstance(getattr(owner, "conv_in", None), nn.Conv2d):
        return None
    known = {"conv_in", "conv_norm_out", "conv_out", "conv_act", "down_blocks", "mid_block", "up_blocks"}
    stream = _Stream()
    _write(stream, _path(prefix, "conv_in"), cast("nn.Module", owner.conv_in), ("weight", "bias"))
    for name, child in owner.named_children():
        if name in ("down_blocks", "up_blocks"):
            for index, block in enumerate(cast("nn.ModuleList", child)):
                _block(stream, _path(prefix, name, str(index)), block)
        elif name == "mid_block":
            _block(stream, _path(prefix, name), child)
        elif name not in known and not name.startswith(("time_", "class_", "add_", "encoder_hid_proj")):
            stream.whole = False
    if not stream.whole:
        return None
    taken = inspect.signature(type(owner).forward).parameters if not prefix else {}
    return RescaleGroup(
        component=component,
        name=f"residual stream of {prefix or component}",
        shrink=(*stream.shrink, *(input_of(name) for name in _ADDED if name in taken)),
        grow=(),
        modules=tuple(stream.modules),
        epsilons=(*stream.epsilons, _path(prefix, "conv_norm_out.eps")),
        wide=True,
    )


def _write(stream: _Stream, path: str, module: nn.Module, kinds: tuple[str, ...]) -> None:
    stream.shrink += _tensors(path, module, kinds)
    stream.modules.append(path)


def _block(stream: _Stream, path: str, block: nn.Module) -> None:
    """One block: lists of residual blocks, attentions and samplers, and nothing else that holds parameters."""
    stream.modules.append(path)
    for name, child in block.named_children():
        members = list(child) if isinstance(child, nn.ModuleList) else []
        kind = {"resnets": _resnet, "attentions": _attention, "upsamplers": _sampler, "downsamplers": _sampler}.get(name)
        if kind is None or not members:
            stream.whole = stream.whole and not any(True for _ in child.parameters())
            continue
        for index, member in enumerate(members):
            if cast("object", member) is not None:
                kind(stream, _path(path, name, str(index)), member)


def _resnet(stream: _Stream, path: str, member: nn.Module) -> None:
    block = cast("Any", member)
    shortcut = getattr(block, "conv_shortcut", None)
    fits = (
        _is_group_norm(getattr(block, "norm1", None))
        and isinstance(getattr(block, "conv2", None), nn.Conv2d)
        and (shortcut is None or isinstance(shortcut, nn.Conv2d))
        and {name for name, _ in member.named_children()}
        <= {
            "norm1",
            "norm2",
            "conv1",
            "conv2",
            "time_emb_proj",
            "dropout",
            "nonlinearity",
            "conv_shortcut",
            "upsample",
            "downsample",
        }
        and not _has_parameters(block, "upsample")
        and not _has_parameters(block, "downsample")
    )
    if not fits:
        stream.whole = False
        return
    stream.modules.append(path)
    stream.epsilons.append(_path(path, "norm1.eps"))
    _write(stream, _path(path, "conv2"), block.conv2, ("weight", "bias"))
    if shortcut is not None:
        _write(stream, _path(path, "conv_shortcut"), shortcut, ("bias",))


def _has_parameters(owner: Any, name: str) -> bool:
    child = getattr(owner, name, None)
    return isinstance(child, nn.Module) and any(True for _ in child.parameters())


def _attention(stream: _Stream, path: str, member: nn.Module) -> None:
    attention = cast("Any", member)
    if _is_output(getattr(attention, "to_out", None)) and _is_group_norm(getattr(attention, "group_norm", None)):
        if not getattr(attention, "residual_connection", False) or getattr(attention, "spatial_norm", None) is not None:
            stream.whole = False
            return
        stream.modules.append(path)
        stream.epsilons.append(_path(path, "group_norm.eps"))
        _write(stream, _path(path, "to_out.0"), attention.to_out[0], ("weight", "bias"))
        stream.modules += [_path(path, f"to_out.{index}") for index in range(1, len(attention.to_out))]
    elif (
        hasattr(attention, "transformer_blocks")
        and _is_group_norm(getattr(attention, "norm", None))
        and isinstance(getattr(attention, "proj_out", None), (nn.Linear, nn.Conv2d))
    ):
        stream.modules.append(path)
        stream.epsilons.append(_path(path, "norm.eps"))
        _write(stream, _path(path, "proj_out"), attention.proj_out, ("weight", "bias"))
    else:
        stream.whole = False


def _sampler(stream: _Stream, path: str, member: nn.Module) -> None:
    sampler = cast("Any", member)
    conv = getattr(sampler, "conv", None) if getattr(sampler, "use_conv", False) else None
    odd = getattr(sampler, "norm", None) is not None or getattr(sampler, "use_conv_transpose", False)
    if odd or (conv is not None and not isinstance(conv, nn.Conv2d)) or (conv is None and any(True for _ in member.parameters())):
        stream.whole = False
        return
    stream.modules.append(path)
    if conv is not None:
        # a linear map of the stream: its weight carries the scale through, only the bias adds to it
        _write(stream, _path(path, "conv"), conv, ("bias",))


# --- inside a block --------------------------------------------------------------------------------


def _local_groups(component: str, name: str, module: Any) -> Iterator[RescaleGroup]:
    if isinstance(getattr(module, "conv1", None), nn.Conv2d) and _normalises_groups(getattr(module, "norm2", None)):
        yield from _time_group(component, name, module)
    if (
        isinstance(getattr(module, "to_v", None), nn.Linear)
        and _is_output(getattr(module, "to_out", None))
        and getattr(module, "norm_v", None) is None
    ):
        yield _value_group(component, name, module)
    if isinstance(getattr(module, "net", None), nn.ModuleList):
        yield from _gate_group(component, name, module)


def _normalises_groups(norm: object) -> bool:
    """A group norm, or one inside a norm whose scale and shift are made of something else (the latents of a MoVQ decoder)."""
    return _is_group_norm(norm) or _is_group_norm(getattr(norm, "norm_layer", None))


def _time_group(component: str, name: str, module: Any) -> Iterator[RescaleGroup]:
    """Scale conv1 and the time projection, whose sum norm2 reads, unless the projection acts after the norm."""
    projection = getattr(module, "time_emb_proj", None)
    entering = getattr(module, "time_embedding_norm", "default")
    if projection is not None and (entering not in ("default", "scale_shift") or not _is_group_norm(module.norm2)):
        return
    shrink = _tensors(_path(name, "conv1"), module.conv1)
    modules = [_path(name, "conv1"), _path(name, INSIDE)]
    if projection is not None and entering == "default":
        shrink += _tensors(_path(name, "time_emb_proj"), projection)
        modules.append(_path(name, "time_emb_proj"))
    norm = "norm2.eps" if _is_group_norm(module.norm2) else "norm2.norm_layer.eps"
    yield RescaleGroup(
        component=component,
        name=f"first half of {name}",
        shrink=tuple(shrink),
        grow=(),
        modules=tuple(modules),
        epsilons=(_path(name, norm),),
        wide=True,
    )


def _is_output(to_out: object) -> bool:
    """A linear layer and what may follow it, as attention of diffusers holds its output projection."""
    return isinstance(to_out, nn.ModuleList) and len(to_out) > 0 and isinstance(to_out[0], nn.Linear)


def _value_group(component: str, name: str, module: Any) -> RescaleGroup:
    shrink = _tensors(_path(name, "to_v"), module.to_v)
    grow = _tensors(_path(name, "to_out.0"), module.to_out[0], ("weight",))
    modules = [_path(name, "to_v"), _path(name, INSIDE)]
    if isinstance(getattr(module, "add_v_proj", None), nn.Linear):
        shrink += _tensors(_path(name, "add_v_proj"), module.add_v_proj)
        modules.append(_path(name, "add_v_proj"))
    if isinstance(getattr(module, "to_add_out", None), nn.Linear):
        grow += _tensors(_path(name, "to_add_out"), module.to_add_out, ("weight",))
    for path, layer in _values_of_pictures(name, module):
        shrink += _tensors(path, layer)
        modules.append(path)
    return RescaleGroup(
        component=component, name=f"values of {name}", shrink=tuple(shrink), grow=tuple(grow), modules=tuple(modules)
    )


def _values_of_pictures(name: str, module: Any) -> Iterator[tuple[str, nn.Module]]:
    """Layers by which IP-Adapters give values that the output projection reads too: one, or one of each adapter."""
    layers = getattr(getattr(module, "processor", None), "to_v_ip", None)
    if adds_beside_output(module):
        return
    path = _path(name, "processor.to_v_ip")
    if isinstance(layers, nn.ModuleList):
        yield from ((f"{path}.{index}", layer) for index, layer in enumerate(layers))
    elif isinstance(layers, nn.Linear):
        yield path, layers


def _gate_group(component: str, name: str, module: Any) -> Iterator[RescaleGroup]:
    """GEGLU: (first half of proj) * gelu(second half), then the next linear layer; only the first half may be scaled."""
    net = list(module.net)
    following = next((index for index, layer in enumerate(net[1:], start=1) if isinstance(layer, nn.Linear)), None)
    gated = bool(net) and type(net[0]).__name__ in ("GEGLU", "SwiGLU") and isinstance(getattr(net[0], "proj", None), nn.Linear)
    if not gated or following is None:
        return
    half = int(net[0].proj.out_features) // 2
    yield RescaleGroup(
        component=component,
        name=f"gate of {name}",
        shrink=tuple(f"{tensor}[:{half}]" for tensor in _tensors(_path(name, "net.0.proj"), net[0].proj)),
        grow=tuple(_tensors(_path(name, f"net.{following}"), net[following], ("weight",))),
        modules=(
            _path(name, "net.0"),
            _path(name, "net.0", INSIDE),
            _path(name, "net.0.proj"),
            *(_path(name, f"net.{between}") for between in range(1, following)),
        ),
    )
