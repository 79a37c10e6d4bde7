import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.model_files import write_folder

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.files.copies import check_copy
from halftone.library.models import describe


def code_of(facts: ModelFacts, output: Path) -> str:
    with pytest.raises(HalftoneError) as caught:
        check_copy(facts, str(output))
    return caught.value.code


def test_a_folder_is_copied_to_a_new_or_empty_folder(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "m")))
    (tmp_path / "empty").mkdir()
    assert check_copy(facts, str(tmp_path / "new")) == tmp_path / "new"
    assert check_copy(facts, str(tmp_path / "empty")) == tmp_path / "empty"
    assert code_of(facts, tmp_path / "m") == "output-exists"
    assert code_of(facts, tmp_path / "no" / "new") == "output-folder-missing"
    (tmp_path / "file").touch()
    assert code_of(facts, tmp_path / "file") == "output-exists"
    assert code_of(facts, tmp_path / "m" / "new") == "output-failed", "the original stays as it is"
    assert code_of(facts, tmp_path / "file" / "new") == "output-not-folder"


def test_room_and_rights_are_looked_at_first(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "m")))
    assert code_of(replace(facts, size_bytes=10**18), tmp_path / "new") == "disk-full"
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "none", disk], capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    try:
        assert code_of(facts, disk / "new") == "output-read-only"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_model_of_several_files_has_no_copy(tmp_path: Path) -> None:
    facts = describe(str(write_folder(tmp_path / "m")))
    several = replace(facts, format="single-file", parts={"vae": "/m/vae.safetensors"})
    assert code_of(several, tmp_path / "new.safetensors") == "repair-several-files"
