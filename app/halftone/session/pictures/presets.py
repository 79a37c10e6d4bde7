"""Presets: any fields of the draft under a name, in a file of plain JSON. What this version does not know in it stays."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.request import file_name
from halftone.contract.wording import Words
from halftone.library.prompts.wildcards import read_words
from halftone.session.events import Drafted
from halftone.session.pictures.draft import EMPTY, Draft, held, in_use, with_defaults_of
from halftone.session.pictures.draft_parts import PARTS
from halftone.session.ports import Executor
from halftone.session.store import Store
from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir

FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "model": ("model",),
    "prompt": ("prompt",),
    "negative": ("negative", "empty_negative"),
    "styles": ("styles", "draws"),
    "size": ("size",),
    "steps": ("steps",),
    "guidance": ("guidance",),
    "sampler": ("sampler",),
    "seed": ("seed",),
    "batch": ("batch",),
    "image": ("image", "mask", "start", "only_masked", "padding"),
    "loras": ("loras",),
    "controls": ("controls",),
    "ip_adapters": ("ip_adapters",),
    "hires": ("hires_on", "hires"),
    "refiner": ("refiner", "refiner_at", "refiner_by_steps"),
    "upscaler": ("upscaler",),
    "variation": ("variation_seed", "variation_strength", "seed_size"),
    "vae": ("vae",),
    "transformer": ("transformer",),
    "video": ("num_frames", "video", "fps"),
    "options": ("options",),
}
"""What can be ticked -> the fields of the draft that go with it, in the order of the form."""
_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(Draft)}
_USUAL: Final = ("size", "steps", "guidance", "sampler")


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """values: fields of the draft as JSON, by name; other: what else the file has of it."""

    name: str
    values: dict[str, Any]
    other: dict[str, Any] = {}

    @property
    def ticked(self) -> tuple[str, ...]:
        return tuple(name for name, fields in FIELDS.items() if any(field in self.values for field in fields))


class Applied(NamedTuple):
    """The draft with a preset, the model that it names ("" for none), and what of it cannot be read here."""

    draft: Draft
    model: str
    left: tuple[str, ...]


def preset_of(name: str, draft: Draft, ticked: Collection[str]) -> Preset:
    """The ticked fields of a draft under a name."""
    fields = [field for tick in FIELDS if tick in ticked for field in FIELDS[tick]]
    return Preset(name=name, values={field: msgspec.to_builtins(getattr(draft, field)) for field in fields})


def proposed(draft: Draft) -> frozenset[str]:
    """What is ticked at first: how pictures are sampled, and each part that is in use."""
    return frozenset((*_USUAL, *(part for part in PARTS if in_use(draft, part)))) - {"image"}


def applied(preset: Preset, draft: Draft) -> Applied:
    """The draft with the fields of a preset; a field that this version does not know, or cannot read, stays as it is."""
    taken, left = dict[str, Any](), list[str]()
    for name, value in preset.values.items():
        try:
            taken[name] = msgspec.convert(value, _TYPES[name])
        except (KeyError, msgspec.ValidationError):
            left.append(name)
    model = taken.pop("model", "")
    return Applied(held(msgspec.structs.replace(draft, **taken)), model, tuple(left))


def missing(preset: Preset, models: Collection[str]) -> tuple[str, ...]:
    """Names of the files that a preset asks for and that are not there, the model among them. models: those that are known."""
    draft, model, _ = applied(preset, EMPTY)
    paths = [one.path for one in (*draft.loras, *draft.controls, *draft.ip_adapters)]
    paths += [path for path in (draft.vae, draft.transformer, draft.refiner, draft.upscaler, draft.image, draft.mask) if path]
    gone = [path for path in paths if not os.path.exists(path)]
    return tuple(file_name(path) for path in ([model] if model and model not in models else []) + gone)


# --- the file --------------------------------------------------------------------------------------------------------


def presets_file() -> Path:
    return data_dir() / "presets.json"


def read_presets(path: Path) -> tuple[Preset, ...]:
    """In the order of the file. Raises words-unreadable for what is no file of presets."""
    return tuple(found for found in map(_preset, _entries(path)) if found is not None)


def save_preset(preset: Preset, path: Path) -> None:
    """Put a preset into the file, in the place of one of its name. Raises words-unreadable and OSError."""
    before = next((one for one in read_presets(path) if one.name == preset.name), None)
    unknown = {} if before is None else {name: value for name, value in before.values.items() if name not in _TYPES}
    other = before.other if before is not None else preset.other
    entry = {**other, "name": preset.name, "fields": {**unknown, **preset.values}}
    _change(path, preset.name, entry)


def rename_preset(name: str, new: str, path: Path) -> None:
    """Raises words-unreadable, OSError, and setting-bad-value for a name in use."""
    entries = _entries(path)
    if new == name or all(entry.get("name") != name for entry in entries):
        return
    if any(entry.get("name") == new for entry in entries):
        free = Words("a name that no preset has")
        raise HalftoneError("setting-bad-value", name=Words("Preset name"), value=new, allowed=free)
    _write(path, [{**entry, "name": new} if entry.get("name") == name else entry for entry in entries])


def delete_preset(name: str, path: Path) -> None:
    """Raises words-unreadable and OSError."""
    _change(path, name, None)


def put_back(preset: Preset, path: Path) -> None:
    """Write a preset as it was read. Raises words-unreadable and OSError."""
    _change(path, preset.name, {**preset.other, "name": preset.name, "fields": preset.values})


def _change(path: Path, name: str, entry: Mapping[str, Any] | None) -> None:
    """entry: in the place of what has this name; None: nothing."""
    entries = _entries(path)
    place = next((index for index, one in enumerate(entries) if one.get("name") == name), len(entries))
    _write(path, [*entries[:place], *([entry] if entry is not None else []), *entries[place + 1 :]])


def _entries(path: Path) -> list[dict[str, Any]]:
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what else the file holds, the presets)."""
    if not os.path.isfile(path):
        return {}, []
    try:
        whole = msgspec.json.decode(read_words(path), type=dict[str, Any])
        return whole, msgspec.convert(whole.pop("presets"), list[dict[str, Any]])
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError) as error:
        raise HalftoneError("words-unreadable", str(error), path=str(path), detail=Words("it holds no presets")) from error


def _preset(entry: dict[str, Any]) -> Preset | None:
    name, values = entry.get("name"), entry.get("fields")
    if not isinstance(name, str) or not isinstance(values, dict):
        return None
    return Preset(name=name, values=values, other={key: value for key, value in entry.items() if key not in ("name", "fields")})


def _write(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    whole = {**_read(path)[0], "presets": entries}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(whole), indent=1))


# --- the use case ----------------------------------------------------------------------------------------------------

Then = Callable[[tuple[Preset, ...]], None]
"""Gets the presets as the file has them now."""
Failed = Callable[[Exception], None]


class PresetBook:
    """Reads and changes the file in the background, in the order of the calls. select: chooses a model."""

    def __init__(self, store: Store, executor: Executor, select: Callable[[str], object]) -> None:
        self._store, self._executor, self._select = store, executor, select

    def read(self, then: Then, failed: Failed) -> None:
        self._executor.run_in_order(lambda: read_presets(presets_file()), then, failed)

    def change(self, change: Callable[[Path], object], then: Then, failed: Failed) -> None:
        """Change the file. change: gets its place."""

        def work() -> tuple[Preset, ...]:
            change(presets_file())
            return read_presets(presets_file())

        self._executor.run_in_order(work, then, failed)

    def made(self, name: str, ticked: Collection[str]) -> Preset:
        """A preset of the present draft and model."""
        state = self._store.state
        return preset_of(name, msgspec.structs.replace(state.draft, model=state.settings.last_model), ticked)

    def apply(self, preset: Preset, then: Callable[[tuple[str, ...]], None]) -> None:
        """Fill the draft. then: gets the names of what is missing and of the fields that cannot be read."""
        state = self._store.state
        model = applied(preset, state.draft).model
        facts = state.models.models.get(model)
        draft, _, left = applied(preset, state.draft if facts is None else with_defaults_of(state.draft, facts))
        self._store.take(Drafted(draft=draft))
        if facts is not None and model != state.settings.last_model:
            self._select(model)
        models = frozenset(state.models.models)
        self._executor.run(lambda: missing(preset, models), lambda gone: then((*gone, *left)))
