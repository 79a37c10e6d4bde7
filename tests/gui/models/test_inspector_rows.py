"""What the inspector says of a file of every form: kind, family and how it is stored."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.helpers.headers import header, write_sparse
from tests.unit.library.test_lora_kinds import FITS, KINDS
from tests.unit.library.test_recognise import ADDITIONS, MODELS, PARTS

from halftone.gui.models.inspector import facts_of
from halftone.library.index.facts import Mark
from halftone.library.index.scan import outermost, scan
from halftone.library.index.store import Index
from halftone.session.models.listing import Row

LIGHT = "lllite_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q"
ASKED = ("Kind", "Family", "Stored as")


def rows(folder: Path, files: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Name of a form -> the rows `ASKED`, "" for one that is not shown. files: name -> patterns of its header."""
    folder.mkdir()
    for number, patterns in enumerate(files.values()):
        write_sparse(folder / f"{number}.safetensors", header(patterns))
    with Index(folder.parent / "index.sqlite") as index:
        scan(index, [str(folder)])
        entries = {Path(entry.path).stem: entry for entry in index.entries(outermost([str(folder)]))}
    found: dict[str, tuple[str, ...]] = {}
    for number, name in enumerate(files):
        row = Row(entry=entries[str(number)], mark=Mark(), badge=None, lists=frozenset(), text="", name=name)
        shown = dict(facts_of(row, "", None, ""))
        found[name] = tuple(shown.get(one, "") for one in ASKED)
    return found


def short(family: str) -> str:
    return family.replace("Stable Diffusion", "SD")


def test_parts_and_what_is_added_are_shown_as_what_they_are(qapp: object, tmp_path: Path) -> None:
    del qapp
    # the tables' checkpoints lack most of their layers, so they are listed as incomplete instead
    table = {
        f"model {case}": (patterns, kind, base or family)
        for case, (patterns, kind, family, base, _) in MODELS.items()
        if kind != "checkpoint"
    }
    table |= {f"part {case}": (patterns, kind, name) for case, (patterns, kind, name) in PARTS.items()}
    table |= {f"added {case}": (patterns, kind, base or family) for case, (patterns, kind, family, base) in ADDITIONS.items()}
    shown = rows(tmp_path / "files", {case: patterns for case, (patterns, *_) in table.items()})
    assert shown == {case: (kind, short(family), "FP16, safetensors") for case, (_, kind, family) in table.items()}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (f"{LIGHT}.conditioning1.0.weight[16,3,4,4] {LIGHT}.down.0.weight[64,640]", ("ControlNet", "ControlNet-LLLite")),
        ("emb_params[2,768]", ("embedding", "SD 1.x")),
    ],
)
def test_single_forms(qapp: object, tmp_path: Path, patterns: str, expected: tuple[str, ...]) -> None:
    del qapp
    assert rows(tmp_path / "files", {"one": patterns})["one"][:2] == expected


def test_loras_are_shown_with_their_form_and_the_family_that_they_fit(qapp: object, tmp_path: Path) -> None:
    del qapp
    shown = rows(tmp_path / "files", {case: patterns for case, (patterns, *_) in FITS.items()})
    for case, (_, families, _) in FITS.items():
        kind, family, stored = shown[case]
        assert kind.startswith("LoRA, rank "), case
        assert family.startswith(short(families[0])) if families else family == "", case
        assert stored == "FP16, safetensors"


def test_forms_of_loras_are_shown_by_name(qapp: object, tmp_path: Path) -> None:
    del qapp
    shown = rows(tmp_path / "files", {case: patterns for case, (patterns, *_) in KINDS.items()})
    expected = {
        case: (f"{kind}, rank {rank[1]}" if rank[1] else kind, "SD 1.x", "FP16, safetensors")
        for case, (_, kind, _, rank) in KINDS.items()
    }
    assert shown == expected
