"""What is known of pictures, in words."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from halftone.contract.facts import PictureFacts
from halftone.contract.parameters import seed_in
from halftone.contract.request import PictureRequest, model_stem
from halftone.gui import text
from halftone.gui.create.picture.picture_details import elapsed
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.health.part_names import capital
from halftone.health.pictures.setting_names import program_of
from halftone.library.prompts.drawn_prompts import as_made
from halftone.metadata.reading import Parameters
from halftone.session.pictures.gallery_state import Detail

Row = tuple[str, str]
Namer = Callable[[str], str]
"""Gives a model's name for its id."""


def prompts(detail: Detail) -> tuple[str, str]:
    """(prompt, negative prompt), "" where there is none."""
    if detail.made is not None:
        facts, request = detail.made.facts, detail.made.request
        return facts.prompt or request.prompt, facts.negative or request.negative
    return (detail.said.prompt, detail.said.negative) if detail.said is not None else ("", "")


def facts(detail: Detail, name: Namer) -> list[Row]:
    """What it was made with, a row each."""
    if detail.made is not None:
        rows = _made_rows(detail.made.facts, detail.made.request, name)
        when = listed(_moment(detail.made_at), tr("in {0}", elapsed(detail.made.facts.seconds)))
    else:
        rows = _said_rows(detail.said) if detail.said is not None else []
        when = _moment(detail.made_at)
    size = [] if any(name == tr("Size") for name, _ in rows) else [(tr("Size"), _size(*detail.size))]
    rows = [*size, *rows, (tr("Made"), when), (tr("File"), Path(detail.path).name)]
    if collections := sorted(detail.marks - {""}):
        rows.append((tr("Collections"), listed(*collections)))
    return [(name, value) for name, value in rows if value]


def _made_rows(picture: PictureFacts, request: PictureRequest, name: Namer) -> list[Row]:
    guidance = "" if request.guidance is None else tr("guidance {0}", figures.decimal(request.guidance))
    frames = tr("{0} frames", picture.frames) if picture.frames > 1 else ""
    upscaler = "" if picture.upscaled is None else f"{model_stem(picture.upscaled.upscaler)} {picture.upscaled.scale} ×"
    return [
        (tr("Model"), name(request.model)),
        (tr("LoRA"), text.net_list(as_made(request, picture).loras)),
        (tr("Size"), listed(*filter(None, (_size(picture.width, picture.height), frames)))),
        (tr("Steps"), listed(*filter(None, (str(picture.steps or ""), guidance)))),
        (tr("Sampler"), request.sampler or ""),
        (tr("Upscaler"), upscaler),
        (tr("Seed"), figures.group(picture.seed)),
    ]


def _said_rows(said: Parameters) -> list[Row]:
    fields = said.fields
    guidance = tr("guidance {0}", fields["CFG scale"]) if "CFG scale" in fields else ""
    sampler = listed(*filter(None, (fields.get("Sampler", ""), fields.get("Schedule type", ""))))
    written = fields.get("Seed", "")
    seed = seed_in(written)
    return [
        (tr("Model"), fields.get("Model", "")),
        (tr("Size"), fields.get("Size", "").replace("x", " × ")),
        (tr("Steps"), listed(*filter(None, (fields.get("Steps", ""), guidance)))),
        (tr("Sampler"), sampler),
        (tr("Seed"), written if seed is None else figures.group(seed)),
        (tr("Program"), _program(fields.get("Version", ""))),
    ]


def _program(version: str) -> str:
    """Its name and version; the name once, as some write it into the version."""
    name = program_of(version)
    return version if version.startswith(name) else f"{name} {version}"


def _size(width: int, height: int) -> str:
    return f"{width} × {height}" if width and height else ""


def _moment(when: datetime) -> str:
    return capital(figures.moment(when.isoformat()))


def numerics(picture: PictureFacts) -> list[Row]:
    """What it ran in and what was found, a row each."""
    watched = picture.state != "unwatched"
    rows = [
        (tr("Ran in"), _ran_in(picture)),
        (tr("NaN or infinity"), tr("{0} found", len(picture.events)) if watched else tr("not checked")),
        (tr("Latent headroom"), "" if picture.room_bits is None else figures.bits(picture.room_bits)),
    ]
    return [(name, value) for name, value in rows if value]


def _ran_in(picture: PictureFacts) -> str:
    """The type of most parts, then those that ran in another."""
    if not picture.dtypes:
        return ""
    usual = Counter(picture.dtypes.values()).most_common(1)[0][0]
    others = (
        tr("{0} in {1}", text.component_name(part), text.TYPE_NAMES[dtype])
        for part, dtype in picture.dtypes.items()
        if dtype != usual
    )
    return listed(text.TYPE_NAMES[usual], *others)


def shared(details: Sequence[Detail], name: Namer) -> list[Row]:
    """What several pictures have in common; "Several" where they differ."""
    tables = [dict(facts(one, name)) for one in details]
    names = dict.fromkeys(name for table in tables for name in table if name != tr("File"))
    return [(name, _common([table.get(name, "") for table in tables])) for name in names]


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else tr("Several")


def spoken(detail: Detail, place: int, count: int) -> str:
    """What a screen reader says of a picture that is reached."""
    prompt, _ = prompts(detail)
    where = tr("{0} of {1}", figures.group(place + 1), figures.group(count))
    gone = tr("The file is missing.") if detail.gone else ""
    return sentences(listed(*filter(None, (prompt or Path(detail.path).name, where))) + ".", gone)
