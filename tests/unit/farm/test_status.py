"""What `halftone farm status` says."""

import json
from pathlib import Path

from tests.helpers.farms import lines, submit
from typer.testing import CliRunner

from halftone.cli.app import application
from halftone.contract.errors import ErrorFacts
from halftone.farm.ledger import Ledger, head_mark
from halftone.farm.talk import NodeFacts
from halftone.settings.folders import claimed


def status(*options: str) -> str:
    result = CliRunner().invoke(application(), ["farm", "status", *options])
    assert result.exit_code == 0
    return result.stdout


def test_what_waits_is_named_by_its_files_while_a_head_runs(tmp_path: Path) -> None:
    assert status().splitlines()[0] == "No job was submitted yet."
    with Ledger() as ledger:
        submit(ledger, lines(tmp_path, 3))
        (waiting, *_) = ledger.in_state("waiting")
        ledger.note_node("abcdef0123", NodeFacts(host="north", version="0.1.0", cards=()))
        ledger.note_refusal("abcdef0123", "cpu", waiting.kind, ErrorFacts(code="file-empty", facts={"path": "m"}))
    with claimed(head_mark()) as free:
        assert free
        said = status()
        assert "j00.png and 2 like it cannot run on node abcdef01: m is empty." in said
        assert "Node north (abcdef01, Halftone 0.1.0)" in said
        assert "No head runs." not in said
    said = status()
    assert "ann: 3 waiting" in said
    assert "No head runs. To start one: " in said
    assert "north" not in said, "a node without a head makes nothing"


def test_jobs_that_are_not_done_are_listed_with_their_keys_and_nodes(tmp_path: Path) -> None:
    """A job without a key of its own has one that was drawn: without it nobody could cancel this job alone."""
    with Ledger() as ledger, claimed(head_mark()):
        submit(ledger, lines(tmp_path, 2, key=None))
        first, second = ledger.in_state("waiting")
        ledger.note_node("abcdef0123", NodeFacts(host="north", version="0.1.0", cards=()))
        ledger.lease("abcdef0123", "cpu", (first.kind,), 1, 60.0)
        said = status("--jobs").splitlines()
        assert "ann: 1 with a node, 1 waiting" in said
        assert f"{first.key}  with node north (abcdef01)  {first.output}" in said
        assert f"{second.key}  waiting  {second.output}" in said
        assert first.key not in status()
        found = json.loads(status("--json"))
        assert [(one["key"], one["state"], one["node"]) for one in found["jobs"]] == [
            (first.key, "leased", "abcdef0123"),
            (second.key, "waiting", None),
        ]
        assert found["machines"] == [{"node": "abcdef0123", "host": "north", "version": "0.1.0", "cards": []}]
