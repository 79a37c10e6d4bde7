"""Pictures of other programs are listed with what they say about themselves."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.helpers.pictures import picture_facts

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest
from halftone.gallery.catalogue import Catalogue
from halftone.gallery.facts import Query
from halftone.gallery.history import History
from halftone.gallery.watched import list_watched, read_shown, thumbnail_of

TEXT = (
    "a red tower <lora:grain:0.6>\nNegative prompt: people\n"
    "Steps: 20, Sampler: Euler, CFG scale: 7, Seed: 42, Size: 64x32, Model: harbor"
)
GRAPH = {
    "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sub/reef.safetensors"}},
    "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "a blue reef", "clip": ["1", 1]}},
    "3": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["1", 1]}},
    "4": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 32, "batch_size": 1}},
    "5": {
        "class_type": "KSampler",
        "inputs": {
            "model": ["1", 0],
            "positive": ["2", 0],
            "negative": ["3", 0],
            "latent_image": ["4", 0],
            "seed": 7,
            "steps": 8,
            "cfg": 5.0,
            "sampler_name": "euler",
            "scheduler": "normal",
            "denoise": 1.0,
        },
    },
    "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
    "7": {"class_type": "SaveImage", "inputs": {"images": ["6", 0]}},
}


def save(path: Path, **chunks: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    info = PngInfo()
    for name, text in chunks.items():
        info.add_itxt(name, text)
    Image.new("RGB", (64, 32), "red").save(path, pnginfo=info)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "outputs"
    save(root / "txt2img" / "2026-01-02" / "a.png", parameters=TEXT)
    save(root / "comfy" / "b.png", prompt=json.dumps(GRAPH))
    save(root / "日记" / "plain.png")
    (root / "broken.png").write_bytes(b"no picture")
    (root / "notes.txt").write_text("red")
    save(root / ".trash" / "gone.png")
    return root


def listed(catalogue: Catalogue, query: Query) -> set[str]:
    return {Path(path).name for path in catalogue.paths([row.id for row in catalogue.rows(query)]).values()}


def test_pictures_are_found_by_what_they_say(folder: Path, tmp_path: Path) -> None:
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        assert list_watched(catalogue, [str(folder)], lambda: False).read == 4
        assert listed(catalogue, Query()) == {"a.png", "b.png", "plain.png", "broken.png"}
        assert listed(catalogue, Query(words="red tower", model="harbor", lora="grain")) == {"a.png"}
        assert listed(catalogue, Query(words="reef 7", model="reef")) == {"b.png"}
        assert listed(catalogue, Query(words="plain")) == {"plain.png"}
        assert listed(catalogue, Query(own=True)) == set()


def test_only_what_changed_is_read_again(folder: Path, tmp_path: Path) -> None:
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        list_watched(catalogue, [str(folder)], lambda: False)
        assert list_watched(catalogue, [str(folder)], lambda: False).read == 0
        save(folder / "comfy" / "b.png", parameters=TEXT)
        os.utime(folder / "comfy" / "b.png", ns=(5, 5))
        (folder / "日记" / "plain.png").unlink()
        assert list_watched(catalogue, [str(folder)], lambda: False).read == 1
        assert listed(catalogue, Query(words="tower")) == {"a.png", "b.png"}
        assert listed(catalogue, Query(words="plain")) == set()


def test_a_picture_that_was_just_written_is_read_again_later(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in folder.rglob("*.png"):
        os.utime(path, ns=(5, 5))
    fresh = folder / "comfy" / "b.png"
    os.utime(fresh)
    looked: list[str] = []
    stat = os.stat

    def counted(path: str | int, *args: object, **options: object) -> os.stat_result:
        looked.append(str(path))
        return stat(path)

    monkeypatch.setattr(os, "stat", counted)
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        found = list_watched(catalogue, [str(folder)], lambda: True)
    assert found.growing == (str(fresh),)
    assert [path for path in looked if path.endswith(".png")] == [], "what the folder's listing told is enough"


def test_a_folder_that_is_away_keeps_its_pictures(folder: Path, tmp_path: Path) -> None:
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        list_watched(catalogue, [str(folder)], lambda: False)
        folder.rename(tmp_path / "away")
        list_watched(catalogue, [str(folder)], lambda: False)
        assert len(catalogue.rows()) == 4
        list_watched(catalogue, [], lambda: False)
        assert catalogue.rows() == []


def test_a_file_that_cannot_be_read_hides_no_other(folder: Path, tmp_path: Path) -> None:
    comfy = folder / "comfy"
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        for number in range(20):
            save(comfy / f"{number}.png")
        list_watched(catalogue, [str(folder)], lambda: False)
        (comfy / "b.png").unlink()
        (comfy / "b.png").symlink_to("b.png")  # no call can follow it
        before = catalogue.columns().ids
        assert list_watched(catalogue, [str(folder)], lambda: False).read == 0
        assert catalogue.columns().ids == before
        for number in range(20):
            (comfy / f"{number}.png").unlink()
        list_watched(catalogue, [str(folder)], lambda: False)
        assert listed(catalogue, Query()) == {"a.png", "b.png", "plain.png", "broken.png"}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="no folder is closed to this user")
def test_a_closed_folder_keeps_its_pictures(folder: Path, tmp_path: Path) -> None:
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        list_watched(catalogue, [str(folder)], lambda: False)
        (folder / "comfy").chmod(0)
        list_watched(catalogue, [str(folder)], lambda: False)
        (folder / "comfy").chmod(0o700)
        assert "b.png" in listed(catalogue, Query())


def test_our_own_pictures_are_listed_once(folder: Path, tmp_path: Path) -> None:
    own = folder / "txt2img" / "2026-01-02" / "a.png"
    with Catalogue(tmp_path / "g.sqlite") as catalogue, History() as history:
        history.add(picture_facts(path=str(own)), PictureRequest(prompt="ours"), b"")
        catalogue.follow(history)
        assert list_watched(catalogue, [str(folder)], lambda: False).read == 3
        assert listed(catalogue, Query(words="ours", own=True)) == {"a.png"}


def test_it_can_be_stopped(folder: Path, tmp_path: Path) -> None:
    with Catalogue(tmp_path / "g.sqlite") as catalogue:
        assert list_watched(catalogue, [str(folder)], lambda: True).read == 0


def test_a_picture_that_cannot_be_read_has_no_size_and_no_thumbnail(folder: Path) -> None:
    path = folder / "broken.png"
    found = read_shown(str(path), path.stat())
    assert (found.width, found.height, found.text.split()) == (0, 0, ["broken.png"])
    with pytest.raises(HalftoneError, match="not a readable picture"):
        thumbnail_of(str(path))


def test_a_thumbnail_keeps_the_shape(tmp_path: Path) -> None:
    Image.new("RGB", (1024, 512), "blue").save(tmp_path / "a.jpg")
    (tmp_path / "a.png").write_bytes(thumbnail_of(str(tmp_path / "a.jpg")))
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (256, 128)
