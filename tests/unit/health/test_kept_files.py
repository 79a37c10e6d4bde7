"""What kept latents of somebody else name is read only where the user's own folders lie; nothing on a network is touched."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.helpers.kept import ASKED, write_kept
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import HalftoneError
from halftone.health.pictures.unfinished_files import check_named_files
from halftone.health.pictures.unfinished_pictures import RECORD, read_kept
from halftone.settings.store import Settings

FAR = [
    r"\\server\share\a.safetensors",
    "//server/share/a.safetensors",
    r"\/server\share\a.safetensors",
    r"\\?\UNC\server\share\a.safetensors",
    r"\\.\pipe\a",
]


def check(tmp_path: Path, file: str, folders: tuple[str, ...]) -> None:
    path = write_kept(tmp_path / "elsewhere.safetensors", request=replace(ASKED, vae=file))
    check_named_files(read_kept(path), path, Settings(model_folders=folders), "pocket")


@pytest.mark.parametrize("file", FAR)
def test_a_file_on_a_network_is_refused_before_anything_looks_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(tmp_path)  # elsewhere than on Windows such a name is a file here
    with pytest.raises(HalftoneError) as caught:
        check(tmp_path, file, (str(tmp_path),))
    assert (caught.value.code, caught.value.facts["file"]) == ("latents-strange-file", file)


@pytest.mark.parametrize("file", [r"\\nas\Models\vae\a.safetensors", "//nas/models/vae/a.safetensors"])
def test_a_share_that_the_user_gave_to_halftone_is_read(tmp_path: Path, file: str) -> None:
    check(tmp_path, file, (r"\\nas\models",))
    with pytest.raises(HalftoneError):
        check(tmp_path, file, (r"\\nas\other",))


@pytest.mark.parametrize("file", [r"\\nas\models\sd\..\..\a.safetensors", "//nas/models/sd/../a.safetensors"])
def test_a_name_on_a_share_that_leads_out_of_the_folder_again_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(HalftoneError):
        check(tmp_path, file, (r"\\nas\models\sd",))


def test_a_file_below_a_folder_of_the_settings_is_read(tmp_path: Path) -> None:
    check(tmp_path, str(tmp_path / "models" / "a.safetensors"), (str(tmp_path / "models"),))
    with pytest.raises(HalftoneError):
        check(tmp_path, str(tmp_path / "models" / ".." / "a.safetensors"), (str(tmp_path / "models"),))


def test_latents_of_an_earlier_version_are_read_with_their_sentences(tmp_path: Path) -> None:
    kept = read_kept(write_kept(tmp_path / "now.safetensors"))
    record = msgspec.to_builtins(kept)
    record["request"]["reasons"] = ["Seed 7: drawn at random."]
    path = tmp_path / "then.safetensors"
    path.write_bytes(safetensors({"latents": ramp(1, 4, 6, 8)}, {RECORD: msgspec.json.encode(record).decode()}))
    found = read_kept(path)
    assert list(map(str, found.request.reasons)) == ["Seed 7: drawn at random."]
    assert replace(found.request, reasons=()) == replace(kept.request, reasons=())
