"""Files and folders that the user has no right to: told as that, and never as damage."""

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.helpers.model_files import ramp, safetensors, write_folder
from tests.helpers.scripted import ScriptedEngine

from halftone.cli import main

SAYS = "Halftone has no permission to read {}. Grant read permission, or copy it elsewhere."


@pytest.fixture
def lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Takes the right to read a file, also from an administrator, for whom the bits of its mode mean nothing."""
    locked: set[str] = set()
    for module in (builtins, io):
        there: Any = module.open

        def opened(file: Any, *rest: Any, _open: Any = there, **more: Any) -> Any:
            if not isinstance(file, int) and os.fsdecode(file) in locked:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(file))
            return _open(file, *rest, **more)

        monkeypatch.setattr(module, "open", opened)

    def locks(path: Path) -> Path:
        locked.add(str(path))
        return path

    return locks


def refused(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["generate", *words], engine=lambda: ScriptedEngine({})) == 2
    return capfd.readouterr().err


@pytest.mark.parametrize("option", ["--image", "--from"])
def test_a_picture(option: str, tmp_path: Path, lock: Callable[[Path], Path], capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sun.png"
    Image.new("RGB", (64, 64)).save(path)
    said = refused(capfd, "a sun", "--model", str(write_folder(tmp_path / "tiny")), option, str(lock(path)))
    assert SAYS.format(path) in said


def test_a_part_of_a_model(tmp_path: Path, lock: Callable[[Path], Path], capfd: pytest.CaptureFixture[str]) -> None:
    model = write_folder(tmp_path / "tiny")
    part = lock(next((model / "unet").glob("*.safetensors")))
    assert SAYS.format(part) in refused(capfd, "a sun", "--model", str(model))


def test_a_lora(tmp_path: Path, lock: Callable[[Path], Path], capfd: pytest.CaptureFixture[str]) -> None:
    lora = tmp_path / "ink.safetensors"
    lora.write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    model = str(write_folder(tmp_path / "tiny"))
    assert SAYS.format(lora) in refused(capfd, "a sun", "--model", model, "--lora", str(lock(lora)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "ink.safetensors is empty. Download the file again."),
        (
            b"hi",
            "ink.safetensors is not a safetensors file: it is a short text file. Choose another file, or download",
        ),
    ],
)
def test_a_lora_of_a_few_bytes(content: bytes, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lora = tmp_path / "ink.safetensors"
    lora.write_bytes(content)
    model = str(write_folder(tmp_path / "tiny"))
    assert said in refused(capfd, "a sun", "--model", model, "--lora", str(lora))


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="a folder in which nobody can make another one")
@pytest.mark.logs("cannot be made|could not be kept")
@pytest.mark.parametrize("words", [("generate", "a sun"), ("check", "pocket"), ("models",), ("devices",)])
def test_the_folder_of_halftone_itself(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HALFTONE_DATA", "/sys/kernel/halftone")
    code = main(list(words), engine=lambda: ScriptedEngine({}))
    said = capfd.readouterr().err
    assert "Errno" not in said
    assert code == 0 or "Halftone cannot write to " in said
