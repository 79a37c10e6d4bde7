"""What `halftone farm submit` accepts, and what it says of a file that cannot be used."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from halftone.cli.entry import run
from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import Generate
from halftone.farm.ledger import Ledger
from halftone.farm.states import Failed
from halftone.settings.places import resources
from halftone.settings.store import Settings, save


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def submit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Hand in rows, and return what was said."""

    def submitted(*rows: object, options: tuple[str, ...] = ()) -> Said:
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


def test_a_file_that_cannot_be_read_is_named(submit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.jsonl").write_bytes('{"prompt": "été"}'.encode("latin-1"))
    (tmp_path / "blank.jsonl").write_text("\n \n", encoding="utf-8")
    for path, why in (
        (tmp_path, "it is a folder"),
        (tmp_path / "latin.jsonl", "it is no text in UTF-8"),
        (tmp_path / "blank.jsonl", "it holds no job"),
        (Path("/dev/null"), "it is a device, not a file"),
    ):
        assert run(["farm", "submit", str(path)], None) == 2
        assert f"{path} cannot be used: {why}. No job was submitted." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": 10**23}, "Seed"),
        ({"steps": 10**23}, "a number is too large"),
        ({"steps": "20"}, "“steps” takes a whole number or null, not text"),
        ({"numerics": {"precision": 5}}, "“numerics.precision” takes text, not a whole number"),
        ({"loras": [{"path": "a", "weight": "x"}]}, "“loras[0].weight” takes a number, not text"),
        ({"key": 5}, "“key” takes text of 1 to 100 characters"),
        ({"key": ""}, "“key” takes text of 1 to 100 characters"),
        ({"output": ""}, "file of its own"),
        ({"output": "sun"}, "file type"),
        ({"output": "a.gif"}, "file type"),
    ],
)
def test_a_line_with_a_wrong_value_says_which(submit: Any, tmp_path: Path, change: dict[str, object], why: str) -> None:
    said = submit(row(tmp_path, "good"), row(tmp_path, "bad") | change)
    assert said.code == 2
    assert "Line 2 of " in said.err
    assert why in said.err
    assert "`" not in said.err


def test_a_line_that_is_no_object_is_refused(submit: Any, tmp_path: Path) -> None:
    said = submit(["a sun"])
    assert said.code == 2
    assert "a line takes an object, not a list" in said.err


def test_an_output_that_another_job_has_names_the_line(submit: Any, tmp_path: Path) -> None:
    submit(row(tmp_path, "a", key="s1"))
    said = submit(row(tmp_path, "b"), row(tmp_path, "a", key="s2"))
    assert said.code == 2
    assert "Line 2 of " in said.err
    assert "a job that is not done has this output" in said.err


def test_a_check_makes_the_folder_for_its_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["farm", "check", "--all", "--output", str(tmp_path / "new" / "reports")], None) == 0
    assert (tmp_path / "new" / "reports").is_dir()
    (tmp_path / "file").write_bytes(b"no folder")
    assert run(["farm", "check", "--all", "--output", str(tmp_path / "file")], None) == 2
    assert f"{tmp_path / 'file'} is a file, not a folder." in capsys.readouterr().err
    assert run(["farm", "check", "--all", "--output", str(tmp_path / "file" / "below")], None) == 2
    assert f"{tmp_path / 'file'} is a file, not a folder." in capsys.readouterr().err


def test_the_keys_of_what_was_submitted_are_said(submit: Any, tmp_path: Path) -> None:
    rows = row(tmp_path, "a"), row(tmp_path, "b", key="mine")
    said = submit(*rows)
    assert "farm status --jobs" in said.out
    again = json.loads(submit(*rows, row(tmp_path, "c"), options=("--json",)).out)
    with Ledger() as ledger:
        keys = [job.key for job in ledger.in_state("waiting")]
    assert [(one["key"], one["known"]) for one in again["jobs"]] == list(zip(keys, (True, True, False), strict=True))
    assert "copy their models" in submit(*rows, options=("--copy-models",)).out


def test_jobs_that_were_cancelled_wait_again_when_they_are_handed_in(submit: Any, tmp_path: Path) -> None:
    rows = row(tmp_path, "a", key="a"), row(tmp_path, "b", key="b")
    submit(*rows)
    assert run(["farm", "cancel", "a"], None) == 0
    with Ledger() as ledger:
        job = ledger.job("b")
        assert job is not None
        ledger.lease("n", "cpu", (job.kind,), 1, 60.0)
        ledger.tell("b", Failed(1, ErrorFacts(code="internal")))
        said = submit(*rows).out
        assert "1 job was submitted. 1 was known already." in said
        assert "1 of these failed or was set aside. To try" in said
        assert ledger.counts() == {job.user: {"failed": 1, "waiting": 1}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("blub",), "There is no waiting or running job blub."),
        (("blub", "--all"), "Name jobs or use --all, not both."),
        (("blub", "--user", "ann"), "--user only works with --all."),
        ((), "Name the jobs, or use --all."),
    ],
)
def test_a_wrong_cancel_is_wrong_input(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str) -> None:
    assert run(["farm", "cancel", *words], None) == 2
    assert said in capsys.readouterr().err


def test_a_model_of_the_folders_is_known_by_its_name(submit: Any, tmp_path: Path) -> None:
    shutil.copytree(resources() / "pocket", tmp_path / "models" / "My model")
    save(Settings(model_folders=(str(tmp_path / "models"),)))
    assert submit(row(tmp_path, "a", model="My model", key="a")).code == 0
    with Ledger() as ledger:
        command = ledger.command("a")
    assert isinstance(command, Generate)
    assert command.request.model == str(tmp_path / "models" / "My model")
    assert "no model at" in submit(row(tmp_path, "b", model="Another")).err
