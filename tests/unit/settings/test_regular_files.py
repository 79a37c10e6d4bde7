"""Only regular files are opened: a pipe or a device among a user's files stops nothing, and is told as what it is."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.model_files import write_folder
from tests.helpers.scripted import ScriptedEngine

from halftone.cli import main
from halftone.contract.errors import HalftoneError
from halftone.library.models import describe, list_models
from halftone.library.prompts.styles import read_styles
from halftone.library.prompts.wildcards import Book
from halftone.metadata.picture import check_picture
from halftone.settings.regular_files import NotRegularError, open_regular, read_json_bytes, read_text
from halftone.settings.store import load, load_with_problems, save

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files in its folders")
BOM = b"\xef\xbb\xbf"


def a_socket(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.close()


@posix
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "it is a named pipe, not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
        (a_socket, "it is a socket, not a file"),
    ],
)
def test_what_is_no_file_is_not_opened(
    make: Callable[[Path], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(Path("a"))
    with pytest.raises(NotRegularError) as caught:
        open_regular("a")
    assert caught.value.strerror == said


def test_a_folder_and_a_missing_file_are_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(BOM + "ä".encode())
    assert read_text(path) == "ä"
    path.write_bytes(BOM + b"{}")
    assert read_json_bytes(path) == b"{}"


def test_settings_styles_and_models_may_begin_with_a_byte_order_mark(tmp_path: Path, own_data: Path) -> None:
    place = own_data / "settings.toml"
    place.write_bytes(BOM + b'# mine\n[appearance]\ntheme = "dark"\n')
    found = load_with_problems()
    assert (found.problems, found.settings.theme) == ((), "dark")
    save(found.settings)
    assert "# mine" in place.read_text("utf-8")
    styles = tmp_path / "styles.csv"
    styles.write_bytes(BOM + b"name,prompt\nink,an ink drawing\n")
    assert [style.name for style in read_styles(styles).styles] == ["ink"]
    (tmp_path / "colour.txt").write_bytes(BOM + b"red\n")
    assert Book((str(tmp_path),)).lines("colour") == ((1.0, ("red",)),)
    model = write_folder(tmp_path / "model")
    index = model / "model_index.json"
    index.write_bytes(BOM + index.read_bytes())
    assert describe(str(model)).format == "diffusers"


@posix
def test_pipes_among_wildcards_styles_settings_models_and_pictures_do_not_hang(tmp_path: Path, own_data: Path) -> None:
    for name in ("colour.txt", "styles.csv", "a.safetensors", "a.gguf", "a.png"):
        os.mkfifo(tmp_path / name)
    os.mkfifo(own_data / "settings.toml")
    assert "it is a named pipe, not a file" in str(load_with_problems().problems[0])
    for work in (
        lambda: Book((str(tmp_path),)).lines("colour"),
        lambda: read_styles(tmp_path / "styles.csv"),
        lambda: describe(str(tmp_path / "a.safetensors")),
        lambda: describe(str(tmp_path / "a.gguf")),
        lambda: check_picture(tmp_path / "a.png"),
    ):
        with pytest.raises(HalftoneError):
            work()
    assert [facts.id for facts in list_models([str(tmp_path)])] == ["pocket"]


CLOSED = """
import contextlib, io, logging.handlers, os, shutil, sys, tempfile
from halftone.cli import main
data = os.environ["HALFTONE_DATA"]
with tempfile.TemporaryDirectory() as other, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    os.environ["HALFTONE_DATA"] = shutil.copy(data + "/settings.toml", other) and other
    main(["models"])  # all that it imports: another user may not reach the libraries
os.environ["HALFTONE_DATA"] = data
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
sys.exit(main(["models"]))
"""


@posix
def test_a_folder_that_is_closed_to_us_is_left_out_and_named(tmp_path: Path, own_data: Path) -> None:
    """Runs as another user where the tests run as root, for whom no folder is closed."""
    from tests.process.test_command_line import process

    models, other = tmp_path / "models", tmp_path / "other"
    write_folder(models / "sound")
    (other / "inside").mkdir(parents=True)
    (models / "theirs").symlink_to(other / "inside")
    (models / "closed").mkdir()
    (own_data / "settings.toml").write_text(f"[folders]\nmodels = [{json.dumps(str(models))}]\n")
    reachable = [own_data, *own_data.parents, *tmp_path.parents, tmp_path, *models.rglob("*")]
    before = {path: path.stat().st_mode for path in reachable if path.stat().st_uid == os.getuid() and path != Path("/")}
    for path, mode in before.items():
        path.chmod(mode | 0o055 | (0o022 if path == own_data else 0))
    for path in (models / "closed", other):
        path.chmod(0)
    try:
        job = process(CLOSED)
        out, err = job.communicate(timeout=60)
    finally:
        for path, mode in {**before, other: 0o700, models / "closed": 0o700}.items():
            path.chmod(mode)
    assert job.returncode == 0, err
    assert f"{models / 'sound'}\n" in out
    left = [line for line in err.splitlines() if "cannot be read and was left out" in line]
    assert [line.split(" cannot")[0] for line in left] == [str(models / "closed"), str(models / "theirs")]


@pytest.mark.logs("cannot be read")
def test_settings_that_cannot_be_read_end_no_command(own_data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (own_data / "settings.toml").mkdir()
    assert main(["models"], engine=lambda: ScriptedEngine({})) == 0
    assert load() == load_with_problems().settings
    assert "Traceback" not in capfd.readouterr().err
