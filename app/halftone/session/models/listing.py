"""Decides what a list of models shows: which entries, in which order, and how many there are of each sort."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.wording import Words
from halftone.health.judge import Badge
from halftone.library.families.recognise import Kind
from halftone.library.index.entries import Entry, Shelf, part_files
from halftone.library.index.tidying import duplicates, wrong_folder
from halftone.session.models.conversion import target_of
from halftone.session.models.healths import Health
from halftone.session.models.watched import Library, Mark

Place = Literal[
    "Checkpoints", "LoRA", "VAE", "ControlNet", "Embeddings", "Upscalers", "Text encoders", "Other",
    "recent", "favourites", "duplicates", "unreadable", "damaged", "pickles", "misplaced",
]  # fmt: skip
"""A shelf, or a list that goes across the shelves."""
SHELVES: Final[tuple[Shelf, ...]] = get_args(Shelf)
LISTS: Final[tuple[Place, ...]] = ("recent", "favourites", "duplicates", "unreadable", "damaged", "pickles", "misplaced")
PROBLEMS: Final = LISTS[3:]
STATES: Final = ("healthy", "cured", "tight", "overflows", "broken", "unchecked")
Sort = Literal["used", "name", "family", "size", "health", "precision"]
_WORST: Final = {state: rank for rank, state in enumerate(("broken", "overflows", "tight", "unchecked", "cured", "healthy"))}
_CHANGED: Final = Words("The model's files changed since the check.")
_UNCHECKED: Final = Badge("unchecked", None, Words("Not checked on this device yet."))
_NO_MARK: Final = Mark()


@dataclass(frozen=True, kw_only=True)
class Query:
    """health, family: "" for any. kinds: only what can be used of these, empty for all. words: all of them must be found.
    backwards: the reverse of the usual order of a sort.
    """

    place: Place = "Checkpoints"
    health: str = ""
    family: str = ""
    kinds: tuple[Kind, ...] = ()
    words: str = ""
    sort: Sort = "used"
    backwards: bool = False


class Row(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One entry with what is known of it. badge: None for what cannot be checked alone. lists: those of `LISTS` that it is in.
    beside: name of the readable safetensors file of the same stem beside a pickle; "" for none.

    gc=False: thousands of them would hold up the window whenever Python collects garbage.
    """

    entry: Entry
    mark: Mark
    badge: Badge | None
    lists: frozenset[str]
    text: str
    name: str
    beside: str = ""

    @property
    def state(self) -> str:
        """The state of its badge; "" where it has none."""
        return self.badge.state if self.badge is not None else ""

    @property
    def family(self) -> str:
        return short_family(self.entry.family)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """rows: in order. places: how many each place holds; states, families: of the place; bytes: size of the rows.
    numbers: path -> number of its row; unchecked: rows that a check could be queued for. elsewhere: how many rows of a
    shelf match the search, of each shelf with matches outside this place.
    """

    rows: tuple[Row, ...] = ()
    places: Mapping[str, int] = field(default_factory=dict[str, int])
    states: Mapping[str, int] = field(default_factory=dict[str, int])
    families: Mapping[str, int] = field(default_factory=dict[str, int])
    bytes: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    unchecked: tuple[Row, ...] = ()
    elsewhere: Mapping[str, int] = field(default_factory=dict[str, int])


def short_family(family: str) -> str:
    """SD 1.x for Stable Diffusion 1.x; "Other" where it is not known."""
    return family.replace("Stable Diffusion", "SD") or "Other"


def entry_of_facts(facts: ModelFacts) -> Entry:
    """List a model that lies in no watched folder: the demo model, or one that was opened."""
    return Entry(
        path=facts.id,
        name=facts.name,
        size=facts.size_bytes,
        fingerprint=facts.fingerprint,
        kind="checkpoint",
        family=facts.family,
        base=facts.base,
        dtype=facts.stored_dtype,
        whole=facts.format == "diffusers",
        parts=part_files(facts),
    )


def entries_of(library: Library, models: Iterable[ModelFacts]) -> tuple[Entry, ...]:
    """Everything that is listed, each path once; models that lie in no watched folder come first."""
    known = {entry.path for entry in library.entries}
    return (*(entry_of_facts(facts) for facts in models if facts.id not in known), *library.entries)


def rows_of(
    entries: Sequence[Entry],
    library: Library,
    healths: Mapping[str, Health],
    known: Sequence[Row] = (),
    words: Mapping[str, str] | None = None,
) -> tuple[Row, ...]:
    """Join every entry with its marks and its health. known: rows of before, which are used again where nothing changed; words:
    what the window calls a state, so that a search finds it.
    """
    before = {row.entry.path: row for row in known}
    twins = frozenset(one.path for group in duplicates(library.entries, library.hashes) for one in group)
    readable = {entry.path for entry in entries if entry.error is None and entry.kind != "unknown"}
    damaged = frozenset(path for path, weights in library.weights.items() if weights.nonfinite)
    return tuple(
        _row(
            entry,
            library.marks.get(entry.path, _NO_MARK),
            badge_of(entry, healths.get(entry.path)),
            frozenset(name for name, paths in (("duplicates", twins), ("damaged", damaged)) if entry.path in paths),
            before.get(entry.path),
            words or {},
            _beside(entry, readable),
        )
        for entry in entries
    )


def _beside(entry: Entry, readable: Collection[str]) -> str:
    """The name of the readable safetensors file beside a pickle; "" for none. It may hold something else than the pickle."""
    target = target_of(Path(entry.path)) if entry.pickle else None
    return target.name if target is not None and str(target) in readable else ""


def _row(
    entry: Entry,
    mark: Mark,
    badge: Badge | None,
    found: frozenset[str],
    before: Row | None,
    said: Mapping[str, str],
    beside: str,
) -> Row:
    """found: the lists that do not follow from the entry alone."""
    same = before if before is not None and before.entry is entry else None
    misplaced = "misplaced" in same.lists if same is not None else wrong_folder(entry) is not None
    held = {
        "recent": mark.used > 0,
        "favourites": mark.favourite,
        "unreadable": entry.error is not None,
        "pickles": entry.pickle,
        "misplaced": misplaced,
    }
    lists = _one(found.union(name for name, holds in held.items() if holds))
    if same is not None and (same.mark, same.badge, same.lists, same.beside) == (mark, badge, lists, beside):
        return same
    state = badge.state if badge is not None else ""
    words = (entry.text, short_family(entry.family), entry.shelf, entry.dtype, state, said.get(state, ""), mark.note)
    text = "\n".join(words).casefold()
    name = entry.name.casefold()
    return Row(entry=entry, mark=mark, badge=badge, lists=lists, text=text, name=name, beside=beside)


@cache
def _one(lists: frozenset[str]) -> frozenset[str]:
    """The same object for equal ones, so that there are few."""
    return lists


def badge_of(entry: Entry, health: Health | None) -> Badge | None:
    """The badge of an entry in the precision in use; None for what has none: only a whole model is checked."""
    if not is_checkable(entry):
        return None
    if health is None:
        return _UNCHECKED
    return health.badge if health.fingerprint == entry.fingerprint else Badge("unchecked", None, _CHANGED)


def is_checkable(entry: Entry) -> bool:
    return entry.kind == "checkpoint" and entry.error is None and not entry.pickle


# --- what is shown ------------------------------------------------------------------------------------------------------


def look(rows: Sequence[Row], query: Query) -> Listing:
    """Filter, sort and count."""
    places = Counter[str](row.entry.shelf for row in rows)
    places.update(name for row in rows for name in row.lists)
    here = [row for row in rows if _is_at(row, query.place)]
    shown = [row for row in here if _fits(row, query)]
    terms = query.words.casefold().split()
    elsewhere: dict[str, int] = {}
    if terms:
        shown = [row for row in shown if _has(row, terms)]
        matches = Counter(row.entry.shelf for row in rows if _has(row, terms))
        matches_here = Counter(row.entry.shelf for row in here if _has(row, terms))
        elsewhere = {shelf: count for shelf, count in matches.items() if count > matches_here[shelf]}
    ordered = tuple(_sorted(shown, query))
    return Listing(
        rows=ordered,
        places=places,
        states=Counter(row.state for row in here if row.badge is not None),
        families=Counter(row.family for row in here),
        bytes=sum(row.entry.size for row in shown),
        numbers={row.entry.path: number for number, row in enumerate(ordered)},
        unchecked=tuple(row for row in ordered if row.state == "unchecked"),
        elsewhere=elsewhere,
    )


def _has(row: Row, terms: Sequence[str]) -> bool:
    return all(term in row.text for term in terms)


def _is_at(row: Row, place: Place) -> bool:
    return place in row.lists if place in LISTS else row.entry.shelf == place


def _fits(row: Row, query: Query) -> bool:
    if query.kinds and (row.entry.kind not in query.kinds or row.entry.error is not None or row.entry.pickle):
        return False
    return query.health in ("", row.state) and query.family in ("", row.family)


def _sorted(rows: list[Row], query: Query) -> list[Row]:
    """By name first, so that equals stand in the order of their names."""
    rows = sorted(rows, key=lambda row: row.name)
    if query.sort == "name":
        return rows[::-1] if query.backwards else rows
    keys = {
        "used": lambda row: -row.mark.used,
        "family": lambda row: (row.entry.family == "", row.family),
        "size": lambda row: -row.entry.size,
        "health": lambda row: _WORST.get(row.state, len(_WORST)),
        "precision": lambda row: row.entry.dtype,
    }
    return sorted(rows, key=keys[query.sort], reverse=query.backwards)


def folder_of(entry: Entry, library: Library) -> str:
    """The folder of an entry, beginning with the watched folder that it lies in."""
    folder = os.path.dirname(entry.path)
    for watched in library.watched:
        if folder == watched.root or folder.startswith(watched.root + os.sep):
            return os.path.join(os.path.basename(watched.root), os.path.relpath(folder, watched.root)).removesuffix(f"{os.sep}.")
    return folder
