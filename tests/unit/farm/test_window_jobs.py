"""Entries of the window's queue as jobs of the farm."""

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.messages import Generate, Upscale
from halftone.contract.request import PictureRequest, Saving, UpscaleRequest
from halftone.farm import window_jobs
from halftone.farm.ledger import Ledger, Wanted, head_mark, ledger_file
from halftone.farm.states import Cancelled, Failed, State
from halftone.farm.states import Job as FarmJob
from halftone.session.pictures.grid import Grid
from halftone.session.state import Job
from halftone.settings.folders import claimed

GRID = Grid(axes=(), requests=(PictureRequest(prompt="a"),), places=((),))
UPSCALE = Upscale(job="a", request=UpscaleRequest(pictures=("a.png",), upscaler="b"))


def entry(name: str = "a", **fields: Any) -> Job:
    given: dict[str, Any] = {"prompt": "hills", "seed": 7} | fields
    request = PictureRequest(**given)
    return Job(id=name, command=Generate(job=name, request=request), title=request.prompt)


def requests() -> list[PictureRequest]:
    """What the ledger has, in order."""
    with Ledger() as ledger:
        commands = [ledger.command(job.key) for job in ledger.in_state("waiting")]
    return [command.request for command in commands if isinstance(command, Generate)]


def sent(*jobs: Job) -> dict[str, str]:
    """Id -> why it was refused, "" for none."""
    with claimed(head_mark()):
        found = window_jobs.send(jobs)
    assert found is not None
    return {name: "" if error is None else str(error.facts["why"]) for name, error in found.items()}


def test_nothing_is_filed_without_a_head() -> None:
    assert window_jobs.send((entry(),)) is None
    assert window_jobs.look() == window_jobs.Seen()
    with Ledger() as ledger:
        assert not ledger.counts()
    assert window_jobs.send((entry(),)) is None, "a ledger alone is no head"


def test_a_batch_is_a_job_for_each_picture_with_its_own_seed(tmp_path: Path) -> None:
    assert sent(entry(batch=3, device="cuda:0", output=str(tmp_path))) == {"a": ""}
    assert [(one.seed, one.batch, one.device) for one in requests()] == [(7, 1, "auto"), (8, 1, "auto"), (9, 1, "auto")]
    assert [Path(one.output or "").name for one in requests()] == ["00001-7.png", "00002-8.png", "00003-9.png"]
    assert window_jobs.filed(["a", "b"]) == {"a"}


def test_variations_keep_the_seed() -> None:
    sent(entry(batch=2, variation_strength=0.2, variation_seed=50))
    assert [(one.seed, one.variation_seed) for one in requests()] == [(7, 50), (7, 51)]


def test_words_are_drawn_here_as_nodes_have_no_wildcards(tmp_path: Path) -> None:
    (tmp_path / "colour.txt").write_text("red\n", encoding="utf-8")
    sent(entry(prompt="a __colour__ sun", wildcards=(str(tmp_path),), lora_folders=(str(tmp_path),)))
    (one,) = requests()
    assert (one.prompt, one.wildcards, one.lora_folders, one.draws) == ("a red sun", (), None, False)


def test_no_two_jobs_have_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "7.jpg").write_bytes(b"")
    fields: dict[str, Any] = {"output": str(tmp_path), "saving": Saving(file_names="{seed}", picture_format="jpg")}
    sent(entry(**fields), entry("b", **fields), entry("c", output=str(tmp_path / "named.png"), batch=2))
    names = [Path(one.output or "").name for one in requests()]
    assert names == ["7-2.jpg", "7-3.jpg", "named.png", "named-2.png"]


def test_what_is_filed_already_is_not_filed_again() -> None:
    sent(entry())
    sent(entry())
    assert len(requests()) == 1


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(entry(), upscaler="/up.safetensors"), "upscaled here afterwards"),
        (replace(entry(), endless=True), "without an end"),
        (replace(entry(), grid=GRID), "of a grid"),
        (replace(entry(), command=UPSCALE), "other jobs stay here"),
        (entry(image="/a.png"), "files of pictures"),
        (entry(resume_latents="/a.latents"), "latents are not sent"),
    ],
)
def test_what_cannot_go_says_why(job: Job, why: str) -> None:
    found = sent(job, entry("good"))
    assert why in found["a"]
    assert found["good"] == "", "the others go"


def test_what_another_program_waits_for_stays() -> None:
    with claimed(head_mark()):
        found = window_jobs.send((entry(), entry("b")), refused=["a"])
    assert found is not None
    assert found["b"] is None
    assert found["a"] is not None
    assert "another program" in str(found["a"].facts["why"])


def test_only_what_is_open_or_did_not_end_well_is_shown() -> None:
    sent(entry(batch=3))
    with Ledger() as ledger:
        lease = ledger.lease("node", "cpu", (ledger.open_kinds()[0].kind,), 2, 60.0)
        assert lease is not None
        ledger.tell("window-a-0", Failed(1, ErrorFacts(code="out-of-memory")))
        ledger.tell("window-a-1", Cancelled())
    seen = window_jobs.look()
    assert [(one.key, one.state, one.title) for one in seen.entries] == [
        ("window-a-0", "failed", "hills"),
        ("window-a-2", "waiting", "hills"),
    ]
    window_jobs.retry("window-a-0")
    assert [one.state for one in window_jobs.look().entries] == ["waiting", "waiting"]
    window_jobs.cancel_entry("a")
    assert window_jobs.look().entries == ()


def test_an_entry_is_never_filed_beside_one_that_stays_in_the_queue() -> None:
    """The ledger fails at the second entry: the window keeps both, so the farm must have neither."""
    sent(entry("first"))
    with Ledger() as ledger, contextlib.closing(sqlite3.connect(ledger_file())) as database:
        database.execute("CREATE TRIGGER no BEFORE INSERT ON job WHEN new.key = 'window-b-0' BEGIN SELECT RAISE(ABORT, 'x'); END")
        with pytest.raises(sqlite3.Error):
            sent(entry("a"), entry("b"))
        assert [job.key for job in ledger.in_state("waiting")] == ["window-first-0"]


def test_an_output_that_another_program_takes_meanwhile_refuses_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    submit, output = Ledger.submit, str(tmp_path / "one.png")

    def later(self: Ledger, wanted: Iterable[Wanted]) -> tuple[str, ...]:
        monkeypatch.setattr(Ledger, "submit", submit)
        sent(entry("other", output=output))
        return submit(self, wanted)

    monkeypatch.setattr(Ledger, "submit", later)
    found = sent(entry("a", output=output), entry("b"))
    assert found == dict.fromkeys("ab", "a job that is not done has this output")
    assert len(requests()) == 1


def test_many_entries_are_handed_in_with_one_look_at_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = list[str]()
    beginning = Ledger.beginning

    def counted(self: Ledger, prefix: str, *states: State) -> tuple[FarmJob, ...]:
        looks.append(prefix)
        return beginning(self, prefix, *states)

    monkeypatch.setattr(Ledger, "beginning", counted)
    assert set(sent(*(entry(f"{n}", output=str(tmp_path)) for n in range(20))).values()) == {""}
    assert len(looks) == 1
    assert [Path(one.output or "").name for one in requests()] == [f"{n:05}-7.png" for n in range(1, 21)]


def test_cancelling_keeps_the_reason_of_what_failed_meanwhile() -> None:
    sent(entry())
    with Ledger() as ledger:
        assert ledger.lease("node", "cpu", (ledger.open_kinds()[0].kind,), 1, 60.0)
        ledger.tell("window-a-0", Failed(1, ErrorFacts(code="out-of-memory")))
        window_jobs.cancel("window-a-0")
        (one,) = window_jobs.look().entries
        assert one.error == ErrorFacts(code="out-of-memory")
        window_jobs.take_off("window-a-0")
        assert window_jobs.look().entries == ()
        assert ledger.job("window-a-0") is None


def test_a_cancelled_job_stays_where_a_head_that_just_leased_it_can_read_it() -> None:
    sent(entry())
    with Ledger() as ledger:
        assert ledger.lease("node", "cpu", (ledger.open_kinds()[0].kind,), 1, 60.0)
        for _ in range(2):  # two clicks on the cross
            window_jobs.cancel("window-a-0")
        window_jobs.take_off("window-a-0")
        assert isinstance(ledger.command("window-a-0"), Generate)


def test_a_picture_is_not_tried_again_while_another_job_has_its_output(tmp_path: Path) -> None:
    sent(entry(output=str(tmp_path / "one.png")))
    with Ledger() as ledger:
        ledger.tell("window-a-0", Cancelled())
    sent(entry("b", output=str(tmp_path / "one.png")))
    with pytest.raises(HalftoneError, match="has this output"):
        window_jobs.retry("window-a-0")
