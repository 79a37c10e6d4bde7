"""Any bytes are read to an end: nothing crashes, whatever a file of any name holds."""

import json
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.run_logs import record, scalar_event

from halftone.library.run_logs.folder import read_run

EVENTS = "events.out.tfevents.1"
NAMES = (
    "a.log",
    "a.csv",
    "trainer_state.json",
    "a.jsonl",
    "c.toml",
    "c.yaml",
    "c.json",
    EVENTS,
    "m.safetensors",
    "r.wandb",
    "l.db",
    "metrics",
)
_SAID = ("step", " ", "1e999", "\x1b[31m", "Epoch 3:", " 5/10 [", "--lr 1", "Traceback", "Gradient overflow. Skipping")
_SIGNS = tuple('=:{}[],|0"\ufeff\r\n')
_NAMES = ("loss", "nan", "lr", "inf", "grad_norm", "epoch", "log_history", "log_scale", "9" * 25)
WORDS = (*_SAID, *_SIGNS, *_NAMES)
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", NAMES)
@quick
@given(
    data=st.one_of(
        st.binary(max_size=300), st.lists(st.sampled_from(WORDS), max_size=40).map(lambda words: "".join(words).encode())
    )
)
def test_any_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    assert read_run(tmp_path).files == 1
    assert read_run(tmp_path / name).files == 1


@quick
@given(data=st.binary(max_size=200), start=st.sampled_from((b":W&B\xe1\xbe\x00", b"SQLite format 3\0")))
def test_any_bytes_behind_a_right_beginning(tmp_path: Path, data: bytes, start: bytes) -> None:
    for name in ("r.wandb", "l.db"):
        (tmp_path / name).write_bytes(start + data)
        assert read_run(tmp_path / name).files == 1


@quick
@given(data=st.binary(max_size=200), step=st.integers(-(2**63), 2**63 - 1))
def test_any_events(tmp_path: Path, data: bytes, step: int) -> None:
    """Whole records with any content, and any step."""
    (tmp_path / EVENTS).write_bytes(record(data) + record(scalar_event("loss", 1.0, step)) + struct.pack("<Q", 2**63))
    assert read_run(tmp_path).files == 1


KEYS = st.sampled_from(("loss", "step", "lr", "scale", "_timestamp", "log_history"))
LEAVES = st.none() | st.floats() | st.integers() | st.text(max_size=5)
NESTED = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3), max_leaves=9)


@quick
@given(content=NESTED)
def test_any_json(tmp_path: Path, content: object) -> None:
    for name in ("a.jsonl", "trainer_state.json", "c.json"):
        (tmp_path / name).write_text(json.dumps(content))
    assert read_run(tmp_path).files == 3


def test_deep_and_long_things_come_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "deep.jsonl").write_text('{"a":' * 5000 + "}" * 5000)
    (tmp_path / "c.json").write_text("[" * 100_000)
    (tmp_path / "long.log").write_text("loss" * 200_000 + "a.b/c*" * 100_000 + "=" * 100_000)
    (tmp_path / "digits.log").write_text("loss=" + "1" * 100_000 + "\nstep " + "2" * 1000 + " lr=" + "." * 10_000)
    assert read_run(tmp_path).files == 4
