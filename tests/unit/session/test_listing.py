"""Which models a list shows, in which order, and how many there are of each sort."""

from dataclasses import replace

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.errors import ErrorFacts
from halftone.contract.wording import Words
from halftone.health.judge import Badge
from halftone.library.families.recognise import Kind
from halftone.library.index.descriptions import Description
from halftone.library.index.entries import Entry
from halftone.library.index.marks import Mark
from halftone.library.index.store import Hashes, Weights
from halftone.session.models.healths import Health
from halftone.session.models.listing import Query, badge_of, entries_of, folder_of, look, rows_of, short_family
from halftone.session.models.watched import Library, Watched

SD1 = "Stable Diffusion 1.x"
ALPHA = Entry(path="/m/checkpoints/alpha.safetensors", name="alpha", size=3, fingerprint="a", kind="checkpoint", family="SDXL")
BETA = Entry(path="/m/checkpoints/Beta.safetensors", name="Beta", size=9, fingerprint="b", kind="checkpoint", family=SD1)
GAMMA = Entry(path="/m/checkpoints/gamma.safetensors", name="gamma", size=6, fingerprint="c", kind="checkpoint", family="SDXL")
STYLE = Entry(
    path="/m/loras/style.safetensors",
    name="style",
    size=1,
    kind="LoRA",
    family="SDXL",
    description=Description(title="Paper cut", triggers=("cut paper",)),
)
LOST = Entry(path="/m/VAE/lost.safetensors", name="lost", size=1, kind="LoRA", family="SDXL")
PICKLE = Entry(path="/m/old.ckpt", name="old", size=4, pickle=True)
BROKEN = Entry(path="/m/half.safetensors", name="half", size=2, error=ErrorFacts(code="model-truncated", facts={}))
OVER = Badge("overflows", -1.5, Words("It overflows or produces NaN. A cure is ready."))
FINE = Badge("healthy", 3.0, Words("Every layer has at least 2 bits of headroom."))
HEALTHS = {
    entry.path: Health(fingerprint=print_, precision="float16", badge=badge, checks={})
    for entry, print_, badge in ((ALPHA, "a", OVER), (BETA, "b", FINE), (GAMMA, "older", FINE))
}
MARKS = {BETA.path: Mark(used=200.0), STYLE.path: Mark(favourite=True, note="for cards", used=100.0)}
LIBRARY = Library(
    entries=(ALPHA, BETA, GAMMA, STYLE, LOST, PICKLE, BROKEN),
    marks=MARKS,
    hashes={ALPHA.path: Hashes("x" * 64), GAMMA.path: Hashes("x" * 64)},
    weights={BETA.path: Weights(tensors=4, nonfinite=1)},
    watched=(Watched(root="/m"),),
)
ROWS = rows_of(LIBRARY.entries, LIBRARY, HEALTHS, words={"overflows": "会溢出"})


def names(query: Query) -> list[str]:
    return [row.entry.name for row in look(ROWS, query).rows]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(), ["Beta", "alpha", "gamma"]),
        (Query(place="LoRA"), ["style", "lost"]),
        (Query(place="Other"), ["half", "old"]),
        (Query(place="recent"), ["Beta", "style"]),
        (Query(place="favourites"), ["style"]),
        (Query(place="duplicates"), ["alpha", "gamma"]),
        (Query(place="unreadable"), ["half"]),
        (Query(place="damaged"), ["Beta"]),
        (Query(place="pickles"), ["old"]),
        (Query(place="misplaced"), ["lost"]),
        (Query(health="overflows"), ["alpha"]),
        (Query(health="unchecked"), ["gamma"]),
        (Query(family="SD 1.x"), ["Beta"]),
        (Query(family="SDXL", health="overflows"), ["alpha"]),
        (Query(words="sdxl overflows"), ["alpha"]),
        (Query(words="会溢出"), ["alpha"]),
        (Query(words="SD 1.x"), ["Beta"]),
        (Query(words="nothing"), []),
        (Query(place="LoRA", words="CUT cards"), ["style"]),
        (Query(place="Checkpoints", kinds=("denoiser",)), []),
        (Query(place="LoRA", kinds=("LoRA",)), ["style", "lost"]),
        (Query(place="Other", kinds=("unknown",)), []),
        (Query(sort="name"), ["alpha", "Beta", "gamma"]),
        (Query(sort="name", backwards=True), ["gamma", "Beta", "alpha"]),
        (Query(sort="size"), ["Beta", "gamma", "alpha"]),
        (Query(sort="size", backwards=True), ["alpha", "gamma", "Beta"]),
        (Query(sort="health"), ["alpha", "gamma", "Beta"]),
        (Query(sort="family"), ["Beta", "alpha", "gamma"]),
    ],
)
def test_a_query_finds_and_orders(query: Query, found: list[str]) -> None:
    assert names(query) == found


def test_every_place_and_state_is_counted_whatever_is_filtered() -> None:
    found = look(ROWS, Query(words="alpha", health="overflows"))
    counts = {"Checkpoints": 3, "LoRA": 2, "Other": 2, "recent": 2, "favourites": 1, "duplicates": 2, "pickles": 1}
    assert {name: found.places[name] for name in counts} == counts
    assert found.states == {"overflows": 1, "healthy": 1, "unchecked": 1}
    assert found.families == {"SDXL": 2, "SD 1.x": 1}
    assert found.bytes == 3
    assert [row.entry.name for row in look(ROWS, Query()).unchecked] == ["gamma"]


@pytest.mark.parametrize(
    ("query", "elsewhere"),
    [
        (Query(place="Checkpoints", words="sdxl"), {"LoRA": 2}),
        (Query(place="LoRA", words="sdxl"), {"Checkpoints": 2}),
        (Query(place="favourites", words="paper"), {}),
        (Query(place="favourites", words="sdxl"), {"Checkpoints": 2, "LoRA": 2}),
        (Query(place="Checkpoints", health="healthy", words="sdxl"), {"LoRA": 2}),
        (Query(place="Checkpoints"), {}),
    ],
)
def test_other_kinds_count_all_their_matches_where_some_are_not_here(query: Query, elsewhere: dict[str, int]) -> None:
    assert dict(look(ROWS, query).elsewhere) == elsewhere


@pytest.mark.parametrize(
    ("entry", "state"),
    [(ALPHA, "overflows"), (BETA, "healthy"), (GAMMA, "unchecked"), (STYLE, None), (PICKLE, None), (BROKEN, None)],
)
def test_only_a_whole_model_has_a_badge_and_a_changed_one_was_not_checked(entry: Entry, state: str | None) -> None:
    badge = badge_of(entry, HEALTHS.get(entry.path))
    assert (None if badge is None else badge.state) == state


def test_rows_that_did_not_change_are_the_same_rows() -> None:
    again = rows_of(LIBRARY.entries, LIBRARY, HEALTHS, known=ROWS)
    assert all(one is other for one, other in zip(ROWS, again, strict=True))
    marked = replace(LIBRARY, marks={**MARKS, ALPHA.path: Mark(favourite=True)})
    after = rows_of(LIBRARY.entries, marked, HEALTHS, known=ROWS)
    changed = [row.entry.name for row, before in zip(after, ROWS, strict=True) if row is not before]
    assert changed == ["alpha"]


@pytest.mark.parametrize(
    ("path", "kind", "error", "beside"),
    [
        ("/m/old.safetensors", "checkpoint", None, "old.safetensors"),
        ("/m/old.safetensors", "unknown", None, ""),
        ("/m/old.safetensors", "unknown", BROKEN.error, ""),
        ("/m/other.safetensors", "checkpoint", None, ""),
    ],
)
def test_a_pickle_names_the_readable_file_of_its_stem(path: str, kind: Kind, error: ErrorFacts | None, beside: str) -> None:
    entries = (PICKLE, Entry(path=path, name="old", size=4, kind=kind, error=error))
    row, _ = rows_of(entries, Library(entries=entries), {})
    assert row.beside == beside


def test_models_outside_the_watched_folders_are_listed_once() -> None:
    inside = replace(LIBRARY, entries=(ALPHA,))
    facts = (samples.POCKET, msgspec.structs.replace(samples.POCKET, id=ALPHA.path))
    assert [entry.path for entry in entries_of(inside, facts)] == ["pocket", ALPHA.path]


@pytest.mark.parametrize(
    ("family", "short"), [(SD1, "SD 1.x"), ("SDXL", "SDXL"), ("", "Other"), ("Stable Diffusion 2.x", "SD 2.x")]
)
def test_families_have_short_names(family: str, short: str) -> None:
    assert short_family(family) == short


@pytest.mark.parametrize(
    ("path", "folder"),
    [("/m/a.safetensors", "m"), ("/m/loras/x/a.safetensors", "m/loras/x"), ("/elsewhere/a.safetensors", "/elsewhere")],
)
def test_a_folder_begins_with_the_watched_one(path: str, folder: str) -> None:
    assert folder_of(Entry(path=path, name="a", size=1), LIBRARY) == folder
