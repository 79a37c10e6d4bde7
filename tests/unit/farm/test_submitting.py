"""What `halftone farm submit` accepts, and what it says of a file that cannot be used."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from halftone.cli.entry import run
from halftone.farm.ledger import Ledger


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def submit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Hand in rows, and return what was said."""

    def submitted(*rows: dict[str, object], options: tuple[str, ...] = ()) -> Said:
        path = tmp_path / "jobs.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        code = run(["farm", "submit", str(path), *options], None)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return submitted


def row(folder: Path, name: str, **fields: object) -> dict[str, object]:
    return {"prompt": "a sun", "output": str(folder / f"{name}.png"), **fields}


@pytest.mark.parametrize(
    "change", [{"prompt": "a moon"}, {"output": "other.png"}, {"seed": 8}, {"numerics": {"precision": "bfloat16"}}]
)
def test_a_key_that_stands_for_another_job_refuses_the_line(submit: Any, tmp_path: Path, change: dict[str, object]) -> None:
    first = row(tmp_path, "a", key="s1", seed=7)
    assert submit(first).code == 0
    assert submit(first).out == "0 jobs were submitted. 1 was known already.\n"
    said = submit(row(tmp_path, "b"), first | change)
    assert said.code == 2
    assert "Line 2 of " in said.err
    assert "another job has the key s1" in said.err
    with Ledger() as ledger:
        assert [job.key for job in ledger.in_state("waiting")] == ["s1"]


def test_a_line_without_a_seed_is_known_when_it_comes_again(submit: Any, tmp_path: Path) -> None:
    assert submit(row(tmp_path, "a", key="s1")).code == 0
    assert submit(row(tmp_path, "a", key="s1")).out == "0 jobs were submitted. 1 was known already.\n"
