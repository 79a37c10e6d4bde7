"""`halftone update` gives its words to the launcher's part, with the source of the settings where none is named."""

import json
from pathlib import Path

import msgspec
import pytest
from installer.updates.reasons import REASONS

from halftone.cli.entry import run
from halftone.settings import store


def test_the_sources_are_not_updated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["update", "--check", "--json"], None) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "not-packaged"
    assert err == REASONS["not-packaged"] + "\n"


@pytest.mark.parametrize(("words", "place"), [([], "/of/the/settings"), (["--from", "/named"], "/named"), (["--from", ""], "")])
def test_the_source_is_that_of_the_settings_or_the_named_one(
    words: list[str], place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a package, of which the note alone is made here."""
    store.save(msgspec.structs.replace(store.Settings(), update_source="/of/the/settings"))
    from installer.updates import install

    monkeypatch.setenv("HALFTONE_HOME", str(tmp_path))
    (tmp_path / "installer").mkdir()
    (tmp_path / "installer" / "package.json").write_text('{"target": "linux-x86_64", "version": "0.1.0"}', encoding="ascii")
    key = tmp_path / "key.txt"
    key.write_text("8" * 42 + "A=\n", encoding="ascii")
    monkeypatch.setattr(install.here, "__defaults__", (str(tmp_path),))
    monkeypatch.setattr(install.public_key, "__defaults__", (str(key),))
    assert run(["update", "--json", *words], None) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["values"]) == (("bad-address", [place]) if place else ("no-source", []))
