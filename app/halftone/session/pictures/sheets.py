"""Puts the pictures of a grid together on one sheet with labels, and lists it."""

import logging
import math
import os
import sqlite3
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from halftone import __version__
from halftone.contract.errors import HalftoneError, sentence
from halftone.contract.facts import PictureFacts, SheetFacts
from halftone.contract.wording import Words
from halftone.gallery.made import list_made
from halftone.metadata.parameters import write_parameters
from halftone.metadata.picture import Texts, ending_for, free_name, save_picture
from halftone.metadata.reading import parse_parameters, read_picture
from halftone.metadata.source_type import source_type
from halftone.session.events import Composed, Replaced
from halftone.session.pictures.grid import Axis, Cell, Grid
from halftone.session.pictures.history import Made, with_made
from halftone.session.pictures.picture_list import remember
from halftone.session.ports import Executor
from halftone.session.state import Sheet
from halftone.session.store import Store
from halftone.settings.disk import system_words
from halftone.settings.picture_files import opened_picture
from halftone.settings.places import log_dir, pictures_dir, resources

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

log = logging.getLogger(__name__)

MOST_PIXELS: Final = 40_000_000
"""Of a sheet: a larger one is scaled down."""
_SMALLEST: Final = 32
_PAPER: Final = (255, 255, 255)
_INK: Final = (24, 24, 24)
_GREY: Final = (110, 110, 110)
_EMPTY: Final = (236, 236, 236)
_GAP: Final = 4
_THUMBNAIL: Final = 256
_STATES: Final = {"recovered": "Recovered", "not-recovered": "Not recovered", "unwatched": "Not monitored"}
_AXES: Final = ("X", "Y", "Z")
_TEXT_SHARE: Final = 24
"""Pixels of a cell's edge for one pixel of text height, at most."""


class Layout(NamedTuple):
    """Sizes in pixels. cell: of one picture as it is drawn; share: of its own size; text: height of the letters; left: width of
    the labels of the rows; top: height of those of the columns.
    """

    cell: tuple[int, int]
    share: float
    text: int
    left: int
    top: int
    title: int
    columns: int
    rows: int
    blocks: int

    @property
    def size(self) -> tuple[int, int]:
        width, height = self.cell
        block = self.title + self.top + self.rows * (height + _GAP)
        return self.left + self.columns * (width + _GAP) + _GAP, self.blocks * block + self.text * 2 + _GAP

    def corner(self, place: tuple[int, int, int]) -> tuple[int, int]:
        """Left and top of a cell. place: its column, row and block."""
        column, row, block = place
        width, height = self.cell
        whole = self.title + self.top + self.rows * (height + _GAP)
        return self.left + column * (width + _GAP), block * whole + self.title + self.top + row * (height + _GAP)


def layout(grid: Grid, cell: tuple[int, int], most: int = MOST_PIXELS) -> Layout:
    """Where everything goes. cell: size of the largest picture. A sheet above `most` pixels gets smaller pictures."""
    columns, rows, blocks = (len(grid.axes[number].values) if number < len(grid.axes) else 1 for number in range(3))
    share = min(1.0, math.sqrt(most / (cell[0] * cell[1] * columns * rows * blocks * 1.2)))
    width, height = (max(_SMALLEST, round(edge * share)) for edge in cell)
    text = max(10, min(28, min(width, height) // _TEXT_SHARE * 2 or 10))
    longest = max((len(shown) for axis in grid.axes[1:2] for shown in axis.shown), default=0)
    left = min(width, max(text * 2, round(longest * text * 0.7) + 2 * _GAP)) if rows > 1 else _GAP
    return Layout((width, height), share, text, left, text * 2, text * 2 if blocks > 1 else 0, columns, rows, blocks)


def compose(grid: Grid, most: int = MOST_PIXELS) -> tuple["Image.Image", float]:
    """(the sheet, by how much its pictures were scaled). One picture is in memory at a time. Raises HalftoneError where there is
    not one picture.
    """
    from PIL import Image, ImageDraw

    cells = dict(zip(grid.places, grid.cells, strict=False))
    sizes = [(cell.facts.width, cell.facts.height) for cell in cells.values() if cell.facts is not None and cell.facts.path]
    if not sizes:
        error = next((cell.error for cell in cells.values() if cell.error is not None), None)
        raise (
            _failure(Words("no picture of the grid was made"))
            if error is None
            else HalftoneError(error.code, error.details, **error.facts)
        )
    plan = layout(grid, (max(width for width, _ in sizes), max(height for _, height in sizes)), most)
    sheet = Image.new("RGB", plan.size, _PAPER)
    draw = ImageDraw.Draw(sheet)
    for index in product(range(plan.columns), range(plan.rows), range(plan.blocks)):
        place = index[: len(grid.axes)]
        _draw_cell(sheet, draw, plan, index, cells.get(place))
    _draw_labels(draw, plan, grid)
    return sheet, plan.share


def _failure(detail: Words | str) -> HalftoneError:
    return HalftoneError("internal", detail=detail, log=str(log_dir()))


def _draw_cell(
    sheet: "Image.Image", draw: "ImageDraw.ImageDraw", plan: Layout, index: tuple[int, int, int], cell: Cell | None
) -> None:
    left, top = plan.corner(index)
    width, height = plan.cell
    facts = cell.facts if cell is not None else None
    picture = _picture(facts, plan) if facts is not None and facts.path else None
    if picture is None:
        draw.rectangle((left, top, left + width - 1, top + height - 1), fill=_EMPTY)
        _write(draw, (left, top, width, height), _why(cell), plan.text, _GREY)
        return
    sheet.paste(picture, (left + (width - picture.width) // 2, top + (height - picture.height) // 2))
    if facts is not None and (words := _STATES.get(facts.state)):
        band = round(plan.text * 1.5)
        draw.rectangle((left, top + height - band, left + width - 1, top + height - 1), fill=_PAPER)
        _write(draw, (left, top + height - band, width, band), words, plan.text, _INK)


def _why(cell: Cell | None) -> str:
    if cell is None:
        return "Not generated"
    return "Failed" if cell.error is None else f"Failed: {sentence(cell.error)}"


def _picture(facts: PictureFacts, plan: Layout) -> "Image.Image | None":
    from PIL import Image

    try:
        with opened_picture(facts.path) as opened:
            size = max(1, round(opened.width * plan.share)), max(1, round(opened.height * plan.share))
            picture = opened.convert("RGB")
    except (HalftoneError, OSError) as error:
        log.warning("a picture of the grid cannot be read: %s", error)
        return None
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)


def _draw_labels(draw: "ImageDraw.ImageDraw", plan: Layout, grid: Grid) -> None:
    across, *others = grid.axes
    width, height = plan.cell
    for block in range(plan.blocks):
        left, top = plan.corner((0, 0, block))
        if plan.blocks > 1:
            place = (_GAP, top - plan.top - plan.title, plan.size[0] - 2 * _GAP, plan.title)
            _write(draw, place, _label(others[1], block), plan.text + 2, _INK)
        for column in range(plan.columns):
            place = (left + column * (width + _GAP), top - plan.top, width, plan.top)
            _write(draw, place, _label(across, column) if column == 0 else across.shown[column], plan.text, _INK)
        for row in range(plan.rows if others else 0):
            place = (_GAP, top + row * (height + _GAP), plan.left - 2 * _GAP, height)
            _write(draw, place, others[0].shown[row], plan.text, _INK)
    words = [f"{name}: {axis.label}" for name, axis in zip(_AXES, grid.axes, strict=False)]
    words += [f"Pictures scaled to {plan.share:.0%}"] if plan.share < 1 else []
    _write(
        draw, (_GAP, plan.size[1] - plan.text * 2, plan.size[0] - 2 * _GAP, plan.text * 2), "   ".join(words), plan.text, _GREY
    )


def _label(axis: Axis, place: int) -> str:
    return f"{axis.label}: {axis.shown[place]}"


def _write(
    draw: "ImageDraw.ImageDraw", place: tuple[int, int, int, int], words: str, size: int, colour: tuple[int, int, int]
) -> None:
    """Words in the middle of a place, cut where they do not fit."""
    left, top, width, height = place
    font = _font(size, plain=words.isascii())
    while len(words) > 1 and draw.textlength(words, font) > width:
        words = words[: max(1, len(words) - 2)].rstrip("…") + "…" if len(words) > 2 else words[:1]
    draw.text((left + width / 2, top + height / 2), words, colour, font, anchor="mm")


_HAN_FONTS: Final = (
    "NotoSansCJK-Regular.ttc",
    "msyh.ttc",
    "PingFang.ttc",
    "Hiragino Sans GB.ttc",
    "wqy-microhei.ttc",
    "wqy-zenhei.ttc",
    "DroidSansFallbackFull.ttf",
    "simsun.ttc",
)
"""Fonts of the systems with Chinese characters, which the bundled one lacks."""


@cache
def _font(size: int, *, plain: bool) -> "ImageFont.FreeTypeFont":
    from PIL import ImageFont

    for name in () if plain else _HAN_FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.truetype(resources() / "fonts" / "Inter-Regular.ttf", size)


# --- texts -----------------------------------------------------------------------------------------------------------


def sheet_texts(grid: Grid, first: PictureFacts, share: float) -> Texts:
    """The text is that of the first picture, with the axes under A1111's names."""
    said = _said(first)
    axes = {
        key: value
        for name, axis in zip(_AXES, grid.axes, strict=False)
        for key, value in ((f"{name} Type", axis.label), (f"{name} Values", ", ".join(axis.shown)))
    }
    fields = {**said.fields, "Script": "X/Y/Z plot", **axes}
    text = write_parameters(said.prompt, said.negative, fields)
    cells = [
        _cell_object(grid, place, cell, str(request.seed))
        for place, cell, request in zip(grid.places, grid.cells, grid.requests, strict=False)
    ]
    content = {
        "schema": 1,
        "version": __version__,
        "grid": {"axes": [{"name": axis.name, "values": axis.values} for axis in grid.axes], "scaled": share, "cells": cells},
    }
    source = source_type(grid.requests[0]) if grid.requests[0].saving.ai_label else ""
    return Texts(text, msgspec.json.encode(content).decode(), source)


def _said(facts: PictureFacts) -> Any:
    try:
        return parse_parameters(read_picture(Path(facts.path)).parameters or "")
    except HalftoneError:
        return parse_parameters("")


def _cell_object(grid: Grid, place: tuple[int, ...], cell: Cell, seed: str) -> dict[str, Any]:
    values = {axis.name: axis.values[index] for axis, index in zip(grid.axes, place, strict=True)}
    if cell.facts is None:
        return {"values": values, "seed": seed, "error": "" if cell.error is None else sentence(cell.error)}
    facts = cell.facts
    made = {"file": Path(facts.path).name, "state": facts.state, "seed": str(facts.seed)}
    return {"values": values, **made, "width": facts.width, "height": facts.height}


# --- saving ----------------------------------------------------------------------------------------------------------


def save_sheet(grid: Grid) -> tuple[PictureFacts, bytes]:
    """Write the sheet beside its pictures; returns its facts and its thumbnail. Raises HalftoneError."""
    import io

    sheet, share = compose(grid)
    first = next(cell.facts for cell in grid.cells if cell.facts is not None and cell.facts.path)
    saving = grid.requests[0].saving
    texts = sheet_texts(grid, first, share) if saving.save_metadata else Texts()
    source = Path(first.path)
    name = f"{source.stem}-grid{ending_for(saving.picture_format, sheet.size, texts.parameters)}"
    named = (source.parent if source.parent.is_dir() else pictures_dir()) / name
    path = free_name(named) if os.path.lexists(named) else named
    save_picture(sheet, path, *texts, quality=saving.picture_quality)
    width, height = sheet.size
    sheet.thumbnail((_THUMBNAIL, _THUMBNAIL))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return _sheet_facts(grid, first, str(path), (width, height)), buffer.getvalue()


def _sheet_facts(grid: Grid, first: PictureFacts, path: str, size: tuple[int, int]) -> PictureFacts:
    """The first picture's facts where they hold for the whole sheet."""
    made = [cell.facts for cell in grid.cells if cell.facts is not None]
    good = [one for one in made if one.path and not one.black and one.state in ("clean", "recovered", "unwatched")]
    states = [one.state for one in good]
    sheet = SheetFacts(
        axes=tuple((axis.name, ", ".join(axis.shown)) for axis in grid.axes),
        pictures=len(grid.places),
        recovered=states.count("recovered"),
        failed=len(grid.places) - len(good),
        unwatched=states.count("unwatched"),
    )
    rooms = [one.room_bits for one in made if one.room_bits is not None]
    return PictureFacts(
        path=path,
        seed=first.seed,
        index=0,
        width=size[0],
        height=size[1],
        state="recovered" if sheet.recovered else "unwatched" if sheet.unwatched else "clean",
        dtypes={},
        black=False,
        finite=True,
        dark=False,
        room_bits=min(rooms, default=None),
        seconds=sum(one.seconds for one in made),
        steps=first.steps,
        prompt=first.prompt,
        negative=first.negative,
        loras=first.loras,
        sheet=sheet,
    )


def save_and_list(grid: Grid) -> tuple[PictureFacts, bytes]:
    """The same, put on the list of pictures. Raises HalftoneError."""
    facts, small = save_sheet(grid)
    try:
        list_made(grid.requests[0], facts, small)
    except (OSError, sqlite3.Error) as error:
        log.warning("The history could not be kept: %s", error)
    return facts, small


class SheetMaker:
    """Puts grids together as soon as their pictures are all over."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._begun: set[str] = set()
        self._failed: set[str] = set()
        store.subscribe(lambda state: state.sheets, self._make)

    def _make(self, sheets: tuple[Sheet, ...]) -> None:
        for sheet in sheets:
            if sheet.key not in self._begun:
                self._begun.add(sheet.key)
                self._start(sheet)

    def retry(self, key: str) -> None:
        """Save a sheet that could not be saved."""
        if key in self._failed:
            self._failed.discard(key)
            self._begun.discard(key)
            self._make(self._store.state.sheets)

    def discard(self, key: str) -> None:
        """Give up a sheet that could not be saved. Its pictures stay."""
        if key in self._failed:
            self._store.take(Composed(key=key))

    def _start(self, sheet: Sheet) -> None:
        def work() -> Made:
            facts, small = save_sheet(sheet.grid)
            return remember(facts, sheet.grid.requests[0], small, b"")

        def made(found: Made) -> None:
            self._store.take(Replaced(part=with_made(self._store.state.history, found)))
            self._store.take(Composed(key=sheet.key, path=found.facts.path))

        def failed(error: Exception) -> None:
            log.warning("a grid could not be saved: %s", error)
            detail = system_words(error) if isinstance(error, OSError) else str(error)
            known = error if isinstance(error, HalftoneError) else _failure(detail)
            self._failed.add(sheet.key)
            self._store.take(Composed(key=sheet.key, error=known.as_facts()))

        self._executor.run(work, made, failed)
