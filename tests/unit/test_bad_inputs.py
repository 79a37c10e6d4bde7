"""A fixed sample of the bench of bad inputs: pictures, metadata, texts and settings, each works or is refused in one sentence."""

from pathlib import Path

import pytest
from tests.bench.bad_inputs.__main__ import cases_of
from tests.bench.bad_inputs.case import Case, answers

SAMPLE = {
    "pictures": ("sound: JPEG in CMYK", "PNG of 13000 × 13000", "a named pipe", "a program in PostScript as .png", "EXIF 3"),
    "metadata": (
        "A1111: quotes without end",
        "A1111: escape signs",
        "ComfyUI: a loader that contains itself",
        "ComfyUI: nested deeply",
        "receipt: half a sign",
        "EXIF: changed by chance 2",
    ),
    "texts": (
        "styles: that repeat the prompt",
        "styles: a device",
        "wildcards: that name themselves",
        "wildcards: in utf-16",
        "caption: a named pipe",
        "prompt: 60000 spaces",
        "prompt: a choice of all",
        "prompt: half a sign",
        "styles chosen: sixty twice the prompt",
    ),
    "settings": (
        "settings: in utf-8-sig",
        "settings: nested deeply",
        "settings: a named pipe",
        "training: nested deeply",
        "record: nested deeply",
        "run: a device",
        "history: a page of chance 1",
        "history: a named pipe",
        "history: DROP TABLE picture",
        "history: cut",
    ),
}


@pytest.mark.logs("history was damaged|is damaged|cannot be read|There is no setting|cannot be|could not be kept")
def test_a_sample_of_bad_inputs_ends_in_sentences(tmp_path: Path, own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[str] = []
    for kind, names in SAMPLE.items():
        found = {case.name: case for case in cases_of(kind, 0)}
        assert set(names) <= set(found)
        for index, name in enumerate(names):
            place = tmp_path / f"{kind}{index}"
            place.mkdir()
            monkeypatch.setenv("HALFTONE_DATA", str(place / "data"))
            answer = _answer(found[name], place)
            wrong += [] if answer.startswith("ok") else [f"{kind}: {name}: {answer}"]
    assert wrong == []


def _answer(case: Case, place: Path) -> str:
    found = answers(case, place)
    return f"{found.verdict} {found.text}"
