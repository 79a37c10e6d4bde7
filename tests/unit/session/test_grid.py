"""Grids: what is typed, the order of the pictures, and the sheet."""

import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from PIL import Image
from tests.helpers import samples
from tests.helpers.sessions import HeldExecutor

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import SheetFacts
from halftone.contract.limits import SEED_RANGE
from halftone.contract.request import Lora, PictureRequest, Saving
from halftone.metadata.picture import save_picture
from halftone.metadata.reading import parse_parameters, read_picture
from halftone.session.events import Composed, Left
from halftone.session.pictures.grid import (
    MOST_PICTURES,
    MOST_VALUES,
    Cell,
    Grid,
    Variable,
    axis_of,
    fitted,
    parsed,
    planned,
    proposed,
    variable_named,
    variables,
)
from halftone.session.pictures.sheets import SheetMaker, compose, layout, save_sheet
from halftone.session.reducer import apply
from halftone.session.state import AppState, LeftQueue, Sheet
from halftone.session.store import Store
from halftone.settings.places import OVERRIDE

WHOLE = Variable("steps", "Steps", "int", (1, 1000))
FREE = Variable("guidance", "Guidance", "float", (0, 1000))
WIDTH = Variable("width", "Width", "int", (8, 16384), 8)
SEED = Variable("seed", "Seed", "int", SEED_RANGE)
WORDS = Variable("prompt", "Prompt", "text")
CHOICE = Variable("sampler", "Sampler", "choice", choices=("Euler", "DPM++ 2M Karras"))
SWITCH = Variable("numerics.tf32", "TF32", "choice", choices=("off", "on"))
REQUEST = PictureRequest(prompt="a red sun", steps=20, guidance=6.0, width=64, height=64)


@pytest.mark.parametrize(
    ("text", "variable", "values"),
    [
        ("5, 7, 9", WHOLE, (5, 7, 9)),
        ("5,5,7", WHOLE, (5, 7)),
        ("1-5", WHOLE, (1, 2, 3, 4, 5)),
        ("5-1", WHOLE, (5, 4, 3, 2, 1)),
        ("1-10 (+2)", WHOLE, (1, 3, 5, 7, 9)),
        ("10-1 (-4)", WHOLE, (10, 6, 2)),
        ("1-10 [5]", WHOLE, (1, 3, 5, 7, 10)),
        ("1-2, 8", WHOLE, (1, 2, 8)),
        ("5, 7.5", FREE, (5.0, 7.5)),
        ("1-2 (+0.5)", FREE, (1.0, 1.5, 2.0)),
        ("0-1 [5]", FREE, (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("1-2 [1]", FREE, (1.0,)),
        ("64-128 (+32)", WIDTH, (64, 96, 128)),
        ("9007199254740993", SEED, (9007199254740993,)),
        ('sun, moon, "a, b"', WORDS, ("sun", "moon", "a, b")),
        ("euler, dpm++ 2m karras", CHOICE, ("Euler", "DPM++ 2M Karras")),
        ("dpmpp_2m_karras", CHOICE, ("DPM++ 2M Karras",)),
        ("on, off", SWITCH, (True, False)),
    ],
)
def test_values_are_typed_as_in_a1111(text: str, variable: Variable, values: tuple[object, ...]) -> None:
    assert parsed(text, variable) == values


@pytest.mark.parametrize(
    ("text", "variable", "code"),
    [
        ("", WHOLE, "setting-bad-value"),
        ("five", WHOLE, "setting-bad-value"),
        ("1.5", WHOLE, "setting-bad-value"),
        ("nan", FREE, "setting-bad-value"),
        ("inf", FREE, "setting-bad-value"),
        ("1-5 (-1)", WHOLE, "setting-bad-value"),
        ("1-5 (0)", WHOLE, "setting-bad-value"),
        ("1-5 [0]", WHOLE, "setting-bad-value"),
        ("0-5", WHOLE, "value-out-of-range"),
        ("1-999", WHOLE, "value-out-of-range"),
        ("1-1000000000000 (+0.001)", FREE, "value-out-of-range"),
        ("-1", SEED, "value-out-of-range"),
        ("65", WIDTH, "size-not-multiple"),
        ("Nonesuch", CHOICE, "setting-bad-value"),
        ("maybe", SWITCH, "setting-bad-value"),
        (",".join(map(str, range(1, MOST_VALUES + 2))), WHOLE, "value-out-of-range"),
    ],
)
def test_wrong_values_are_refused(text: str, variable: Variable, code: str) -> None:
    with pytest.raises(HalftoneError) as refused:
        parsed(text, variable)
    assert refused.value.code == code
    assert str(refused.value)


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("guidance", "guidance"),
        ("cfg scale", "guidance"),
        ("cfg-scale", "guidance"),
        ("Steps", "steps"),
        ("clip skip", "options.clip_skip"),
        ("clip_skip", "options.clip_skip"),
        ("precision", "numerics.precision"),
        ("sampler", "sampler"),
        ("VAE", "vae"),
        ("ink", "loras.0.weight"),
        ("loras.1.weight", "loras.1.weight"),
        ("prompt", "prompt"),
        ("seed", "seed"),
    ],
)
def test_a_parameter_has_the_names_that_users_know(name: str, field: str) -> None:
    request = replace(REQUEST, loras=(Lora(path="/l/ink.safetensors"), Lora(path="/l/oil.safetensors")))
    assert variable_named(variables(request), name).name == field


def test_an_unknown_parameter_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(HalftoneError, match="steps"):
        variable_named(variables(REQUEST), "nonsense")
    names = {one.name for one in variables(REQUEST)}
    assert not names & {"image", "mask", "batch", "start.strength", "hires.scale", "variation_seed"}, "without effect here"


def grid(base: PictureRequest = REQUEST, **axes: str) -> Grid:
    known = variables(base)
    found = [variable_named(known, name) for name in axes]
    return planned(base, [axis_of(one, parsed(text, one)) for one, text in zip(found, axes.values(), strict=True)])


def test_every_combination_is_made_once_from_one_seed() -> None:
    made = grid(guidance="5,7,9", steps="10,20,30")
    assert made.count == 9
    assert {(one.guidance, one.steps) for one in made.requests} == {(g, s) for g in (5.0, 7.0, 9.0) for s in (10, 20, 30)}
    assert len({one.seed for one in made.requests}) == 1
    assert made.requests[0].seed is not None
    assert {one.batch for one in made.requests} == {1}
    for request, place in zip(made.requests, made.places, strict=True):
        assert request.guidance == made.axes[0].values[place[0]]
        assert request.steps == made.axes[1].values[place[1]]


def test_the_model_is_changed_as_rarely_as_it_can_be() -> None:
    made = grid(steps="1-4", model="a, b, c", vae="v, w")
    changes = sum(one.model != other.model for one, other in pairwise(made.requests))
    assert changes == 2
    both = [(one.model, one.vae) for one in made.requests]
    assert sum(one != other for one, other in pairwise(both)) == 5


@pytest.mark.parametrize(
    ("axes", "field", "values"),
    [
        ({"clip_skip": "1,2"}, lambda one: one.options, [{}, {"clip_skip": 1}]),
        ({"precision": "float32,auto"}, lambda one: one.numerics.precision, ["float32", "auto"]),
        ({"ink": "0.5-1 (+0.5)"}, lambda one: one.loras[0].weight, [0.5, 1.0]),
        ({"prompt": "red, blue"}, lambda one: one.prompt, ["a red sun", "a blue sun"]),
        ({"seed": "1-3"}, lambda one: one.seed, [1, 2, 3]),
        ({"sampler": "Euler"}, lambda one: one.sampler, ["Euler"]),
    ],
)
def test_any_parameter_can_vary(axes: dict[str, str], field: Any, values: list[object]) -> None:
    base = replace(REQUEST, loras=(Lora(path="/l/ink.safetensors"),))
    assert [field(one) for one in grid(base, **axes).requests] == values


def test_what_cannot_be_a_grid_is_refused() -> None:
    with pytest.raises(HalftoneError, match="prompt"):
        grid(prompt="moon, sun")
    with pytest.raises(HalftoneError, match=str(MOST_PICTURES)):
        grid(guidance="1-30", steps="1-30")
    axis = grid(steps="1,2").axes[0]
    with pytest.raises(HalftoneError, match="once"):
        planned(REQUEST, (axis, axis))
    with pytest.raises(HalftoneError):
        planned(REQUEST, ())


def test_the_first_proposal_is_three_by_three() -> None:
    for guidance, steps in ((6.0, 20), (1.0, 1), (0.0, 2), (1000.0, 1000)):
        request = replace(REQUEST, guidance=guidance, steps=steps)
        made = grid(request, **dict(proposed(request)))
        assert made.count in (4, 6, 9)
    assert grid(REQUEST, **dict(proposed(REQUEST))).count == 9


def test_a_request_is_fitted_to_another_model() -> None:
    request = replace(REQUEST, sampler="Nonesuch", options={"eta": 0.5, "nonsense": 1})
    assert fitted(request, None) == request
    assert fitted(request, samples.POCKET).sampler is None


# --- the sheet -------------------------------------------------------------------------------------------------------


def painted(folder: Path, made: Grid, lacking: int = -1) -> Grid:
    """The grid with a file for each picture but one."""
    for number in range(made.count):
        if number == lacking:
            made = made.with_cell(Cell(error=ErrorFacts(code="disk-full", facts={"need": "1", "free": "0", "folder": "x"})))
            continue
        path = folder / f"{number:05d}-7.png"
        save_picture(Image.new("RGB", (64, 64), (200, 20 * number, 0)), path, "a sun\nSteps: 4, Seed: 7, Size: 64x64", "{}")
        facts = samples.picture_facts(str(path), "recovered" if number == 1 else "clean")
        made = made.with_cell(Cell(replace(facts, width=64, height=64)))
    return made


@pytest.mark.parametrize(
    "axes", [{"steps": "1-3"}, {"steps": "1-3", "guidance": "5,7"}, {"steps": "1-2", "guidance": "5,7", "seed": "1-2"}]
)
def test_a_sheet_shows_every_picture_in_its_place(tmp_path: Path, axes: dict[str, str]) -> None:
    made = painted(tmp_path, grid(REQUEST, **axes))
    sheet, share = compose(made)
    assert share == 1.0
    plan = layout(made, (64, 64))
    assert sheet.size == plan.size
    for number, place in enumerate(made.places):
        left, top = plan.corner((*place, 0, 0)[:3])  # pyright: ignore[reportArgumentType]
        assert sheet.getpixel((left + 5, top + 5)) == (200, 20 * number, 0)


def test_a_sheet_says_which_pictures_lack_and_names_the_others(tmp_path: Path) -> None:
    made = painted(tmp_path, grid(guidance="5,7", steps="10,20"), lacking=2)
    assert made.failed == 1
    facts, thumbnail = save_sheet(made)
    assert thumbnail
    assert Path(facts.path).name == "00000-7-grid.png", "after its first picture"
    found = read_picture(Path(facts.path))
    fields = parse_parameters(found.parameters or "").fields
    assert (fields["X Type"], fields["X Values"], fields["Y Values"]) == ("Guidance", "5, 7", "10, 20")
    assert '"error":"' in (found.receipt or "")
    assert '"state":"recovered"' in (found.receipt or "")
    axes = (("guidance", "5, 7"), ("steps", "10, 20"))
    assert facts.sheet == SheetFacts(axes=axes, pictures=4, recovered=1, failed=1)
    assert (facts.state, facts.seconds) == ("recovered", sum(cell.facts.seconds for cell in made.cells if cell.facts is not None))


@pytest.mark.parametrize(("changes", "count"), [({"black": True}, 4), ({"state": "not-recovered", "path": ""}, 4), ({}, 0)])
def test_a_sheet_counts_pictures_that_cannot_be_used(tmp_path: Path, changes: dict[str, Any], count: int) -> None:
    made = painted(tmp_path, grid(guidance="5,7", steps="10,20"))
    cells = tuple(Cell(replace(cell.facts, **changes)) for cell in made.cells[1:] if cell.facts is not None)
    facts, _ = save_sheet(replace(made, cells=(made.cells[0], *cells)))
    assert facts.sheet is not None
    assert facts.sheet.failed == min(count, 3)
    assert not facts.black


def test_a_large_sheet_is_scaled_down(tmp_path: Path) -> None:
    made = painted(tmp_path, grid(guidance="1-5", steps="1-5"))
    sheet, share = compose(made, 20_000)
    assert share < 1
    assert sheet.width * sheet.height < 120_000
    assert math.isclose(layout(made, (64, 64), 20_000).share, share)


def test_without_one_picture_there_is_no_sheet(tmp_path: Path) -> None:
    made = grid(steps="1,2")
    with pytest.raises(HalftoneError) as refused:
        compose(made.with_cell(Cell(error=ErrorFacts(code="disk-full", facts={"need": "1", "free": "0", "folder": "x"}))))
    assert refused.value.code == "disk-full"


def test_a_sheet_says_nothing_where_metadata_is_off(tmp_path: Path) -> None:
    made = painted(tmp_path, grid(replace(REQUEST, saving=Saving(save_metadata=False)), steps="10,20"))
    facts, _ = save_sheet(made)
    found = read_picture(Path(facts.path))
    assert (found.parameters, found.receipt) == (None, None)


def test_a_sheet_has_the_format_and_quality_of_its_pictures(tmp_path: Path) -> None:
    def saved(quality: int) -> Path:
        folder = tmp_path / str(quality)
        folder.mkdir()
        saving = Saving(picture_format="webp", picture_quality=quality)
        return Path(save_sheet(painted(folder, grid(replace(REQUEST, saving=saving), steps="10,20")))[0].path)

    fine, coarse = saved(95), saved(5)
    assert (fine.suffix, read_picture(fine).parameters is not None) == (".webp", True)
    assert coarse.stat().st_size < fine.stat().st_size


@pytest.mark.parametrize("state", ["recovered", "not-recovered", "unwatched"])
def test_the_sheet_says_what_became_of_a_picture(tmp_path: Path, state: Any) -> None:
    made = painted(tmp_path, grid(REQUEST, steps="10,20"))
    cells = tuple(Cell(replace(cell.facts, state=state)) for cell in made.cells if cell.facts is not None)
    sheet, _ = compose(replace(made, cells=cells))
    left, top = layout(made, (64, 64)).corner((0, 0, 0))
    assert sheet.getpixel((left, top + 63)) == (255, 255, 255), "a band with words"


@pytest.mark.logs("cannot be read", "could not be saved")
def test_a_sheet_that_cannot_be_saved_is_kept_until_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    base = Path(os.environ[OVERRIDE])
    base.mkdir(exist_ok=True)
    (base / "pictures").touch()
    made = painted(folder, grid(steps="10,20"))
    folder.rename(tmp_path / "away")
    store, executor = Store(), HeldExecutor()
    sheets = SheetMaker(store, executor)
    store.take(Left(queue=LeftQueue(), sheets=(Sheet(key="g", title="a sun", grid=made),)))
    executor.settle()
    (notice,) = store.state.notices
    assert (notice.kind, notice.facts) == ("grid-failed", ("g",))
    assert notice.error is not None
    assert [sheet.key for sheet in store.state.sheets] == ["g"]
    (tmp_path / "away").rename(folder)
    sheets.retry("g")
    executor.settle()
    assert ([notice.kind for notice in store.state.notices], store.state.sheets) == (["grid-failed", "grid-made"], ())
    assert (folder / "00000-7-grid.png").exists()


def test_a_sheet_that_is_not_wanted_is_discarded(tmp_path: Path) -> None:
    made = painted(tmp_path, grid(steps="10,20"))
    state = AppState(sheets=(Sheet(key="g", title="a sun", grid=made),))
    error = ErrorFacts(code="output-read-only", facts={"folder": "x"})
    failed = apply(state, Composed(key="g", error=error))
    assert failed.sheets == state.sheets
    assert apply(failed, Composed(key="g")).sheets == ()


def test_a_grid_without_one_picture_leaves_no_sheet() -> None:
    error = ErrorFacts(code="output-read-only", facts={"folder": "x"})
    made = grid(steps="1").with_cell(Cell(error=error))
    state = apply(AppState(sheets=(Sheet(key="g", title="a sun", grid=made),)), Composed(key="g", error=error))
    assert (state.sheets, state.notices[-1].facts) == ((), ())
