"""Small files are fetched only when asked, from a server that speaks as the hub does; every way it fails is one sentence."""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from tests.helpers.hub import WHOLE, Hub, save_flux, serving, unigram
from typer.testing import CliRunner

from halftone import __version__
from halftone.cli.app import application
from halftone.cli.entry import run
from halftone.cli.terminal.command_lines import command_line
from halftone.contract.errors import HalftoneError
from halftone.library.files.fetching import fetch
from halftone.library.files.small_files import T5, lacking, take
from halftone.library.models import describe


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield server


def test_a_file_comes_whole_and_leaves_nothing_beside_it(hub: Hub) -> None:
    assert fetch(T5) == T5.place
    assert T5.place.read_bytes() == WHOLE
    assert [file.name for file in T5.place.parent.iterdir()] == ["tokenizer.json"]
    assert hub.asked[0] == "/google-t5/t5-base/resolve/main/tokenizer.json"


@pytest.mark.parametrize(
    ("status", "data", "code"), [(403, WHOLE, "fetch-refused"), (404, WHOLE, "fetch-missing"), (200, WHOLE[:20], "fetch-failed")]
)
def test_what_fails_is_one_sentence_and_nothing_is_kept(hub: Hub, status: int, data: bytes, code: str) -> None:
    hub.status, hub.data = status, data
    with pytest.raises(HalftoneError) as caught:
        fetch(T5)
    assert caught.value.code == code
    assert not T5.place.exists()


def test_the_command_shows_what_it_fetches_and_asks(hub: Hub, tmp_path: Path) -> None:
    path = save_flux(tmp_path / "flux.safetensors")
    no = CliRunner().invoke(application(), ["fetch", str(path)], input="n\n")
    assert "google-t5/t5-base  tokenizer.json  1.4" in no.output
    assert (no.exit_code, no.output.splitlines()[-1]) == (0, "Fetch this? [y/N]: Nothing was fetched.")
    assert (hub.asked, T5.place.exists()) == ([], False)
    yes = CliRunner().invoke(application(), ["fetch", str(path), "--yes"])
    assert (yes.exit_code, T5.place.read_bytes()) == (0, WHOLE)
    told = CliRunner().invoke(application(), ["fetch", str(path), "--json"])
    assert json.loads(told.output) == {"schema": 1, "missing": [], "fetched": []}
    again = CliRunner().invoke(application(), ["fetch", str(path), "--yes"])
    assert "nothing to fetch" in again.output


def test_where_nobody_answers_nothing_is_fetched_and_it_says_how(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["fetch", str(save_flux(tmp_path / "flux.safetensors"))], None) == 2
    said = "Nothing was fetched, because nobody answered. Add --yes to fetch without asking."
    assert (said in capsys.readouterr().err, hub.asked) == (True, [])


def test_a_model_that_lacks_one_names_the_whole_command_in_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_flux(tmp_path / "flux.safetensors")
    monkeypatch.setenv("HALFTONE_COMMAND", "python3 installer/launch.py")
    assert run(["generate", "a red sun", "--model", str(path)], None) == 2
    command = command_line("fetch", str(path))
    said = capsys.readouterr().err
    assert f"{path} needs one more small file: google-t5/t5-base/tokenizer.json (1.4\u00a0MB)." in said
    assert command.startswith("python3 installer/launch.py fetch ")
    assert f"Fetch it with:  {command}  or put it into {T5.place.parent}." in said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "no such file or directory"),
        (b"", "it is cut off, or is not a tokenizer"),
        (WHOLE[:30], "it is cut off, or is not a tokenizer"),
        (WHOLE.replace(b"unk_id", b"id"), "it is cut off, or is not a tokenizer"),
        (WHOLE.replace(b"Unigram", b"BPE"), "it is the tokenizer of another model"),
        (unigram(pieces=30_000), "it is the tokenizer of another model"),
        (unigram(pieces=250_000), "it is the tokenizer of another model"),
        (unigram(first=("<unk>", "<s>", "</s>")), "it is the tokenizer of another model"),
    ],
)
def test_a_file_of_the_user_s_own_is_looked_at_as_a_fetched_one_is(data: bytes | None, said: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    if data is not None:
        mine.write_bytes(data)
    with pytest.raises(HalftoneError, match=said):
        take(T5, str(mine))
    with pytest.raises(HalftoneError, match="is a directory"):
        take(T5, str(tmp_path))
    assert not T5.place.exists()
    mine.write_bytes(WHOLE)
    assert (take(T5, str(mine)).read_bytes(), mine.read_bytes()) == (WHOLE, WHOLE)


def test_a_file_put_there_by_hand_is_looked_at_too(tmp_path: Path) -> None:
    model = describe(str(save_flux(tmp_path / "flux.safetensors")))
    T5.place.parent.mkdir(parents=True)
    for data, missing in ((WHOLE, ()), (WHOLE[:-5], (T5,)), (unigram(pieces=30_000), (T5,)), (WHOLE, ())):
        T5.place.write_bytes(data)
        assert lacking(model) == missing
    T5.place.unlink()
    T5.place.mkdir()
    assert lacking(model) == (T5,)


@pytest.mark.parametrize("own", ["", "hf_mine"])
def test_only_a_token_that_the_user_gave_here_is_sent_and_nothing_is_told_of_the_machine(
    own: str, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hf_stored")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", own)
    fetch(T5)
    assert hub.headers.get("authorization") == (f"Bearer {own}" if own else None)
    assert hub.headers["user-agent"] == f"halftone/{__version__}"


@pytest.mark.parametrize(
    ("status", "gated", "token", "code", "said"),
    [
        (401, True, "", "fetch-refused", "requires you to accept its terms"),
        (403, True, "hf_mine", "fetch-refused", "requires you to accept its terms"),
        (401, True, "hf_old", "fetch-token", "the token in HF_TOKEN is invalid or expired"),
        (401, False, "hf_old", "fetch-token", "the token in HF_TOKEN is invalid or expired"),
        (401, False, "", "fetch-token", "it requires a token"),
        (200, False, "hf_schlüssel", "fetch-token", "HF_TOKEN contains invalid characters"),
        (200, False, "hf one", "fetch-token", "HF_TOKEN contains invalid characters"),
    ],
)
def test_a_token_that_is_none_is_told_apart_from_terms_to_agree_to(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, status: int, gated: bool, token: str, code: str, said: str
) -> None:
    hub.status, hub.gated = status, gated
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HalftoneError, match=said) as caught:
        fetch(T5)
    assert (caught.value.code, T5.place.exists()) == (code, False)


def test_how_much_came_is_told_with_how_much_there_is(hub: Hub) -> None:
    told: list[tuple[int, int]] = []
    fetch(T5, lambda done, whole: told.append((done, whole)))
    assert told[0][0] < len(WHOLE)
    assert told[-1] == (len(WHOLE), len(WHOLE))
    assert told == sorted(told)


def test_a_terminal_is_told_how_much_came(hub: Hub, tmp_path: Path) -> None:
    path = save_flux(tmp_path / "flux.safetensors")
    run = CliRunner().invoke(application(), ["fetch", str(path), "--yes", "--json", "--progress"])
    lines = [json.loads(line) for line in run.stderr.splitlines()]
    assert lines[-1] == {"done": len(WHOLE), "total": len(WHOLE)}
    assert json.loads(run.stdout)["missing"] == []


def test_a_file_that_is_said_to_be_far_larger_is_not_waited_for(hub: Hub) -> None:
    """No meter of the window counts so far."""
    hub.length = 99_000_000_000
    told: list[tuple[int, int]] = []
    with pytest.raises(HalftoneError, match="is cut off, or is not a tokenizer"):
        fetch(T5, lambda done, whole: told.append((done, whole)))
    assert (told, T5.place.exists()) == ([], False)


def test_a_connection_that_ends_in_the_middle_is_said_and_nothing_is_kept(hub: Hub) -> None:
    hub.broken = True
    with pytest.raises(HalftoneError, match=r"the connection failed\. Try again") as caught:
        fetch(T5)
    assert (caught.value.code, T5.place.exists()) == ("fetch-failed", False)


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("http://127.0.0.1:9", "the server does not answer"),
        ("https://nowhere.invalid", "the server was not found; this machine may be offline"),
        ("nowhere", "HF_ENDPOINT is not a web address"),
        ("https://[nowhere", "HF_ENDPOINT is not a web address"),
    ],
)
def test_without_a_server_it_says_so_once(
    endpoint: str, said: str, hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("it waits for another try"))
    with pytest.raises(HalftoneError, match=said):
        fetch(T5)
    assert capfd.readouterr() == ("", "")
