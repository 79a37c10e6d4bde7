"""Painted masks: those go that are old and that nothing names."""

import os
import time
from pathlib import Path

import msgspec
import pytest
from tests.helpers.model_files import safetensors
from tests.helpers.pictures import picture_facts, resolved

from halftone.contract.plan import Plan
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.health.pictures.painted_masks import DAYS, forget_painted_masks
from halftone.health.pictures.unfinished_pictures import RECORD, Kept
from halftone.settings.places import latents_dir, masks_dir


def aged(name: str, days: float) -> Path:
    path = masks_dir() / name
    path.write_bytes(b"mask")
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def names(number: int) -> str:
    return f"{number:016x}.png"


@pytest.fixture
def kept_latents() -> Path:
    request = resolved(image="/p/hills.png", mask=str(masks_dir() / names(4)))
    kept = Kept(request=request, picture=picture_facts(), plan=Plan(), path="/m", fingerprint="f")
    path = latents_dir() / "7-0.safetensors"
    path.write_bytes(safetensors({}, {RECORD: msgspec.json.encode(kept).decode()}))
    return path


def test_only_those_go_that_are_old_and_that_nothing_names(kept_latents: Path) -> None:
    assert kept_latents.is_file()
    for number in range(1, 6):
        aged(names(number), DAYS + 1)
    aged(names(6), DAYS - 1)
    mine = aged("my mask.png", DAYS + 400)
    with History() as history:
        request = PictureRequest(prompt="a", image="/p/hills.png", mask=str(masks_dir() / names(2)))
        history.add(picture_facts(), request, b"")
    form = f'{{"prompt":"a","mask":"{masks_dir() / names(3)}"}}'
    assert forget_painted_masks(form) == 2
    left = {path.name for path in masks_dir().iterdir()}
    assert left == {names(2), names(3), names(4), names(6), mine.name}
    assert forget_painted_masks(form) == 0
