"""Recognises models on disk from names, configurations and headers alone: no weight is read, nothing is run."""

import errno
import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import add_on_name
from halftone.contract.vocabulary import POCKET
from halftone.contract.wording import Words
from halftone.library.add_ons.denoiser_files import unreadable
from halftone.library.add_ons.unusable_files import SCALED, home, listed_as, why_not
from halftone.library.families.known_families import BY_NAME, Family
from halftone.library.families.part_configs import SHORTEST, config_fault, misfit
from halftone.library.families.recognise import Recognised, folder_name, of_folder, recognise
from halftone.library.families.single_files import SINGLES, Config, configs, missing_parts, tensors_by_component
from halftone.library.families.split_files import joined, parts_beside, parts_near, unread_beside
from halftone.library.files.copies import is_repaired
from halftone.library.files.folder import INDEX, Part, component_names, files_in, native_edges, read_json, read_part, stored_dtype
from halftone.library.files.gguf_header import read_any
from halftone.library.files.header import Header, refuse_misnamed
from halftone.library.files.small_files import check_here
from halftone.library.index.walk import SKIPPED
from halftone.library.kinds.layouts import WAN_22_HIGH, WAN_22_LOW
from halftone.library.resolution_bins import bin_edge
from halftone.library.sampler_options import noise_range
from halftone.library.samplers import samplers_of
from halftone.library.tasks import only_a_stage
from halftone.settings.disk import no_right, system_words
from halftone.settings.places import resources
from halftone.settings.regular_files import is_folder

_POCKET_NOTE: Final = "halftone.json"
_NOTE_FIELDS: Final = {
    "name": "name",
    "native_width": "native_width",
    "native_height": "native_height",
    "steps": "default_steps",
    "guidance": "default_guidance",
    "training": "training",
}
PICKLES: Final = {".ckpt", ".pt", ".pth", ".bin", ".pkl", ".pt2"}
ENDINGS: Final = (".safetensors", ".sft", ".gguf")
log = logging.getLogger(__name__)


def describe(model: str) -> ModelFacts:
    """The facts of a model: "pocket", a diffusers folder, a .safetensors or a .gguf file.

    Raises HalftoneError model-missing, model-empty-folder, model-not-a-model, model-truncated, model-bad-header, model-pickle,
    model-incomplete or model-load-failed. Reads headers only: milliseconds.
    """
    if model.lower() == POCKET and not os.path.lexists(model):
        model = POCKET  # the guide writes it with a capital
    path = resources() / POCKET if model == POCKET else _path(model)
    try:
        if os.path.isdir(path):
            return _folder(model, path)
        if not os.path.exists(path):
            raise HalftoneError("model-missing", path=str(path))
        return _file(model, path)
    except PermissionError as error:
        raise no_right(error, path) from error
    except OSError as error:
        raise HalftoneError("model-load-failed", path=str(path), detail=system_words(error)) from error


def describe_again(model: str, known: Iterable[ModelFacts]) -> ModelFacts:
    """Describe a model; facts among the known ones are used again where none of its files changed. Raises as `describe`."""
    found = [one for one in known if one.id == model or (model != POCKET and one.id == str(_path(model)))]
    return next((one for one in found if is_as_it_was(one)), None) or describe(model)


def is_as_it_was(facts: ModelFacts) -> bool:
    """Whether no file of a model changed since it was described. Only the headers of files that lack parts are read."""
    try:
        path = Path(facts.path)
        same = fingerprint_of(path, facts.components, facts.parts.values()) == facts.fingerprint
        seeks = facts.lacks and facts.kind in ("checkpoint", "denoiser")  # what it lacks may have come to lie beside it
        return same and (not seeks or _file(facts.id, path) == facts)
    except (OSError, HalftoneError):
        return False


def _path(model: str) -> Path:
    """The path as typed, made absolute, with ~ for the home folder. Raises model-missing for an empty one."""
    try:
        if model and "\0" not in model:
            return Path(model).expanduser().absolute()
    except RuntimeError:
        return Path(model).absolute()
    raise HalftoneError("model-missing", path=model.replace("\0", "") or Words("(no path)"))


def runnable(facts: ModelFacts) -> None:
    """Raise HalftoneError model-unsupported for a single file that lacks parts, model-needs-parts where it runs with those of a
    folder, model-needs-files where only small files are missing, model-cannot-run for a folder whose parts do not fit together or
    are only one stage. All of these are described and listed.
    """
    if facts.format == "diffusers" and facts.why:
        raise HalftoneError("model-cannot-run", path=facts.path, detail=facts.why)
    if facts.format == "diffusers" or facts.pipeline:
        check_here(facts)
        return
    why = facts.why or Words("it is not clear what model it is")
    if facts.takes_place:
        raise HalftoneError("model-needs-parts", path=facts.path, detail=why, family=home(facts))
    raise HalftoneError("model-unsupported", path=facts.path, detail=why)


def weight_files(facts: ModelFacts) -> tuple[tuple[str, Path], ...]:
    """(component, file) of every weight file that a run reads; component "model" for a single file."""
    root = Path(facts.path)
    if not os.path.isdir(root):
        return (("model", root), *((name, Path(file)) for name, file in facts.parts.items()))
    return tuple((name, path) for name in facts.components for path, _ in read_part(root, name).files)


def list_models(
    folders: Iterable[str], known: Callable[[str], ModelFacts | None] = lambda _path: None, *, unknown: bool = True
) -> list[ModelFacts]:
    """Pocket and every model below the folders, by name. Damaged ones are left out, and the log says why.

    known: gives the facts of a path that were read before; those of files that did not change are used again. unknown: read the
    others, too.
    """
    found: dict[str, ModelFacts] = {}
    real = cache(_real_folder)
    for model in [POCKET, *model_files(folders)]:
        before = known(model)
        if before is None and not unknown and model != POCKET:
            continue
        try:
            facts = before if before is not None and is_as_it_was(before) else describe(model)
        except HalftoneError as error:
            log.info("left out of the models: %s", error)
            continue
        found.setdefault(_real_path(facts, real), facts)
    return sorted(found.values(), key=lambda facts: (facts.id != POCKET, facts.name.casefold()))


def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def _real_path(facts: ModelFacts, real: Callable[[str], str]) -> str:
    """Where a model lies once links are followed. real: does so with a folder, and remembers it: thousands of files share few."""
    if facts.format == "diffusers" or os.path.islink(facts.path):
        return os.path.realpath(facts.path)
    folder, name = os.path.split(facts.path)
    return os.path.join(real(folder), name)


def model_files(folders: Iterable[str], endings: tuple[str, ...] = ENDINGS) -> list[str]:
    """Paths of every diffusers folder and every file below the folders, at any depth, that may hold a model or a part of one; a
    path that is no folder counts itself. Unreadable folders are left out and logged.
    """
    closed: list[str] = []
    found = [path for folder in folders for path in _candidates(_home(folder), closed, endings)]
    for folder in closed:
        log.info("left out of the models: the folder %s cannot be read", folder)
    return found


def closed_folders(folders: Iterable[str]) -> tuple[str, ...]:
    """The folders among these and below them that cannot be read, and so are left out."""
    closed: list[str] = []
    for folder in folders:
        _candidates(_home(folder), closed)
    return tuple(closed)


def _home(folder: str) -> Path:
    """The folder with ~ for the home folder, unchanged where `~` names nobody."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        return Path(folder)


def _candidates(folder: Path, closed: list[str], endings: tuple[str, ...] = ENDINGS) -> list[str]:
    """closed: receives the folders that cannot be read. Each folder is looked into once: links in a circle end."""
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [str(folder)]
    while waiting:
        path = waiting.pop()
        if not is_folder(path):
            if _is_too_long(path):
                closed.append(path)
            elif path.lower().endswith(endings) and os.path.lexists(path):
                found.append(path)
        elif os.path.isfile(os.path.join(path, INDEX)):
            found.append(path)
        else:
            waiting += reversed(_inside(path, seen, closed))
    return found


def _is_too_long(path: str) -> bool:
    """Whether the system refuses a path for its length alone."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    except ValueError:
        return False
    return False


def _inside(folder: str, seen: set[tuple[int, int]], closed: list[str]) -> list[str]:
    """What lies right in a folder and is worth a look; nothing where it was seen before, by whatever name."""
    try:
        facts = os.stat(folder)
        if (facts.st_dev, facts.st_ino) in seen:
            return []
        seen.add((facts.st_dev, facts.st_ino))
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:  # no right to it, a failing disk, or a path that is too long for the system
        closed.append(folder)
        return []
    return [os.path.join(folder, name) for name in names if name[0] != "." and name.lower() not in SKIPPED]


def _folder(model: str, path: Path) -> ModelFacts:
    if not os.path.isfile(path / INDEX):
        if not any(path.iterdir()):
            raise HalftoneError("model-empty-folder", path=str(path))
        raise _no_pipeline(path)
    index = read_json(path / INDEX)
    names = component_names(index)
    pipeline = index.get("_class_name")
    if not isinstance(pipeline, str) or not names:
        raise HalftoneError("model-not-a-model", path=str(path))
    parts = _read_parts(path, names)
    schedule = path / "scheduler" / "scheduler_config.json"
    scheduler = read_json(schedule) if os.path.isfile(schedule) else {}
    family, found = of_folder(path, pipeline, parts, scheduler)
    width, height = native_edges(parts, family.size)
    facts = ModelFacts(
        id=model if model == POCKET else str(path),
        name=folder_name(path),
        path=str(path),
        family=family.name,
        format="diffusers",
        stored_dtype=found.dtype,
        stored={name: stored_dtype(part.tensors) for name, part in parts.items() if part.files},
        size_bytes=sum(file.stat().st_size for part in parts.values() for file, _ in part.files),
        fingerprint=fingerprint_of(path, names),
        native_width=width,
        native_height=height,
        bin_edge=_bin_edge(pipeline, parts),
        default_steps=found.steps or family.steps,
        default_guidance=family.guidance if found.guidance is None else found.guidance,
        prompt_tokens=_prompt_tokens(parts, family),
        pipeline=pipeline,
        base=found.base,
        prediction=found.prediction,
        components=names,
        samplers=samplers_of(pipeline, scheduler) if scheduler else (),
        own_sampler=str(scheduler.get("_class_name", "")).removesuffix("Scheduler"),
        sigmas=noise_range(scheduler) if scheduler else (),
        why=only_a_stage(pipeline) or misfit(parts) or next(filter(None, map(config_fault, parts.values())), None),
    )
    facts = _with_note(facts, path / _POCKET_NOTE)
    headers = (header for part in parts.values() for _, header in part.files)
    unsaid = "repaired" not in facts.name.casefold() and is_repaired(headers)
    return msgspec.structs.replace(facts, name=f"Repaired {facts.name}") if unsaid else facts


def _bin_edge(pipeline: str, parts: Mapping[str, Part]) -> int:
    denoiser = parts.get("transformer")
    return 0 if denoiser is None else bin_edge(pipeline, denoiser.config.get("sample_size"))


def _read_parts(path: Path, names: Iterable[str]) -> dict[str, Part]:
    """Raises HalftoneError model-incomplete with everything that is missing, or what the first damaged file raises."""
    parts: dict[str, Part] = {}
    missing: list[Words | str] = []
    for name in names:
        try:
            parts[name] = read_part(path, name)
        except HalftoneError as error:
            if error.code != "model-incomplete":
                raise
            lost = error.facts["missing"]
            missing.append(lost if isinstance(lost, Words) else str(lost))
    if missing:
        raise HalftoneError("model-incomplete", path=str(path), missing=tuple(missing))
    return parts


def _no_pipeline(path: Path) -> HalftoneError:
    """The error of a folder without an index; it may be one part of a model."""
    config = path / "config.json"
    kind = read_json(config).get("_class_name") if os.path.isfile(config) else None
    if not isinstance(kind, str):
        return HalftoneError("model-not-a-model", path=str(path))
    detail = Words("it is one part of a model ({0}); choose the folder above, with model_index.json", (kind,))
    return HalftoneError("model-unsupported", path=str(path), detail=detail)


def _prompt_tokens(parts: dict[str, Part], family: Family) -> int:
    """The tokenizer's length, within the text encoder's positions; the family's own where the tokenizer says "no limit" by a huge
    number or the family pads to a length of its own.
    """
    part, encoder = parts.get("tokenizer"), parts.get("text_encoder")
    length = part.config.get("model_max_length") if part else None
    places = encoder.config.get("max_position_embeddings") if encoder else None
    if not isinstance(length, int) or not SHORTEST <= length < 4096 or family.tokens != 77:
        return family.tokens
    return min(length, places) if isinstance(places, int) and places >= SHORTEST else length


def _with_note(facts: ModelFacts, path: Path) -> ModelFacts:
    """Apply the name and the defaults in a model's halftone.json, which Pocket has."""
    if not os.path.isfile(path):
        return facts
    note = {_NOTE_FIELDS[key]: value for key, value in read_json(path).items() if key in _NOTE_FIELDS}
    try:
        return msgspec.convert(msgspec.to_builtins(facts) | note, ModelFacts)
    except msgspec.ValidationError as error:
        raise HalftoneError("model-bad-header", path=str(path), detail=str(error)) from error


def _file(model: str, path: Path) -> ModelFacts:
    if path.suffix.lower() in PICKLES:
        if os.path.isfile(path):
            refuse_misnamed(path)
        raise HalftoneError("model-pickle", path=str(path))
    if path.suffix.lower() not in ENDINGS or not os.path.isfile(path):
        raise HalftoneError("model-not-a-model", path=str(path))
    header = read_any(path)
    if not header.tensors:
        raise HalftoneError("model-not-a-model", path=str(path))
    return facts_of(path, header, recognise(header, path.stem), model)


def facts_of(path: Path, header: Header, found: Recognised, model: str = "") -> ModelFacts:
    """The facts of a file that was read and recognised; its header has tensors. model: its name, where that is not its path."""
    size = found.size or 512
    facts = ModelFacts(
        id=str(path) if model != POCKET else model,
        name=add_on_name(str(path)),
        path=str(path),
        family=listed_as(found),
        format="single-file",
        stored_dtype=found.dtype,
        size_bytes=path.stat().st_size,
        fingerprint=fingerprint_of(path),
        native_width=size,
        native_height=size,
        default_steps=found.steps or 28,
        default_guidance=6.0 if found.guidance is None else found.guidance,
        prompt_tokens=BY_NAME[found.family].tokens if found.family in BY_NAME else 77,
        components=("model",),
        kind=found.kind,
        base=found.base,
        prediction=found.prediction,
        lacks=found.lacks,
        alias="" if found.lora is None else found.lora.alias,
    )
    unread = unreadable(header, found)
    whole, parts = header, dict[str, str]()
    if found.kind in ("checkpoint", "denoiser") and _can_be_whole(found) and unread is None:
        parts = parts_beside(path, found.family, found.base, header)
        whole = joined(found.family, header, parts)
    elif found.lacks:
        beside = {part.name for part in parts_near(path) if not part.unread}
        found = msgspec.structs.replace(found, lacks=tuple(name for name in found.lacks if name not in beside))
    why = _why_not(path, found, whole, unread)
    if why is not None:
        if unread is not None and found.kind == "denoiser" and not found.quantised:
            why = unread
        return msgspec.structs.replace(facts, why=why, takes_place=unread is None)
    stored = {name: stored_dtype(tensors) for name, tensors in tensors_by_component(found.family, whole).items()}
    facts = msgspec.structs.replace(
        facts,
        stored=stored,
        parts=parts,
        size_bytes=facts.size_bytes + sum(Path(file).stat().st_size for file in parts.values()),
        fingerprint=fingerprint_of(path, (), parts.values()),
        takes_place=found.kind == "denoiser",
    )
    return _with_parts(facts, configs(facts.family, whole, facts.path), own_size=found.size != BY_NAME[found.family].size)


def _can_be_whole(found: Recognised) -> bool:
    """Whether such a file, with the parts beside it, can be a whole model."""
    single = SINGLES.get(found.family)
    return (
        single is not None
        and found.naming == single.layout
        and not ((single.words_only and found.takes) or found.base in single.apart)
    )


def _why_not(path: Path, found: Recognised, whole: Header, unread: Words | None) -> Words | None:
    """Why this file makes no picture; None where it does. whole: with the parts beside it; unread: why its denoiser cannot be
    read.
    """
    if found.base == WAN_22_LOW and unread is None:
        return Words(
            "it is the half of Wan 2.2 14B for low noise; choose the file of the half for high noise, which runs with this one"
        )
    if found.kind not in ("checkpoint", "denoiser") or not _can_be_whole(found) or unread is not None:
        return why_not(found)
    by_shapes = SINGLES[found.family].naming is not None  # every base of these is built by its shapes
    if not (by_shapes or found.alike) or (found.kind == "checkpoint" and found.quantised not in ("", SCALED)):
        return why_not(found)
    lacking = missing_parts(found.family, found.base, whole)
    if lacking and (unfit := unread_beside(path, found.family, found.base)) is not None:
        return Words(
            "the weights of {0}, which lies beside it, are quantised ({1}), and Halftone does not read such a part", unfit
        )
    if lacking and found.base == WAN_22_HIGH:
        there = "it holds only the denoiser of {0}, and neither beside it nor in the folders vae and text_encoders is {1}"
        return Words(there, (found.base, lacking))
    if lacking and found.kind == "denoiser":
        return Words("it holds only the denoiser of {0}, and the folders vae and text_encoders lack {1}", (found.base, lacking))
    return Words("it and the folders vae and text_encoders lack {0}", (lacking,)) if lacking else None


def _with_parts(facts: ModelFacts, found: Mapping[str, Config], *, own_size: bool) -> ModelFacts:
    """Complete the facts of a whole model in one file from the configurations of its parts. own_size: its base has one."""
    pipeline = str(found["model_index"]["_class_name"])
    if "Kontext" in facts.base:  # built like FLUX.1 dev; only its name differs
        pipeline = pipeline.replace("Flux", "FluxKontext")
    parts = {name: Part(name, config, ()) for name, config in found.items()}
    edges = facts.native_width, facts.native_height
    width, height = edges if own_size else native_edges(parts, edges[0])
    return msgspec.structs.replace(
        facts,
        native_width=width,
        native_height=height,
        bin_edge=_bin_edge(pipeline, parts),
        pipeline=pipeline,
        components=component_names(found["model_index"]),
        samplers=samplers_of(pipeline, found["scheduler"]),
        prediction=str(found["scheduler"].get("prediction_type", facts.prediction)),
        own_sampler=str(found["scheduler"]["_class_name"]).removesuffix("Scheduler"),
        sigmas=noise_range(found["scheduler"]),
    )


def fingerprint_of(path: Path, components: Iterable[str] = (), parts: Iterable[str] = ()) -> str:
    """Changes when a file is added, removed, renamed, resized or rewritten. Contents are not read: that would take minutes.
    parts: files of a model in one file that lie apart.
    """
    facts = os.stat(path)
    found = [(path.name, facts)]
    if stat.S_ISDIR(facts.st_mode):
        files = sorted(file for name in ("", *components) for file in files_in(path / name))
        found = [(str(file.relative_to(path)), file.stat()) for file in files]
    found += [(file, os.stat(file)) for file in parts]
    lines = "".join(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n" for name, facts in found)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]
