"""The hash that A1111 writes for a model, old and new, of the file as it is now."""

import hashlib
from pathlib import Path

from msgspec.structs import replace
from tests.helpers import samples

from halftone.health.pictures.imported_settings import OtherFile, other_file
from halftone.library.files.model_hash import is_hash, model_hash
from halftone.metadata.reading import Parameters

DATA = bytes(range(256)) * 4352  # 64 kB more than the megabyte that the old hash begins at


def never() -> bool:
    return False


def test_both_hashes_are_those_of_a1111_and_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(DATA)
    assert model_hash(str(path), 10, never) == hashlib.sha256(DATA).hexdigest()[:10]
    assert model_hash(str(path), 8, never) == hashlib.sha256(DATA[0x100000:0x110000]).hexdigest()[:8]
    path.write_bytes(DATA + b"more")
    assert model_hash(str(path), 10, never) == hashlib.sha256(DATA + b"more").hexdigest()[:10]
    assert model_hash(str(tmp_path / "none"), 10, never) == model_hash(str(tmp_path), 10, never) == ""


def test_one_that_was_stopped_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(DATA)
    assert model_hash(str(path), 10, lambda: True) == ""
    assert model_hash(str(path), 10, never) != ""


def test_only_hashes_are_compared() -> None:
    assert [is_hash(text) for text in ("1a2b3c4d5e", "1A2B3C4D", "a" * 64, "1a2b3c4d5", "", "nothing hex")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


def test_a_file_of_the_same_name_with_other_contents_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tiny.safetensors"
    path.write_bytes(DATA)
    model = replace(samples.POCKET, id=str(path), name="tiny", path=str(path), format="single-file")
    own = hashlib.sha256(DATA).hexdigest()[:10]
    for fields, told in (
        ({"Model": "tiny", "Model hash": "1a2b3c4d5e"}, OtherFile("tiny", own, "1a2b3c4d5e")),
        ({"Model hash": "1A2B3C4D5E"}, OtherFile("tiny", own, "1a2b3c4d5e")),
        ({"Model": "tiny", "Model hash": own}, None),
        ({"Model": "other", "Model hash": "1a2b3c4d5e"}, None),
        ({"Model": "tiny"}, None),
    ):
        assert other_file(Parameters(fields=fields), model, never) == told
    assert other_file(Parameters(fields={"Model": "tiny", "Model hash": "1a2b3c4d5e"}), samples.POCKET, never) is None
