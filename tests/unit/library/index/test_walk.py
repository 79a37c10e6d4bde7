"""Files are found wherever they lie, once, and nothing ends the walk."""

import os
from pathlib import Path

import pytest
from tests.helpers.model_files import write_folder, write_json

from halftone.contract.request import model_stem
from halftone.library.index.entries import read
from halftone.library.index.walk import Walk, stem_of


@pytest.fixture(autouse=True, params=[False, True])
def every_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows cannot list a folder by its number."""
    if request.param:
        monkeypatch.setattr("halftone.library.index.walk._BY_NUMBER", False)


def made(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found(*roots: Path) -> list[str]:
    walk = Walk(map(str, roots))
    return [file.path for root in roots for file in walk.files(str(root))]


def test_every_kind_of_file_at_any_depth_and_in_any_script(tmp_path: Path) -> None:
    names = [
        "a.safetensors",
        "b.SFT",
        "c.gguf",
        "d.ckpt",
        "e.pt",
        "深/层/模型.safetensors",
        "à/ü/ñ.safetensors",
        "1/2/3/4/5/6/7/f.safetensors",
    ]
    wanted = {str(made(tmp_path / name)) for name in names}
    made(tmp_path / "notes.txt")
    made(tmp_path / "no_ending")
    assert set(found(tmp_path)) == wanted


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.safetensors"
    Path(os.fsdecode(path)).write_bytes(b"x")
    assert [os.fsencode(one) for one in found(tmp_path)] == [path]


def test_a_file_is_listed_with_what_describes_it(tmp_path: Path) -> None:
    made(tmp_path / "a.b.safetensors")
    for name in ("a.b.preview.png", "a.b.civitai.info", "a.b.json", "a.png", "other.json"):
        made(tmp_path / name)
    (only,) = Walk([str(tmp_path)]).files(str(tmp_path))
    assert only.beside == ("a.b.civitai.info", "a.b.json", "a.b.preview.png")


def test_a_link_that_leads_nowhere_hides_no_model(tmp_path: Path) -> None:
    wanted = made(tmp_path / "a.safetensors")
    (tmp_path / "a.preview.png").symlink_to(tmp_path / "gone.png")
    (only,) = Walk([str(tmp_path)]).files(str(tmp_path))
    assert (only.path, only.beside) == (str(wanted), ())


def test_a_root_may_be_one_file(tmp_path: Path) -> None:
    wanted = made(tmp_path / "a.safetensors")
    made(tmp_path / "b.safetensors")
    made(tmp_path / "a.json")
    (only,) = Walk([str(wanted)]).files(str(wanted))
    assert (only.path, only.beside) == (str(wanted), ("a.json",))


def test_of_a_training_only_its_loras_are_listed(tmp_path: Path) -> None:
    run = tmp_path / "lora"
    (run / "cache" / "latents").mkdir(parents=True)
    for name in ("cache/latents/0e71.safetensors", "state.safetensors", "lora-000100.safetensors"):
        (run / name).write_bytes(b"1")
    (run / "run.json").write_text("{}")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mine.safetensors").write_bytes(b"1")
    found = [Path(one.path).relative_to(tmp_path).as_posix() for one in Walk([str(tmp_path)]).files(str(tmp_path))]
    assert sorted(found) == ["cache/mine.safetensors", "lora/lora-000100.safetensors"]


def test_a_folder_may_be_named_like_a_file(tmp_path: Path) -> None:
    wanted = str(made(tmp_path / "v1.5.safetensors" / "a.safetensors"))
    assert found(tmp_path) == [wanted]


@pytest.mark.parametrize(
    ("name", "stem"), [("a.safetensors", "a"), ("v1.5.json", "v1.5"), ("x.cm-info.json", "x"), (".preview.png", ".preview")]
)
def test_what_files_of_one_model_have_in_common(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_the_stamp_changes_with_the_file_and_with_what_is_beside_it(tmp_path: Path) -> None:
    model, note = made(tmp_path / "a.safetensors"), made(tmp_path / "a.json")
    stamps: set[int] = set()

    def look() -> None:
        (only,) = Walk([str(tmp_path)]).files(str(tmp_path))
        stamps.add(only.stamp)

    look()
    model.write_bytes(b"xy")
    look()
    note.write_bytes(b"xyz")
    look()
    os.utime(model, ns=(1, 1))
    look()
    made(tmp_path / "a.preview.png")
    look()
    assert len(stamps) == 5
    look()
    assert len(stamps) == 5


def test_a_folder_of_diffusers_is_one_entry(tmp_path: Path) -> None:
    write_folder(tmp_path / "models--org--name" / "snapshots" / "0123abc")
    made(tmp_path / "models--org--name" / "blobs" / "weights.safetensors")
    before = list(Walk([str(tmp_path)]).files(str(tmp_path)))
    assert [file.path for file in before] == [str(tmp_path / "models--org--name" / "snapshots" / "0123abc")]
    unet = next((tmp_path / "models--org--name").rglob("unet/*.safetensors"))
    os.utime(unet, ns=(1, 1))
    assert [file.stamp for file in Walk([str(tmp_path)]).files(str(tmp_path))] != [before[0].stamp]


def test_a_hub_cache_lists_repositories_and_each_blob_once(tmp_path: Path) -> None:
    many, alone = tmp_path / "models--org--name", tmp_path / "models--org--one" / "snapshots" / "0123abcdef"
    write_folder(alone)
    (first,) = Walk([str(tmp_path)]).files(str(tmp_path))
    assert (read(first).entry.name, model_stem(first.path)) == ("org/one", "org/one")
    before = first.stamp
    write_folder(alone.with_name("fedcba9876"))
    both = list(Walk([str(tmp_path)]).files(str(tmp_path)))
    assert sorted(read(one).entry.name for one in both) == ["org/one@0123abc", "org/one@fedcba9"]
    assert before not in [one.stamp for one in both]
    blob = made(many / "blobs" / "d1ce")
    for commit in ("aaaaaaaa", "bbbbbbbb"):
        link = many / "snapshots" / commit / "sub" / "lora.safetensors"
        link.parent.mkdir(parents=True)
        link.symlink_to(blob)
    assert sum(path.endswith("lora.safetensors") for path in found(tmp_path)) == 1


def test_a_folder_of_one_part_is_one_entry(tmp_path: Path) -> None:
    made(tmp_path / "canny" / "diffusion_pytorch_model.safetensors")
    write_json(tmp_path / "canny" / "config.json", {"_class_name": "ControlNetModel"})
    assert found(tmp_path) == [str(tmp_path / "canny")]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    wanted = str(made(tmp_path / "in" / "a.safetensors"))
    (tmp_path / "in" / "back").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "in" / "self").symlink_to(tmp_path / "in", target_is_directory=True)
    (tmp_path / "in" / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "in" / "round.safetensors").symlink_to(tmp_path / "in" / "round.safetensors")
    assert found(tmp_path) == [wanted]


def test_a_link_to_another_folder_is_followed_once(tmp_path: Path) -> None:
    made(tmp_path / "elsewhere" / "b.safetensors")
    root = tmp_path / "root"
    root.mkdir()
    for name in ("one", "two"):
        (root / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (only,) = found(root)
    assert only.endswith("b.safetensors")
    assert len(found(root, tmp_path / "elsewhere")) == 1


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="no folder is closed to this user")
def test_a_closed_folder_is_named(tmp_path: Path) -> None:
    wanted = str(made(tmp_path / "open" / "a.safetensors"))
    made(tmp_path / "closed" / "b.safetensors")
    (tmp_path / "closed").chmod(0)
    walk = Walk([str(tmp_path)])
    assert [file.path for file in walk.files(str(tmp_path))] == [wanted]
    assert walk.closed == [str(tmp_path / "closed")]
    (tmp_path / "closed").chmod(0o700)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_a_pipe_with_the_name_of_a_model_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.safetensors")
    assert found(tmp_path) == []
