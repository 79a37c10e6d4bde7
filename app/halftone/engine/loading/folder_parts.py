"""Loads each part of a model's folder by itself, its configuration compared with the headers of its weights first."""

import hashlib
import inspect
import logging
from collections.abc import Container, Generator, Iterable, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.loading.stand_ins import put_stand_ins
from halftone.engine.weights.mapped import UnfitFile
from halftone.engine.weights.stored_tables import tables_left_empty
from halftone.health.faults import is_out_of_memory
from halftone.library.families.part_configs import config_fault, shown
from halftone.library.files.folder import INDEX, Part, component_names, read_json, read_part
from halftone.library.files.header import TensorInfo
from halftone.settings.disk import no_right

log = logging.getLogger(__name__)

_SPARE: Final = 64
"""Parameters that a network may have beyond the tensors of its files before it is built no further."""
_MOST: Final = 20_000
"""Parameters of the largest network that is built only to find out whether it can be."""
_DEEPEST: Final = 10_000
"""Layers that no network has."""
_CONFIGS: Final = {"scheduler": "scheduler_config.json", "tokenizer": "tokenizer_config.json"}
_PARTS: Final = {
    "diffusers": ("ModelMixin", "SchedulerMixin", "BaseGuidance"),
    "transformers": ("PreTrainedModel", "FeatureExtractionMixin", "ImageProcessingMixin"),
}
"""Library -> what parts of a pipeline descend from, beside tokenizers and processors."""
_LEFT_OUT: Final = {"StableDiffusion3": ("text_encoder_3", "tokenizer_3")}
"""What a pipeline's name begins with -> parts that it computes without, where the index says [null, null] of all of them."""
PREFIXES: Final = ("", "text_model.", "model.")
"""Names in files may have these before those of the network, or lack them, by the version of the library that wrote them."""

_agreed: set[tuple[Any, bytes]] = set()
"""Contents of parts that were compared and agree: to build a large network for it takes up to a second."""


def load_folder(folder: Path, stored: Mapping[str, torch.dtype]) -> Any:
    """The pipeline of a folder, each network in its stored dtype, without safety checker. Raises HalftoneError model-cannot-run,
    model-incomplete, model-load-failed, and what the library raises where it cannot join the parts.
    """
    import diffusers

    index = read_json(folder / INDEX)
    named = {name: cast("tuple[str, str]", tuple(cast("list[str]", index[name]))) for name in component_names(index)}
    kind, left_out = str(index.get("_class_name")), _left_out(index)
    _check_pipeline(folder, kind, (*named, *left_out))
    put_stand_ins(folder)
    parts = {name: load_part(folder, name, *own, stored.get(name, torch.float32)) for name, own in named.items()}
    parts |= dict.fromkeys(left_out)  # diffusers does not take the word of the index for it
    options: dict[str, Any] = {"safety_checker": None, "requires_safety_checker": False} if "safety_checker" in index else {}
    return diffusers.DiffusionPipeline.from_pretrained(folder, local_files_only=True, **parts, **options)


def _left_out(index: Mapping[str, object]) -> tuple[str, ...]:
    """Parts without which the pipeline is meant to run."""
    kind = str(index.get("_class_name"))
    parts = next((parts for beginning, parts in _LEFT_OUT.items() if kind.startswith(beginning)), ())
    return parts if all(index.get(name) == [None, None] for name in parts) else ()


def _check_pipeline(folder: Path, kind: str, named: Container[str]) -> None:
    """Raise HalftoneError where the index names no pipeline, or not all parts that it needs."""
    import diffusers

    own = getattr(diffusers, kind, None) if kind.isidentifier() else None
    if not inspect.isclass(own) or not issubclass(own, diffusers.DiffusionPipeline):
        detail = Words("its model_index.json names the pipeline {0}, which does not exist", (shown(kind),))
        raise HalftoneError("model-load-failed", path=str(folder), detail=detail)
    made: Any = own
    wanted, _ = made._get_signature_keys(own)  # noqa: SLF001 - nothing else tells which parts a pipeline is made of
    optional = {"safety_checker", *made._optional_components}  # noqa: SLF001
    if missing := sorted(name for name in wanted if name not in named and name not in optional):
        raise HalftoneError("model-incomplete", path=str(folder), missing=tuple(missing))


def load_part(root: Path, name: str, library: str, kind: str, dtype: torch.dtype) -> Any:
    """One part of the folder as `kind` of `library`; a network in `dtype`, mapped from its files.

    Raises HalftoneError model-cannot-run for an unknown class, or where configuration and weights disagree, and as `read_part`.
    """
    own = part_class(root, name, library, kind)
    if not issubclass(own, nn.Module):
        with _as_described(root, name, kind):
            return own.from_pretrained(root / name, local_files_only=True)
    return load_network(root, name, own, dtype)


def load_network(root: Path, name: str, own: Any, dtype: torch.dtype) -> nn.Module:
    """A network of the folder as the class `own`, on the CPU. Raises as `load_part`."""
    part = read_part(root, name)
    if not part.files:
        raise cannot_run(root, Words("{0} holds no weights", (name,)))
    if fault := config_fault(part):  # an image encoder is no part of the model that was checked
        raise cannot_run(root, fault)
    with _as_described(root, name, own.__name__, part, own), tables_left_empty():
        compare(root, part, own)
        made, info = own.from_pretrained(
            root / name,
            dtype=dtype,
            variant=part.variant or None,
            use_safetensors=True,
            low_cpu_mem_usage=True,
            local_files_only=True,
            output_loading_info=True,
        )
    missing = sorted(cast("Iterable[str]", info["missing_keys"]))
    if missing:
        raise cannot_run(root, Words("its weights have no tensor {0}, which {1}/config.json asks for", (missing[0], name)))
    return made


def cannot_run(root: Path, why: Words | str, details: str = "") -> HalftoneError:
    """An error; it is not raised. why: as the end of a sentence."""
    return HalftoneError("model-cannot-run", details, path=str(root), detail=why)


@contextmanager
def _as_described(root: Path, name: str, kind: str, part: Part | None = None, own: Any = None) -> Generator[None]:
    """Turn whatever a library raises about a part's files into a sentence that names the part, and if possible the value."""
    try:
        yield
    except HalftoneError:
        raise
    except PermissionError as error:
        raise no_right(error, root / name) from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        log.exception("loading %s failed", root / name)
        culprit = None if part is None else _culprit(own, part.config)
        file = _CONFIGS.get(name.rstrip("0123456789_"), "config.json")
        if culprit is not None:
            value = shown(part.config[culprit]) if part is not None else ""
            why = Words("{0}/{1} says {2} {3}, with which {4} cannot be built", (name, file, shown(culprit), value, kind))
        else:
            why = Words("the files of its {0} cannot be read as {1}", (name, kind))
        raise cannot_run(root, why, f"{type(error).__name__}: {error}") from error


def _culprit(own: Any, config: Mapping[str, Any]) -> str | None:
    """The value of the configuration without which it can be built; None where all can stay, or no single one is to blame."""
    if _can_be_built(own, config):
        return None
    return next(
        (name for name in config if _can_be_built(own, {key: value for key, value in config.items() if key != name})), None
    )


def _can_be_built(own: Any, config: Mapping[str, Any]) -> bool:
    try:
        with torch.device("meta"), _no_more_than(_MOST, config):
            built(own, config)
    except Exception:  # noqa: BLE001 - whatever the library raises
        return False
    return True


def part_class(root: Path, name: str, library: str, kind: str) -> Any:
    """The class that the folder's index names, of the libraries that hold parts of pipelines. Nothing else is imported."""
    import diffusers
    from diffusers.pipelines.pipeline_loading_utils import simple_get_class_obj

    absent = cannot_run(root, Words("its {0} is named as {1} of {2}, which does not exist", (name, shown(kind), shown(library))))
    if library not in _PARTS and not hasattr(diffusers.pipelines, library):
        raise absent
    try:
        own = simple_get_class_obj(library, kind)
    except (ValueError, AttributeError, ImportError, RuntimeError) as error:
        raise absent from error
    if not inspect.isclass(own) or not issubclass(own, _bases(name)):
        raise cannot_run(
            root, Words("its {0} is named as {1} of {2}, which is not such a part", (name, shown(kind), shown(library)))
        )
    return own


def _bases(name: str) -> tuple[type, ...]:
    """Return the classes that a part of this name can be."""
    import diffusers
    import transformers

    words = (transformers.PreTrainedTokenizerBase, transformers.ProcessorMixin)
    if name.rstrip("0123456789_").endswith("tokenizer"):
        return words
    if name.rstrip("0123456789_").endswith("scheduler"):
        return (diffusers.SchedulerMixin,)
    libraries: dict[str, Any] = {"diffusers": diffusers, "transformers": transformers}
    return tuple(getattr(libraries[library], kind) for library, kinds in _PARTS.items() for kind in kinds) + words


def compare(root: Path, part: Part, own: Any) -> None:
    """Raise model-cannot-run where the configuration describes other tensors than the files hold.

    The network is built without memory, no further than its files have tensors, once in a process where they agree.
    """
    tensors = [tensor for _, header in part.files for tensor in header.tensors]
    shapes = [(tensor.name, tensor.shape) for tensor in tensors]
    alike = own, hashlib.sha256(repr((part.config, shapes)).encode(errors="surrogatepass")).digest()
    if alike in _agreed:
        return
    held = {tensor.name: tensor for tensor in tensors}
    try:
        with torch.device("meta"), _no_more_than(2 * len(held) + _SPARE, part.config):
            made = built(own, part.config)
    except _TooManyError as error:
        raise cannot_run(root, Words("{0}/config.json asks for more layers than its weights have", (part.name,))) from error
    if (why := _difference(made, held, part.name)) is not None:
        raise cannot_run(root, why)
    _agreed.add(alike)


def built(own: Any, config: Mapping[str, Any]) -> nn.Module:
    """The network of a configuration, of diffusers or transformers. Raises what the libraries raise."""
    from transformers.initialization import no_init_weights

    with no_init_weights():
        return own.from_config(dict(config)) if hasattr(own, "load_config") else own(own.config_class.from_dict(dict(config)))


def _difference(made: nn.Module, held: Mapping[str, TensorInfo], part: str) -> Words | None:
    """The difference between configuration and weights, as the end of a sentence."""
    wanted = {name: tuple(value.shape) for name, value in made.state_dict().items()}
    modules = dict(made.named_modules(remove_duplicate=False))
    for name, tensor in held.items():
        ours = next((own for own in _names(name) if own in wanted), None)
        if ours is not None and wanted[ours] != tensor.shape and not _same_numbers(wanted[ours], tensor.shape):
            asked, found = _times(wanted[ours]), _times(tensor.shape)
            return Words("{0}/config.json asks for a tensor {1} of {2}, and its weights have {3}", (part, ours, asked, found))
        if ours is None and (layers := _list_before(modules, name)) is not None:
            return Words("its weights have the layer {0}, which {1}/config.json does not ask for", (layers, part))
    return None


def _same_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a linear layer stands there as a convolution of one pixel, as in old files."""
    return prod(one) == prod(other) and [edge for edge in one if edge != 1] == [edge for edge in other if edge != 1]


def _names(name: str) -> Iterable[str]:
    for prefix in PREFIXES:
        yield name.removeprefix(prefix)
        yield prefix + name


def _list_before(modules: Mapping[str, nn.Module], name: str) -> str | None:
    """ "encoder.layers.12" where a tensor of that layer is there, and the network's list of layers is shorter."""
    for ours in _names(name):
        words = ours.split(".")
        for at, word in enumerate(words[1:], 1):
            if not word.isdecimal() or len(word) > 9:
                continue
            start = ".".join(words[:at])
            found = modules.get(start)
            if isinstance(found, nn.ModuleList) and int(word) >= len(found):
                return f"{start}.{word}"
    return None


def _times(shape: tuple[int, ...]) -> Words | str:
    return " × ".join(f"{edge:,}" for edge in shape) or Words("one number")


@contextmanager
def no_deeper_than_weights(folder: Path, config: Mapping[str, Any], tensors: int) -> Generator[None]:
    """Stop a network built inside that is much larger than a folder with so many tensors. Raises UnfitFile."""
    try:
        with _no_more_than(2 * tensors + _SPARE, config):
            yield
    except _TooManyError as error:
        raise UnfitFile(Words("{0}/config.json asks for more layers than its weights have", (folder.name,))) from error


class _TooManyError(Exception):
    """A network has more parameters than its files could hold."""


@contextmanager
def _no_more_than(limit: int, config: Mapping[str, Any]) -> Generator[None]:
    """Stop a network built inside with more parameters, or many more modules.

    A number of layers beyond every network's is refused at once: libraries make lists of that length before the first layer.
    """
    from torch.nn.modules.module import register_module_module_registration_hook, register_module_parameter_registration_hook

    deepest = max((value for key, value in config.items() if "layers" in key and isinstance(value, int)), default=0)
    if deepest > max(limit, _DEEPEST):
        raise _TooManyError
    counts = {"parameters": 0, "modules": 0}

    def parameter(_module: nn.Module, _name: str, value: object) -> None:
        counts["parameters"] += value is not None
        if counts["parameters"] > limit:
            raise _TooManyError

    def module(_module: nn.Module, _name: str, _child: object) -> None:
        counts["modules"] += 1
        if counts["modules"] > 32 * limit:
            raise _TooManyError

    with register_module_parameter_registration_hook(parameter), register_module_module_registration_hook(module):
        yield
