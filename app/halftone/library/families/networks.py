"""Sizes of a model's networks that its memory depends on, from configurations and headers alone."""

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, count, pairwise, takewhile
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import ALONE, Extras, IpAdapter, Lora
from halftone.library.add_ons.controlnets import UNETS, control_tensors, denoiser_config, file_config, folder_config, weight_files
from halftone.library.add_ons.denoisers import denoiser_name, denoiser_tensors, is_scale, read_transformer, stays_packed
from halftone.library.add_ons.image_encoders import ENCODER, encoder_part
from halftone.library.add_ons.ipadapters import encoder_place, is_face_lora, reads_faces
from halftone.library.add_ons.vaes import VAE, vae_config, vae_file
from halftone.library.families.single_files import SINGLES, configs, holds_packed, module_names
from halftone.library.families.split_files import model_header
from halftone.library.files.folder import read_part
from halftone.library.files.header import TensorInfo, read_header

Work = Literal["encode", "denoise", "decode", "control"]

_DECODERS: Final = ("vae", "movq", "vqgan", "vqvae")
_ENCODERS: Final = ("text_encoder", "image_encoder", "mllm", "query_embed")
_TABLES: Final = re.compile(r"(?:^|\.)(?:shared|embed_tokens|(?:token|position)_embedding|relative_attention_bias)\.weight$")
"""Tables of text encoders: looked up, not multiplied, so nothing unpacks them layer by layer."""
_STEERING: Final = re.compile(r"(?:(?:^|\.)norm\w*\.linear|_mod\.\d+|odulation\w*(?:\.\w+)?)\.\w+$")
"""Layers whose input is one vector, the time, for the whole picture: they compute little."""
_LISTS_INSIDE: Final = ("to_out", "net", "to_add_out")
"""Lists of layers inside an attention or a feed-forward."""
_LISTS: Final = re.compile(r"(?:s|s_in|s_out|layer|block|refiner|up|down|adapter|network)$")
"""Names of lists of blocks. Those of a sequence, which is one block, are singular ("img_mod", "resample", "channelwise")."""
_SEQUENCES: Final = ("AutoencoderTiny", "PaellaVQModel")
"""Networks with plural names of sequences, too."""
_NESTED: Final = ("StableCascadeUNet",)
"""Networks with lists of lists under `_OF_LISTS`; in others a block of such a list is a sequence."""
_WAYS_UP: Final = ("up_blocks.", "decoder.up_blocks.")
"""Where the levels of a UNet and of a decoder are."""
_STREAMS: Final = ("transformer_blocks.", "single_transformer_blocks.")
"""A transformer's blocks of two streams, and those of one."""
_OF_LISTS: Final = ("down_blocks", "up_blocks", "down_repeat_mappers", "up_repeat_mappers")


class Parts(NamedTuple):
    """Numbers that are brought to the device: of the largest two blocks and layers in a row, and of the largest one."""

    two_blocks: int
    two_layers: int
    block: int
    largest: int


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """One network of a model. kind: its class in diffusers or transformers; config: as in its files.

    parameters: numbers of its weights; largest: of its largest tensor; block: of the largest part that is brought to the device
    by itself where a network goes there block by block; two_blocks, two_layers: of the largest two in a row, as the next one is
    brought while one computes; layers that steer do not count. stages: these of each level on the way up of a UNet or a decoder,
    or of a transformer's blocks of two streams and of one; blocks: number of its blocks. own_file: it replaces the model's own,
    and `packed` of its numbers stay as the file has them, in `packed_bytes`. tables: numbers in float32 that it makes when it is
    built.
    """

    name: str
    work: Work
    kind: str
    parameters: int
    largest: int = 0
    block: int = 0
    two_blocks: int = 0
    two_layers: int = 0
    stages: tuple[Parts, ...] = ()
    blocks: int = 1
    config: dict[str, Any] = {}
    own_file: bool = False
    packed: int = 0
    packed_bytes: int = 0
    tables: int = 0

    def number(self, *names: str, default: int = 0) -> int:
        """The first of these entries that is a number, or the first of a row of numbers."""
        for name in names:
            value = self.config.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return default

    def numbers(self, *names: str) -> tuple[int, ...]:
        """The first of these entries that is a row of numbers."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, list):
                row = cast("list[Any]", value)
                if row and all(isinstance(item, int) and item > 0 for item in row):
                    return tuple(cast("list[int]", row))
        return ()

    def words(self, name: str) -> tuple[str, ...]:
        """The entry as a row of words."""
        value = self.config.get(name)
        return tuple(str(item) for item in cast("list[Any]", value)) if isinstance(value, list) else ()


def networks_of(model: ModelFacts, extras: Extras = ALONE) -> tuple[Network, ...]:
    """The networks of a model with these extras. Raises HalftoneError as their headers do, and OSError."""
    path = Path(model.path)
    replaced = None if extras.transformer is None else denoiser_name(model)
    own = [name for name in model.components if name != replaced]  # a model may lack what is replaced
    every = _in_folder(path, own) if os.path.isdir(path) else _in_file(model, extras.loras)
    found = [one for one in every if one.name != replaced]
    if extras.transformer is not None and replaced is not None:
        named = ((own, tensor) for own, tensor in denoiser_tensors(read_transformer(extras.transformer)) if not is_scale(own))
        tensors = [msgspec.structs.replace(tensor, name=own) for own, tensor in named]
        whole = _packed(network(replaced, denoiser_config(model) or {}, tensors), tensors, extras.loras)
        found.append(msgspec.structs.replace(whole, own_file=True))
    if extras.vae is not None:
        vae = network(VAE, vae_config(extras.vae, model), read_header(vae_file(extras.vae)).tensors)
        found = [*(one for one in found if one.name != VAE), vae]
    if extras.ip_adapters:
        found = list(_reading_pictures(found, extras.ip_adapters))
    for index, control in enumerate(extras.controls):
        headers = [read_header(file) for file in weight_files(control.path)]
        config = folder_config(Path(control.path)) or file_config(headers[0]) or {"_class_name": UNETS}
        tensors = [tensor for header in headers for tensor in control_tensors(header)]
        found.append(network(f"controlnet_{index}", config, tensors, work="control"))
    return tuple(found)


def files_in(extras: Extras, model: ModelFacts) -> tuple[tuple[str, ...], ...]:
    """Paths that decide the networks of a model: the same paths, the same networks. LoRAs count where weights may stay packed, as
    their factors are kept beside these.
    """
    packed = extras.transformer is not None or (model.format == "single-file" and _may_be_packed(model))
    return (
        () if extras.vae is None else (extras.vae,),
        () if extras.transformer is None else (extras.transformer,),
        tuple(lora.path for lora in extras.loras) if packed else (),
        tuple(control.path for control in extras.controls),
        tuple(adapter.path for adapter in extras.ip_adapters),
    )


def _packed(whole: Network, tensors: Iterable[TensorInfo], loras: Sequence[Lora] = ()) -> Network:
    """The network with its packed weights, and LoRAs' factors beside them in float32. tensors: by the network's names."""
    packed = [tensor for tensor in tensors if stays_packed(tensor.name, tensor) and not _TABLES.search(tensor.name)]
    size = sum(tensor.end - tensor.start for tensor in packed)
    if packed:
        size += sum(4 * prod(tensor.shape) for lora in loras for tensor in read_header(Path(lora.path)).tensors)
    return msgspec.structs.replace(whole, packed=sum(prod(tensor.shape) for tensor in packed), packed_bytes=size)


def _reading_pictures(networks: Sequence[Network], adapters: Sequence[IpAdapter]) -> Iterable[Network]:
    """IP-Adapters become part of the denoiser; they share one image encoder, the model's own if it has one. LoRAs in them are
    added to its weights, and FaceID has no image encoder.
    """
    tensors = [tensor for one in adapters for tensor in read_header(Path(one.path)).tensors if not is_face_lora(tensor.name)]
    added = sum(prod(tensor.shape) for tensor in tensors)
    for one in networks:
        grown = added if one.work == "denoise" else 0
        yield msgspec.structs.replace(one, parameters=one.parameters + grown)
    encoded = [one for one in adapters if not reads_faces(one.path)]
    if encoded and all(one.name != ENCODER for one in networks):
        part = encoder_part(encoder_place(encoded[0].path))
        yield network(part.name, part.config, part.tensors)


def _in_folder(root: Path, components: Iterable[str]) -> tuple[Network, ...]:
    parts = (read_part(root, name) for name in components)
    return tuple(network(part.name, part.config, part.tensors) for part in parts if part.files)


def _in_file(model: ModelFacts, loras: Sequence[Lora]) -> tuple[Network, ...]:
    """The networks of a whole model in one file; () for other files. loras: counted in the denoiser alone."""
    if model.family not in SINGLES:
        return ()
    header = model_header(model)
    parts, names = configs(model.family, header, model.path), module_names(model.family, header)
    tensors: dict[str, list[TensorInfo]] = {}
    for tensor in header.tensors:
        if tensor.name in names and not is_scale(tensor.name):
            component, own = names[tensor.name]
            tensors.setdefault(component, []).append(msgspec.structs.replace(tensor, name=own))
    found = [(network(name, parts.get(name, {}), own), own) for name, own in tensors.items()]
    stays = holds_packed(model.family, header)
    return tuple(_packed(one, own, loras if one.work == "denoise" else ()) if stays else one for one, own in found)


def _may_be_packed(model: ModelFacts) -> bool:
    """Whether weights of a whole model in one file may stay packed, by its facts alone."""
    eight_bits = any(kind.startswith("float8") for kind in model.stored.values())
    return model.family in SINGLES and (SINGLES[model.family].naming is not None or eight_bits)


def network(name: str, config: Mapping[str, Any], tensors: Iterable[TensorInfo], *, work: Work | None = None) -> Network:
    """A network from its configuration and the tensors of its files."""
    sizes = {tensor.name: prod(tensor.shape) for tensor in tensors}
    architectures = config.get("architectures")
    kind = config.get("_class_name") or (cast("list[Any]", architectures)[0] if isinstance(architectures, list) else "")
    usual: Work = "encode" if name.startswith(_ENCODERS) else "decode" if name.startswith(_DECODERS) else "denoise"
    measured = _measured(str(kind), tuple(sizes.items()))
    return msgspec.structs.replace(measured, name=name, work=work or usual, config=dict(config), tables=_table(config, sizes))


@lru_cache(maxsize=64)
def _measured(kind: str, tensors: tuple[tuple[str, int], ...]) -> Network:
    """What the names and sizes of its tensors say of a network: asked again with each picture, and the same as before."""
    sizes = dict(tensors)
    units, layers = _units(sizes, kind), _layers({name: size for name, size in sizes.items() if not _STEERING.search(name)})
    return Network(
        name="",
        work="denoise",
        kind=kind,
        parameters=sum(sizes.values()),
        largest=max(sizes.values(), default=0),
        block=max(units.values(), default=0),
        two_blocks=_two(units),
        two_layers=_two(layers),
        stages=_stages(units, layers),
        blocks=max(1, len({block for tensor in sizes if (block := _block(tensor))})),
    )


def _table(config: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Numbers of the table of positions that a patch embedding makes where its file has none: of a transformer of squares."""
    edge, patch = config.get("sample_size"), config.get("patch_size", 1)
    width = sizes.get("pos_embed.proj.bias", 0)
    if "pos_embed.pos_embed" in sizes or not isinstance(edge, int) or not isinstance(patch, int) or patch < 1:
        return 0
    return (edge // patch) ** 2 * width


def _units(sizes: Mapping[str, int], kind: str = "") -> dict[str, int]:
    """Numbers of each part that is brought by itself (`engine.weights.parts.units`, from the names alone)."""
    attentions = {name.partition(".to_q.")[0] for name in sizes if ".to_q." in name}
    lists = () if kind in _SEQUENCES else sizes
    apart = {part for name in lists for part in _taken_apart(name.split("."), attentions, nested=kind in _NESTED)}
    found: dict[str, int] = {}
    for name, size in sizes.items():
        modules = name.split(".")[:-1]
        unit = next((path for path in _paths(modules) if path not in apart), None)
        if unit is not None:
            found[unit] = found.get(unit, 0) + size
    return found


def _layers(sizes: Mapping[str, int]) -> dict[str, int]:
    """Numbers of each layer."""
    found: dict[str, int] = {}
    for name, size in sizes.items():
        layer = name.rpartition(".")[0]
        found[layer] = found.get(layer, 0) + size
    return found


def _two(parts: Mapping[str, int]) -> int:
    """Numbers of the largest two in a row."""
    ordered = [parts[name] for name in sorted(parts, key=_turn)]
    return max((one + other for one, other in pairwise(ordered)), default=sum(ordered))


def _stages(units: Mapping[str, int], layers: Mapping[str, int]) -> tuple[Parts, ...]:
    """The same of each level on the way up of a UNet or a decoder, or of each kind of a transformer's blocks."""
    for way_up in _WAYS_UP:
        levels = takewhile(bool, (_stage(f"{way_up}{level}.", units, layers) for level in count()))
        if found := tuple(chain.from_iterable(levels)):
            return found
    return tuple(chain.from_iterable(_stage(kind, units, layers) for kind in _STREAMS))


def _stage(prefix: str, units: Mapping[str, int], layers: Mapping[str, int]) -> tuple[Parts, ...]:
    """Sizes of what lies under a name; () where nothing does."""
    blocks, singles = ({name: size for name, size in parts.items() if name.startswith(prefix)} for parts in (units, layers))
    if not blocks:
        return ()
    return (Parts(_two(blocks), _two(singles), max(blocks.values()), max(singles.values())),)


def _turn(name: str) -> tuple[tuple[bool, int, bool, str], ...]:
    """The order of parts: lists by their indices; in a UNet's block a unit, its attention, the next unit, the resampling."""
    found: list[tuple[bool, int, bool, str]] = []
    words = ""
    for part in name.split("."):
        if not part.isdecimal():
            words = f"{words}.{part}"
            continue
        found.append((words.endswith("samplers"), int(part), not words.endswith("resnets"), words))
        words = ""
    if found:
        found[0] = (False, 0, False, f"{found[0][3]}.{found[0][1]:06}")
    return (*found, (False, -1, False, words)) if words else tuple(found)


def _taken_apart(names: Sequence[str], attentions: Container[str], *, nested: bool) -> list[str]:
    """The modules above a tensor that hold lists of blocks: "down_blocks", "down_blocks.1", "down_blocks.1.resnets"."""
    end = 0
    for index, (path, part, below) in enumerate(zip(_paths(names), names, names[1:], strict=False)):
        if part in _LISTS_INSIDE or path in attentions or (index and names[index - 1] == "attentions"):
            break
        if below.isdecimal() and (_LISTS.search(part) or (nested and part.isdecimal() and names[index - 1] in _OF_LISTS)):
            end = index + 1
    return _paths(names[:end])


def _paths(names: Sequence[str]) -> list[str]:
    """A module and those that it lies in, the outermost first."""
    return [".".join(names[: end + 1]) for end in range(len(names))]


def _block(tensor: str) -> str:
    """The block of a list that a tensor belongs to: "down_blocks.1" of "down_blocks.1.resnets.0.conv1.weight"."""
    parts = tensor.split(".")
    at = next((index for index, part in enumerate(parts) if part.isdecimal()), None)
    return "" if at is None else ".".join(parts[: at + 1])


def known_networks(model: ModelFacts, extras: Extras = ALONE) -> tuple[Network, ...]:
    """The networks; () where they cannot be read."""
    try:
        return networks_of(model, extras)
    except (HalftoneError, OSError):
        return ()
