"""What the confined process says is not believed, and one that gets no further is ended."""

import os
from pathlib import Path

import pytest
from tests.helpers.scripted import ROOT

from halftone.contract.errors import HalftoneError, sentence
from halftone.session.models.confined import rewrite

MODULE = "tests.helpers.strange_conversion"


@pytest.fixture(autouse=True)
def the_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), os.pathsep)


def refused(folder: Path, said: str, patience: float | None = None) -> HalftoneError:
    source = folder / "source.ckpt"
    source.write_text(said)
    with source.open("rb") as opened, pytest.raises(HalftoneError) as caught:
        rewrite(opened, source, folder / "made.safetensors", lambda _done, _all: None, MODULE, patience)
    return caught.value


@pytest.mark.parametrize("way", ["wait", "talk"])
def test_a_process_that_gets_no_further_is_ended(tmp_path: Path, way: str) -> None:
    error = refused(tmp_path, way, patience=1)
    assert error.code == "pickle-unread"
    assert sentence(error.as_facts()).endswith("source.ckpt cannot be converted: its conversion got no further for 1 s.")


@pytest.mark.parametrize(
    "error",
    [
        '{"code": "pickle-unread"}',
        '{"code": "pickle-needs-code", "facts": {"detail": "x"}}',
        '{"code": "output-failed", "facts": {"detail": 3}}',
        '{"code": "pickle-unread", "facts": {"detail": {"template": "{0}"}}}',
        '{"code": "pickle-unread", "facts": {"detail": {"template": "{0.__class__}", "values": ["x"]}}}',
        '{"code": "pickle-unread", "facts": {"detail": {"template": "{0:>99999999}", "values": ["x"]}}}',
        '{"code": "pickle-unread", "facts": {"detail": {"template": "{1}", "values": ["x"]}}}',
        '{"code": "model-missing", "facts": {"path": "/other"}}',
    ],
)
def test_an_error_without_what_its_sentence_needs_is_not_shown(tmp_path: Path, error: str) -> None:
    shown = sentence(refused(tmp_path, f'{{"error": {error}}}').as_facts())
    assert "source.ckpt cannot be converted: its conversion ended early (" in shown
    assert "detail" not in shown
    assert "{" not in shown


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ('{"code": "pickle-needs-code", "facts": {"name": "os.system", "path": "/other"}}', "asks to run os.system"),
        ('{"code": "pickle-unread", "facts": {"detail": {"template": "it is {0}", "values": ["torn"]}}}', "it is torn"),
        ('{"code": "pickle-no-weights"}', "holds no weights"),
    ],
)
def test_a_whole_error_is_shown_with_the_files_own_path(tmp_path: Path, error: str, said: str) -> None:
    shown = sentence(refused(tmp_path, f'{{"error": {error}}}').as_facts())
    assert said in shown
    assert "source.ckpt" in shown
    assert "/other" not in shown
