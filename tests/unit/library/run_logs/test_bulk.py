"""What is read by whole blocks is what is read line by line."""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.run_logs import BAD, diffusers, kohya, steady
from tests.helpers.trainer_logs import WRITERS, Writer

from halftone.contract.errors import JobCancelled
from halftone.library.run_logs.bulk import Bulk, read_text
from halftone.library.run_logs.folder import read_run
from halftone.library.run_logs.lines import PIECE, Block, Piece, blocks
from halftone.library.run_logs.series import Collector
from halftone.library.run_logs.text import Reader

Found = tuple[dict[str, list[tuple[int, str, int, str]]], list[tuple[str, int | None, int, str]], list[tuple[str, str, int]]]


def found_in(into: Collector) -> Found:
    """All but the seats, which only have an order."""
    tracks = {
        tag: [
            (point.step, repr(point.value), point.line, repr(point.wall)) for point in map(track.__getitem__, range(len(track)))
        ]
        for tag, track in into.tracks.items()
    }
    happenings = [(one.kind, one.step, one.line, one.words) for one in into.happenings]
    return tracks, happenings, [(one.name, one.value, one.line) for one in into.settings]


def in_order(into: Collector) -> list[tuple[int, str]]:
    """Everything by its seat."""
    told = [(track.seats[at], f"{tag} {track.values[at]!r}") for tag, track in into.tracks.items() for at in range(len(track))]
    return sorted([*told, *((one.seat, one.words) for one in into.happenings)])


def pieces(path: Path) -> Iterator[Piece]:
    for block in blocks(path):
        number = block.number
        for found in PIECE.finditer(block.text):
            yield Piece(found.group(1), number)
            number += found.group(2) != "\r"


def both(path: Path, chunk: int = 0) -> tuple[Collector, Collector]:
    """chunk: bytes that are read at once, 0 as they are usually."""
    slow, quick = Collector("a"), Collector("a")
    reader = Reader(slow)
    for piece in pieces(path):
        reader.take(piece)
    if not chunk:
        read_text(path, quick)
        return slow, quick
    bulk = Bulk(Reader(quick))
    for block in blocks(path, chunk):
        bulk.take(block)
    return slow, quick


def assert_same(path: Path, chunk: int = 0) -> None:
    slow, quick = both(path, chunk)
    assert found_in(slow) == found_in(quick)
    assert [words for _, words in in_order(slow)] == [words for _, words in in_order(quick)]


def noisy(folder: Path, seed: int) -> None:
    """Other lines between the lines of every log of a run."""
    chance = random.Random(seed)
    more = (
        "Running validation... ",
        "hello",
        "Saved state to /x",
        "Gradient overflow. Skipping step, reducing loss scale to 2.0",
        "",
    )
    for path in [*folder.rglob("*.log"), *folder.rglob("*.txt"), *folder.rglob("*.out")]:
        text = path.read_bytes().decode("utf-8")
        kept = [line + (f"\n{chance.choice(more)}" if chance.random() < 0.05 else "") for line in text.split("\n")]
        path.write_bytes("\n".join(kept).encode("utf-8"))


@pytest.mark.parametrize("write", WRITERS, ids=[write.__name__ for write in WRITERS])
@pytest.mark.parametrize("chunk", [0, 1000])
def test_every_trainers_text(tmp_path: Path, write: Writer, chunk: int) -> None:
    write(tmp_path, [*steady(150), BAD, *steady(40), math.inf, 1e-9, 2.5e-05], steady(194, 1.0, 1))
    texts = [path for path in tmp_path.rglob("*") if path.suffix in {".log", ".txt", ".out"}]
    assert texts
    for path in texts:
        assert_same(path, chunk)
    noisy(tmp_path, len(write.__name__))
    for path in texts:
        assert_same(path, chunk)


def _objects(path: Path) -> None:
    rows = [
        f'{{"step": {at}, "_timestamp": {1.7e9 + at}, "train/loss": {loss}, "a": [1, 2], "lr": 1e-4}}'
        for at, loss in enumerate(steady(50))
    ]
    rows += [
        f'{at}: {{"loss": {{"loss": {loss}, "kl": NaN}}, "log_scale": 20.5, "scale": 65536.0}}'
        for at, loss in enumerate(steady(50))
    ]
    rows += ['{"step": 7.5, "loss": 0.5}', '{"step": "8", "loss": "NaN"}', '{"step": 9, "loss": 0.5, "loss": 0.6}'] * 9
    path.write_text("\n".join(rows))


def _epochs(path: Path) -> None:
    text = "".join(
        f"\rEpoch {epoch}: {at:3d}%|█ | {at}/50 [00:01<00:02, {1.5 if at % 2 else '?'}it/s, v_num=0, train_loss={loss:.3f}]"
        for epoch in range(4)
        for at, loss in enumerate(steady(50, 0.1, epoch), 1)
    )
    path.write_text(text + "\n", "utf-8")


def _repeated(path: Path) -> None:
    """A number twice in a line, names with numbers in them, a bar that goes on without a loss, another program's bar."""
    rows = [f"step {at} | loss: {loss} | loss_2: {2 * loss} | loss: {3 * loss} | lr0 1e-4" for at, loss in enumerate(steady(30))]
    rows += [f" {at}%|█| {at}/100 [00:01<00:02]" for at in range(30)] + ["loss: 0.5 grad_norm: 0.1"] * 9
    rows += [f" {at}%|█| {at}/10 [00:01<00:02, 5.0it/s]" for at in range(10)] + ["loss: 0.5 grad_norm: -0.1"] * 9
    rows += [f"Sampling: {at}%|█| {at}/500 [00:01<00:02, 5.0it/s]" for at in range(10)] + ["loss: 0.5 grad_norm: nan.0"] * 9
    path.write_text("\r\n".join(rows), "utf-8", newline="")


@pytest.mark.parametrize("make", [_objects, _epochs, _repeated])
def test_other_texts(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "a.log")
    assert_same(tmp_path / "a.log")


WORDS = (
    *(
        "step 5 ",
        "loss: 0.5",
        "loss: nan",
        " | ",
        " 5/100 [00:01<00:02, 1.5it/s, ",
        "loss=0.25]",
        "lr=1e-05]",
        "Epoch 3: 7%|█|",
        "\r",
    ),
    *(
        "\n",
        "\n",
        '{"step": 3, "loss": 0.1}',
        "grad_norm: 2",
        "Running validation",
        " 17",
        "-",
        "e-5",
        "it/s",
        "validation",
        "epoch: 1%|",
    ),
    *(
        "step: 3%|",
        "\x1b[32m",
        "\r\n",
        "Traceback (most recent call last):",
        "loss scale: 65536",
        "mixed_precision=fp16",
        "İ",
        "loss",
    ),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.lists(st.sampled_from(WORDS), max_size=7).map("".join), max_size=12), times=st.integers(1, 9))
def test_any_text(tmp_path: Path, parts: list[str], times: int) -> None:
    """Every line many times, so that its shape is learnt."""
    text = "".join(f"{part}\n" * times for part in parts) + "\n".join(parts)
    (tmp_path / "a.log").write_text(text, "utf-8", newline="")
    assert_same(tmp_path / "a.log")


class Counting(Reader):
    """Counts the lines that it looks at."""

    taken = 0

    def take(self, piece: Piece) -> None:
        self.taken += 1
        super().take(piece)


def test_most_lines_are_not_looked_at_one_by_one(tmp_path: Path) -> None:
    """That is what the blocks are for."""
    kohya(tmp_path / "a.log", steady(1500))
    diffusers(tmp_path / "b.log", steady(2000))
    (tmp_path / "c.log").write_text("a cat on a wall\n" * 5000)
    for name, most in (("a.log", 60), ("b.log", 60), ("c.log", 0)):
        reader = Counting(Collector(name))
        bulk = Bulk(reader)
        for block in blocks(tmp_path / name):
            bulk.take(block)
        assert reader.taken <= most


def test_a_hostile_line_takes_no_time_of_its_own() -> None:
    """A shape of many numbers, and then lines that nearly fit it: all are read, and the test ends."""
    into = Collector("a")
    bulk = Bulk(Reader(into))
    row = "step 1 loss: 0.5 " + "1 " * 900
    bulk.take(Block(f"{row}\n" * 20, 1))
    for hostile in ("1" * 60_000, "1 " * 30_000, "1." * 30_000, " " * 60_000, "1e" * 30_000):
        bulk.take(Block(f"step 1 loss: 0.5 {hostile}x\n" * 10, 21))
    assert set(into.tracks["loss"].values) == {0.5}


def test_a_long_reading_is_told_and_can_be_broken_off(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("step 1 loss: 0.5\n" * 60_000)
    told: list[tuple[str, float, int]] = []
    read_run(tmp_path, progress=lambda *one: told.append(one))
    assert len({done for _, done, _ in told}) > 3
    assert all(name == "a.log" and 0 <= done < 1 and total == 1 for name, done, total in told if name)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    answers = iter([False, False, True])
    with pytest.raises(JobCancelled):
        read_run(tmp_path, cancelled=lambda: next(answers))
