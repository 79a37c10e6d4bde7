"""What wandb, MLflow and ai-toolkit keep of a run's numbers: read whole, read broken, and nothing of it changed."""

import math
import sqlite3
from pathlib import Path

import pytest
from tests.helpers.run_logs import BAD, wandb_run
from tests.helpers.trainer_logs import database

from halftone.library.run_logs.folder import Run, read_run


def numbers(run: Run, tag: str) -> list[tuple[int, float]]:
    (track,) = [one for one in run.tracks if one.tag == tag]
    return list(zip(track.steps, track.values, strict=True))


def test_wandb(tmp_path: Path) -> None:
    """Rows longer than a block, nested names, and NaN and infinity as wandb spells them."""
    rows: list[dict[str, object]] = [
        {"train_loss": 0.5, "train/grad_norm": 1.5, "prompt": "x" * 100_000},
        {"train_loss": BAD, "train/grad_norm": math.inf, "lr": 1e-4, "_timestamp": 1.7e9},
        {"train_loss": "NaN", "note": [1, 2]},
    ]
    path = wandb_run(tmp_path / "run-1.wandb", rows, {"mixed_precision": "fp16", "nested/learning_rate": 1e-5})
    run = read_run(path)
    assert numbers(run, "train_loss")[0] == (0, 0.5)
    assert [(step, math.isnan(value)) for step, value in numbers(run, "train_loss")[1:]] == [(1, True), (2, True)]
    assert numbers(run, "train/grad_norm") == [(0, 1.5), (1, math.inf)]
    assert numbers(run, "lr") == [(1, 1e-4)]
    assert {(one.name, one.value) for one in run.settings} == {("precision", "fp16"), ("rate", "1e-05")}
    assert run.notes == ()


@pytest.mark.parametrize("steps", ["global_step", "train/global_step", "step"])
def test_the_step_that_the_program_gave_counts(tmp_path: Path, steps: str) -> None:
    """wandb's own counts the calls."""
    path = wandb_run(tmp_path / "run-1.wandb", [{"loss": 0.1, steps: 10 * at} for at in range(3)])
    assert [step for step, _ in numbers(read_run(path), "loss")] == [0, 10, 20]


@pytest.mark.parametrize("end", [-1, -3, 40, 9])
def test_wandb_cut_off(tmp_path: Path, end: int) -> None:
    path = wandb_run(tmp_path / "run-1.wandb", [{"loss": 0.1, "prompt": "x" * 300} for _ in range(300)])
    path.write_bytes(path.read_bytes()[:end])
    run = read_run(path)
    assert [one.code for one in run.notes] == ["cut-off"]
    assert end > 0 or len(numbers(run, "loss")) == 299


def test_wandb_damaged(tmp_path: Path) -> None:
    path = wandb_run(tmp_path / "run-1.wandb", [{"loss": 0.1} for _ in range(100)])
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    run = read_run(path)
    assert [one.code for one in run.notes] == ["damaged"]
    assert 0 < len(numbers(run, "loss")) < 100
    path.write_bytes(b"other" * 10)
    assert [one.code for one in read_run(path).notes] == ["unknown-form"]


def test_mlflow(tmp_path: Path) -> None:
    run = tmp_path / "mlruns" / "1" / "0a1b"
    (run / "metrics" / "train").mkdir(parents=True)
    (run / "metrics" / "train" / "loss").write_text("1700000000000 0.5 10\n1700000001000 nan 20\n1700000002000 inf 30\nbroken\n")
    (run / "metrics" / "speed").write_text("1700000000000 12.5 10\n")
    (run / "params").mkdir()
    (run / "params" / "learning_rate").write_text("1e-05")
    (run / "meta.yaml").write_text("run_id: 0a1b\nstatus: 3\n")
    found = read_run(tmp_path)
    (track,) = found.tracks
    assert (track.tag, list(track.steps), list(track.lines)) == ("train/loss", [10, 20, 30], [1, 2, 3])
    assert math.isnan(track.values[1])
    assert track.walls[1] == 1700000001.0
    assert [(one.name, one.value) for one in found.settings] == [("rate", "1e-05")]


def test_a_database_is_only_read(tmp_path: Path) -> None:
    """Also one whose program was killed: its last rows stand in a file beside."""
    path = tmp_path / "loss_log.db"
    database(path, [(0, "loss/loss", 0.5)])
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA wal_autocheckpoint=0")
    base.execute("INSERT INTO metrics VALUES (1, 'loss/loss', 0.25, NULL)")
    base.commit()
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    assert numbers(read_run(path), "loss/loss") == [(0, 0.5), (1, 0.25)]
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before
    base.close()


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE other (a)",
        "CREATE TABLE metrics (step, value)",
        "CREATE VIEW metrics AS WITH RECURSIVE n(step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM n) "
        "SELECT step, 'loss' AS key, 0.1 AS value_real, NULL AS value_text FROM n",
    ],
)
def test_another_database(tmp_path: Path, made: str) -> None:
    path = tmp_path / "loss_log.db"
    with sqlite3.connect(path) as base:
        base.execute(made)
    base.close()
    run = read_run(path)
    assert (run.tracks, run.notes) == ((), ())


def test_a_broken_database(tmp_path: Path) -> None:
    path = tmp_path / "loss_log.db"
    database(path, [(step, "loss/loss", 0.5) for step in range(2000)])
    path.write_bytes(path.read_bytes()[:9000])
    assert [one.code for one in read_run(path).notes] == ["damaged"]
