"""What `halftone farm resume` puts in order, and says."""

from pathlib import Path

import pytest
from tests.helpers.farms import lines, submit

from halftone.cli.entry import run
from halftone.farm.ledger import Ledger
from halftone.farm.placing import place


def made(ledger: Ledger, key: str, data: bytes) -> Path:
    job = ledger.job(key)
    assert job is not None
    lease = ledger.lease("n", "cpu", (job.kind,), 1, 60.0)
    assert lease is not None
    path = place(ledger, key, lease.jobs[0].attempt, data)
    assert path is not None
    return path


def test_with_nothing_to_do_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["farm", "resume"], None) == 0
    assert capsys.readouterr().out == "Nothing was to be put in order.\n"


def test_pictures_that_are_gone_or_changed_are_made_again_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger() as ledger:
        submit(ledger, lines(tmp_path, 3))
        gone, changed, _good = (made(ledger, f"j{n:02}", b"picture") for n in range(3))
        gone.unlink()
        changed.write_bytes(b"edited")
        for options in ((), ("--again",)):
            assert run(["farm", "resume", *options], None) == 1
            said = capsys.readouterr().err
            assert f"{gone} is gone" in said
            assert "farm resume --remake" in said
            assert ledger.counts() == {"ann": {"done": 3}}
        assert run(["farm", "resume", "--remake"], None) == 0
        assert capsys.readouterr().out == "2 files are made again.\n"
        assert ledger.counts() == {"ann": {"done": 1, "waiting": 2}}
        assert made(ledger, "j00", b"picture") == gone
        assert made(ledger, "j01", b"picture") == tmp_path / "j01-2.png", "the edited one stays"
        assert changed.read_bytes() == b"edited"
        assert run(["farm", "status"], None) == 0
        assert f"j01 lies at {tmp_path / 'j01-2.png'}: its own name was taken." in capsys.readouterr().out
