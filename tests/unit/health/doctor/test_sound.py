"""No false alarms: runs that went well, in all the shapes that look odd."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tests.helpers.run_logs import BAD, diffusers, events, kohya, metrics_csv, steady, trainer_state

from halftone.health.doctor.found import LOOK
from halftone.health.doctor.judge import diagnose
from halftone.health.doctor.sentences import sign_words, trouble_words
from halftone.library.run_logs.folder import read_run

NAME = "events.out.tfevents.1.host"


def _restarts(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Cosine with warm restarts: rate and loss leap up again and again."""
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        phase = step % 100 / 100
        yield "lr", step, 1e-4 * (1 + math.cos(math.pi * phase)) / 2
        yield "loss", step, 0.1 * noise * (2.5 - 1.5 * phase)


def _scaler(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """A loss scale that looks for its place: infinite norms at first, and one now and then."""
    for step, loss in enumerate(steady(count, 0.12, seed), 1):
        yield "loss", step, loss
        yield "grad_norm", step, math.inf if step < 4 or step % 97 == 0 else 1.0 + loss
        yield "loss_scale", step, 65536.0 / 2 ** min(step, 4)


def _noisy(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Now and then a loss ten times and more the usual one, and norms like that."""
    for step, loss in enumerate(steady(count, 0.12, seed), 1):
        leap = 30 if step % 23 == 0 else 1
        yield "loss", step, loss * leap
        yield "grad_norm", step, loss * leap * leap


def _to_nothing(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Learnt by heart: the loss falls to exactly 0."""
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        yield "loss", step, max(0.0, noise * (1 - step / (0.7 * count)))


def _falling(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        yield "loss/average", step, noise * 3 / step**0.5
        yield "loss/current", step, noise * 3 / step**0.5
        yield "lr/unet", step, 1e-4 * min(1, step / 50)


def _heavy_tails(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Norms and losses of no fixed size (Cauchy): now and then one is hundreds of times the usual one, the last one too."""
    for step, (level, turn) in enumerate(zip(steady(count, 0.12, seed), steady(count, 1.0, seed + 50), strict=True), 1):
        tail = 1 + abs(math.tan(math.pi * (turn - 0.6) / 1.62)) ** 2
        yield "loss", step, level * (400 if step == count else tail)
        yield "grad_norm", step, level * tail**2


def _stairs(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Harder pictures from one epoch to the next: the loss climbs in stairs, and the norm with it."""
    for step, loss in enumerate(steady(count, 0.05, seed), 1):
        stair = 1 + 4 * step // count
        yield "loss", step, loss * stair
        yield "grad_norm", step, 8 * loss * stair**1.5


def _short_waves(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Timesteps that are drawn in turn: three numbers rise steeply, again and again."""
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        yield "loss", step, 0.01 * noise * 6 ** (step % 4)


def _from_nothing(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """A term that is switched on late: the loss was almost nothing before."""
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        yield "loss", step, 0.8 * noise if step < 20 else 1e-6 * noise * (4.0 if step > count - 3 else 1.0)


def _other_data(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """Other pictures from the middle on: a small lasting step of the loss, at the same norm."""
    for step, (loss, norm) in enumerate(zip(steady(count, 0.12, seed), steady(count, 1.0, seed + 9), strict=True), 1):
        yield "loss", step, loss * (1.4 if 2 * step > count else 1.0)
        yield "grad_norm", step, norm


def _outlier_and_other_data(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """The same, where one picture gives a large norm as the data change."""
    for tag, step, value in _other_data(count, seed):
        yield tag, step, value * 300 if tag == "grad_norm" and step == count // 2 + 1 else value


def _spike_that_heals(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """A spike of loss and norm from which the training comes back within some dozen steps."""
    for step, loss in enumerate(steady(count, 0.12, seed), 1):
        since = step - count // 2
        yield "loss", step, loss * (1 + 5 * 0.9**since if since >= 0 else 1)
        yield "grad_norm", step, 400.0 if since == 0 else 1.0 + loss


def _late_restart(count: int, seed: int) -> Iterator[tuple[str, int, float]]:
    """The last warm restart of the rate comes shortly before the end."""
    for step, noise in enumerate(steady(count, 1.0, seed), 1):
        since = step - (count - 12)
        yield "loss", step, noise * (0.3 if since >= 0 else 0.1)
        yield "grad_norm", step, 12.0 if since == 0 else noise


QUIET = (_other_data, _outlier_and_other_data, _spike_that_heals, _late_restart)
SHAPES = (_restarts, _scaler, _noisy, _to_nothing, _falling, _heavy_tails, _stairs, _short_waves, _from_nothing, *QUIET)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_sound_event_files(tmp_path: Path, shape: Callable[[int, int], Iterator[tuple[str, int, float]]], seed: int) -> None:
    events(tmp_path / NAME, shape(150 + 130 * seed, seed))
    found = diagnose(read_run(tmp_path))
    assert (found.verdict, found.troubles, found.suspects) == ("sound", (), ())
    assert shape is _stairs or not LOOK & {sign.code for sign in found.signs}


@pytest.mark.parametrize("seed", range(4))
def test_sound_runs_of_all_programs(tmp_path: Path, seed: int) -> None:
    losses = steady(60 + 40 * seed, 0.1, seed)
    for at, name in enumerate(("kohya", "diffusers", "lightning", "transformers")):
        (folder := tmp_path / name).mkdir()
        between = {20: "Running validation... ", 40: f"Saved state to /x/checkpoint-{40 + at}"}
        if name == "kohya":
            kohya(folder / "out.log", losses, between=between)
        elif name == "diffusers":
            diffusers(folder / "out.log", losses, between=between, head="Resuming from checkpoint checkpoint-0\n")
        elif name == "lightning":
            metrics_csv(folder / "metrics.csv", ({"step": step, "train_loss": loss} for step, loss in enumerate(losses)))
        else:
            trainer_state(
                folder / "trainer_state.json",
                (
                    {"step": 10 * step, "loss": loss, "grad_norm": BAD if step == 1 else loss}
                    for step, loss in enumerate(losses, 1)
                ),
            )
        save_file({"a": np.ones(2, np.float16)}, folder / "last.safetensors", {"ss_mixed_precision": "fp16"})
        found = diagnose(read_run(folder))
        assert (name, found.verdict, found.troubles) == (name, "sound", ())


def test_a_constant_loss_scale_of_one_and_a_growing_one(tmp_path: Path) -> None:
    for level in (1.0, 2.0**40):
        scalars = [("loss", step, loss) for step, loss in enumerate(steady(60), 1)]
        events(tmp_path / NAME, [*scalars, *(("loss_scale", step, level) for step in range(1, 61))])
        assert diagnose(read_run(tmp_path)).verdict == "sound"


def test_a_part_of_the_loss_that_stays_or_grows(tmp_path: Path) -> None:
    parts = (("loss", steady(80)), ("loss/prior", [0.25] * 80), ("loss/kl", [0.01 * 1.2**step for step in range(80)]))
    events(tmp_path / NAME, [(tag, step, value) for tag, values in parts for step, value in enumerate(values, 1)])
    assert diagnose(read_run(tmp_path)).verdict == "sound"


SAID = (
    "Running validation...",
    "Resuming from checkpoint x",
    "enable full fp16 training",
    "Minimum loss scale reached",
    "NaN found in latents",
    "saving checkpoint: x",
    "mixed_precision=fp16",
    "ValueError: x",
)
_NUMBERS = st.one_of(st.floats(), st.sampled_from((0.0, math.nan, math.inf, -math.inf, 1e300, 5e-324, 1.0)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 99), _NUMBERS, _NUMBERS).map(lambda one: f"step {one[0]} loss={one[1]} grad_norm={one[2]}"),
            st.tuples(st.integers(0, 99), _NUMBERS, _NUMBERS).map(lambda one: f"step {one[0]} lr={one[1]} loss_scale={one[2]}"),
            st.sampled_from(SAID),
        ),
        max_size=60,
    )
)
def test_any_run_is_judged_and_told(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.log").write_text("\n".join(lines))
    found = diagnose(read_run(tmp_path))
    assert (found.verdict == "trouble") == bool(found.troubles)
    for trouble in found.troubles:
        assert trouble_words(trouble, found.first).text()
    for sign in found.signs:
        assert sign_words(sign).text()


@pytest.mark.parametrize("count", [3, 4, 6, 12])
def test_a_short_log_that_rises_is_sound(tmp_path: Path, count: int) -> None:
    """A few numbers show nothing that is usual."""
    (tmp_path / "out.log").write_text("".join(f"step {at} loss: {0.02 * 2.0**at}\n" for at in range(1, count)))
    assert diagnose(read_run(tmp_path)).verdict == "sound"


def _between(every: int, values: list[float], *, rows: int, empty: str) -> str:
    """CSV whose validation column holds a value every so many rows, and `empty` in between."""
    lines = ["step,train_loss,val_loss"]
    for row, loss in enumerate(steady(rows, 0.12)):
        at, rest = divmod(row, every)
        lines.append(f"{row},{loss:.5f},{values[at] if rest == 0 and at < len(values) else empty}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("empty", ["nan", "NaN", ""])
@pytest.mark.parametrize(("every", "rows"), [(10, 100), (50, 160), (7, 20)])
def test_a_validation_column_that_is_empty_between_validations(tmp_path: Path, every: int, rows: int, empty: str) -> None:
    (tmp_path / "metrics.csv").write_text(_between(every, [0.2] * rows, rows=rows, empty=empty))
    assert diagnose(read_run(tmp_path)).troubles == ()


def test_a_validation_column_that_was_never_filled(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(_between(50, [], rows=120, empty="nan"))
    assert diagnose(read_run(tmp_path)).troubles == ()


@pytest.mark.parametrize(
    ("every", "values", "rows", "row"),
    [
        (10, [0.2, 0.2, math.nan, math.nan, math.nan], 60, 20),  # two validations were finite, the third was not
        (1, [0.2] * 8 + [math.nan] * 8, 16, 8),
        (1, [0.2] * 8 + [math.nan] + [0.2] * 7, 16, 8),
        (1, [math.nan] * 12, 12, 0),  # one for each epoch, and none of them finite
    ],
)
def test_a_validation_that_goes_nan(tmp_path: Path, every: int, values: list[float], rows: int, row: int) -> None:
    (tmp_path / "metrics.csv").write_text(_between(every, values, rows=rows, empty="nan"))
    (trouble,) = diagnose(read_run(tmp_path)).troubles
    assert (trouble.code, trouble.where and trouble.where.step) == ("validation", row)
