from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.settings import places, store
from halftone.settings.glance import Glance, glance, widths
from halftone.settings.store import Settings


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.OVERRIDE, str(tmp_path))


def test_without_a_file_a_glance_is_the_default() -> None:
    assert glance() == Glance()


def test_a_glance_sees_what_the_store_saved() -> None:
    saved = Settings(theme="light", geometry={"main": "AdnQyw=="}, splitters={"create": "300,900,240"}, first_run_done=True)
    store.save(saved)
    assert glance() == Glance(theme="light", geometry="AdnQyw==", columns=(300, 900, 240), first_run=False)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"no toml",
        b"appearance = 3",
        b"[appearance]\ntheme = 'pink'",
        b"[appearance]\ntheme = ['dark']",
        b"[window]\ngeometry = 1\nsplitters = []",
        b"[window.geometry]\nmain = 1\n[window.splitters]\ncreate = 2",
        b"general = [1, 2]",
    ],
)
def test_a_wrong_file_gives_the_defaults(content: bytes) -> None:
    places.settings_file().write_bytes(content)
    assert glance() == Glance()


@given(st.binary(max_size=200))
def test_any_file_gives_a_glance(content: bytes) -> None:
    places.settings_file().write_bytes(content)
    assert glance().theme in ("system", "dark", "light")


@pytest.mark.parametrize(
    ("text", "expected"), [("1,2,3", (1, 2, 3)), ("1,0,3", ()), ("1,2", ()), ("", ()), ("a,b,c", ()), ("1,2,²", ())]
)
def test_three_widths_or_none(text: str, expected: tuple[int, ...]) -> None:
    assert widths(text) == expected
