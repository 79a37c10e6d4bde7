"""Names and metadata reach the terminal without their escape signs."""

import io
from pathlib import Path

import pytest
from rich.text import Text
from tests.helpers.model_files import write_folder
from tests.helpers.scripted import Picture, ScriptedEngine, Steps

from halftone.cli import main
from halftone.cli.terminal.console import HarmlessConsole
from halftone.settings.store import load, save

EVIL = "\x1b]0;owned\x07\x1b[2Jsun\u202egnp"


def test_a_model_with_escape_signs_in_its_name_is_listed_and_used(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import msgspec

    model = write_folder(tmp_path / EVIL)
    save(msgspec.structs.replace(load(), model_folders=(str(tmp_path),)))
    engine = ScriptedEngine({"generate": [Steps(), Picture(path=str(tmp_path / f"{EVIL}.png"))]})
    assert main(["models"], engine=lambda: engine) == 0
    assert main(["generate", "a sun", "-m", str(model), "--precision", "fp16"], engine=lambda: engine) == 0
    assert main(["check", str(tmp_path / f"{EVIL}.ckpt")], engine=lambda: engine) == 2
    shown = "".join(capfd.readouterr())
    assert "sun\ufffdgnp" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_a_console_keeps_its_own_colours() -> None:
    out = io.StringIO()
    console = HarmlessConsole(file=out, force_terminal=True, color_system="standard")
    console.print(Text(f"a {EVIL}", style="red"))
    shown = out.getvalue()
    assert shown.startswith("\x1b[31ma ")
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
