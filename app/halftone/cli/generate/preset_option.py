"""The option `--preset` of `generate`: the settings of a preset that was saved in Create."""

from collections.abc import Mapping, Set
from typing import Any, Final, NamedTuple

from halftone.cli.generate.settings_from_picture import started
from halftone.cli.options.requests import known_model
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words, either
from halftone.library.options import over
from halftone.session.pictures.draft import EMPTY, to_request
from halftone.session.pictures.presets import FIELDS, Preset, applied, presets_file, read_presets
from halftone.settings.store import Settings

_REQUEST: Final[dict[str, tuple[str, ...]]] = {
    "model": (),
    "size": ("width", "height"),
    "image": ("image", "mask", "start"),
    "hires": ("hires",),
    "refiner": ("refiner",),
    "upscaler": (),
}
"""What can be ticked -> fields of the request, where the draft has others."""


class FromPreset(NamedTuple):
    """notes: a sentence for each field of the preset that is not used."""

    asked: dict[str, Any]
    model: str | None
    notes: tuple[str, ...]


def from_preset(name: str, asked: Mapping[str, Any], meant: Set[str], model: str | None, saved: Settings) -> FromPreset:
    """Put what was asked for over the settings of a preset. asked: field -> value; None is no wish but for the fields `meant`.

    Raises HalftoneError setting-bad-value for an unknown preset, words-unreadable, and as `known_model`.
    """
    preset = _named(name)
    draft, its_model, left = applied(preset, EMPTY)
    model = model or its_model or None
    facts = known_model(model, saved)
    request = to_request(draft, saved, saved.numerics, facts)
    ticked = (field for tick in preset.ticked for field in _REQUEST.get(tick, FIELDS[tick]))
    own: dict[str, Any] = {field: getattr(request, field) for field in ticked}
    given: dict[str, Any] = {field: value for field, value in asked.items() if value is not None or field in meant}
    found: dict[str, Any] = {"prompt": None, **own, **given}
    if "options" in own and "options" in given:
        found["options"] = over(given["options"], own["options"], facts.pipeline)
    if "start" in own:
        found |= started(request, given, meant)
    notes = [f"{field} of the preset {name} cannot be read and is not used." for field in left]
    if draft.upscaler is not None:
        notes.append(f"The upscale model of the preset {name} is not used. Use halftone upscale on the finished picture.")
    return FromPreset(found, model, tuple(notes))


def _named(name: str) -> Preset:
    known = {preset.name: preset for preset in read_presets(presets_file())}
    if name not in known:
        allowed = either(*known) if known else Words("a preset that you saved in Create")
        raise HalftoneError("setting-bad-value", name="--preset", value=name, allowed=allowed)
    return known[name]
