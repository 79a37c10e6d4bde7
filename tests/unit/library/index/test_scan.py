"""The index follows the folders: what is new, changed, gone, away or damaged."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers.headers import header, write_sparse
from tests.helpers.model_files import write_folder

from halftone.contract.errors import sentence
from halftone.library.index.entries import Entry
from halftone.library.index.hashing import file_hashes, hash_files
from halftone.library.index.scan import outermost, scan
from halftone.library.index.store import Index
from halftone.library.index.weights import weights_of

_LAYER = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"
LORA = header(f"{_LAYER}.lora_down.weight[8,768]", f"{_LAYER}.lora_up.weight[320,8]")
EMBEDDING = header("emb_params[2,768]")


def listed(index: Index, *roots: Path) -> dict[str, Entry]:
    return {Path(entry.path).name: entry for entry in index.entries(outermost(list(map(str, roots))))}


def library(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    write_sparse(root / "style.safetensors", LORA)
    write_sparse(root / "word.safetensors", EMBEDDING)
    write_folder(root / "whole")
    (root / "old.ckpt").write_bytes(b"\x80\x02")
    (root / "broken.safetensors").write_bytes(b"abc")
    return root


def test_a_first_scan_recognises_everything_there_is(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    (root / "page.pt").write_bytes(b"<!doctype html>")
    with Index(tmp_path / "index.sqlite") as index:
        (found,) = scan(index, [str(root)])
        entries = listed(index, root)
    assert (found.files, found.read, found.gone, found.offline) == (6, 6, 0, False)
    assert {name: entry.kind for name, entry in entries.items()} == {
        "style.safetensors": "LoRA",
        "word.safetensors": "embedding",
        "whole": "checkpoint",
        "old.ckpt": "unknown",
        "broken.safetensors": "unknown",
        "page.pt": "unknown",
    }
    assert entries["style.safetensors"].family == "Stable Diffusion 1.x"
    assert entries["style.safetensors"].rank == 8
    assert entries["old.ckpt"].pickle
    assert (error := entries["broken.safetensors"].error) is not None
    assert error.code == "not-safetensors"
    assert (error := entries["page.pt"].error) is not None
    assert "it is a web page" in sentence(error)
    assert not entries["page.pt"].pickle


def test_a_second_scan_reads_only_what_changed(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(root)])
        assert scan(index, [str(root)])[0].read == 0
        write_sparse(root / "style.safetensors", EMBEDDING)
        (root / "word.safetensors").unlink()
        write_sparse(root / "new.safetensors", LORA)
        (found,) = scan(index, [str(root)])
        entries = listed(index, root)
    assert (found.files, found.read, found.gone) == (5, 2, 1)
    assert entries["style.safetensors"].kind == "embedding"
    assert "word.safetensors" not in entries
    assert entries["new.safetensors"].kind == "LoRA"


def test_a_drive_that_is_away_loses_nothing(tmp_path: Path) -> None:
    root = library(tmp_path / "drive")
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(root)])
        root.rename(tmp_path / "away")
        (found,) = scan(index, [str(root)])
        assert (found.offline, found.files, len(listed(index, root))) == (True, 5, 5)
        (tmp_path / "away").rename(root)
        assert scan(index, [str(root)])[0].read == 0


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="no folder is closed to this user")
def test_a_closed_folder_keeps_its_files(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    library(root / "inner")
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(root)])
        (root / "inner").chmod(0)
        (found,) = scan(index, [str(root)])
        (root / "inner").chmod(0o700)
        assert (found.gone, found.closed) == (0, (str(root / "inner"),))


def test_a_scan_leaves_the_folders_of_another_program(tmp_path: Path) -> None:
    one, two = library(tmp_path / "one"), library(tmp_path / "two")
    with Index(tmp_path / "index.sqlite") as window, Index(tmp_path / "index.sqlite") as other:
        scan(window, [str(one), str(two)])
        scan(other, [str(two)])
        assert len(listed(window, one)) == 5


def test_a_folder_that_is_no_longer_watched_is_forgotten(tmp_path: Path) -> None:
    one, two = library(tmp_path / "one"), library(tmp_path / "two")
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(one), str(two)])
        index.forget([str(one)])
        assert listed(index, one) == {}
        assert len(listed(index, two)) == 5


def test_a_folder_inside_another_is_scanned_once(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    library(root / "inner")
    assert outermost([str(root / "inner"), str(root), str(root)]) == (str(root),)
    with Index(tmp_path / "index.sqlite") as index:
        (found,) = scan(index, [str(root / "inner"), str(root)])
    assert found.files == 10


def test_a_large_library_is_read_by_several_processes(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    content = write_sparse(root / "0.safetensors", EMBEDDING).read_bytes()
    for number in range(1, 500):
        (root / f"{number}.safetensors").write_bytes(content)
    told: list[tuple[int, int]] = []
    with Index(tmp_path / "index.sqlite") as index:
        (found,) = scan(index, [str(root)], lambda _root, done, of: told.append((done, of)))
        assert len(listed(index, root)) == found.files == 505
    assert told[0] == (0, 505)
    assert told[-1] == (505, 505)
    assert told == sorted(told)


@pytest.mark.logs("was damaged")
def test_the_index_is_made_again_when_it_is_damaged(tmp_path: Path) -> None:
    root, path = library(tmp_path / "models"), tmp_path / "index.sqlite"
    path.write_bytes(b"this is no database, but it is long enough to look like one" * 100)
    with Index(path) as index:
        assert scan(index, [str(root)])[0].read == 5


def test_an_index_of_another_version_is_made_again(tmp_path: Path) -> None:
    root, path = library(tmp_path / "models"), tmp_path / "index.sqlite"
    with Index(path) as index:
        scan(index, [str(root)])
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 999")
    database.close()
    with Index(path) as index:
        assert scan(index, [str(root)])[0].read == 5


def test_what_was_read_of_whole_files_outlives_the_version(tmp_path: Path) -> None:
    root, path = tmp_path / "models", tmp_path / "index.sqlite"
    root.mkdir()
    file = str(write_sparse(root / "a.safetensors", LORA))
    with Index(path) as index:
        scan(index, [str(root)])
        hash_files(index, lambda: False)
        index.keep_weights(file, lambda: weights_of(file, lambda _done, _of: None))
        hashes, weights = index.hashes(), index.weights()
        assert hashes.keys() == weights.keys() == {file}
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 999")
    with Index(path) as index:
        scan(index, [str(root)])
        assert (index.hashes(), index.weights()) == (hashes, weights)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE health SET weights = x'90'")
    with Index(path) as index:
        assert index.weights() == {}


def test_nothing_is_written_beside_the_models(tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(root)])
        hash_files(index, lambda: False)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_files_are_hashed_once_and_again_when_they_change(tmp_path: Path) -> None:
    root = tmp_path / "models"
    root.mkdir()
    write_sparse(root / "a.safetensors", LORA)
    shutil.copy(root / "a.safetensors", root / "copy.safetensors")
    with Index(tmp_path / "index.sqlite") as index:
        scan(index, [str(root)])
        assert hash_files(index, lambda: False) == 2
        assert hash_files(index, lambda: False) == 0
        hashes = index.hashes()
        assert hashes[str(root / "a.safetensors")] == hashes[str(root / "copy.safetensors")]
        write_sparse(root / "a.safetensors", EMBEDDING)
        scan(index, [str(root)])
        assert str(root / "a.safetensors") not in index.hashes()
        assert hash_files(index, lambda: True) == 0
        assert hash_files(index, lambda: False) == 1


def test_the_hash_of_the_weights_stays_when_only_the_header_changes(tmp_path: Path) -> None:
    plain = write_sparse(tmp_path / "a.safetensors", EMBEDDING)
    noted = write_sparse(tmp_path / "b.safetensors", header("emb_params[2,768]", metadata={"title": "another"}))
    first, second = file_hashes(str(plain)), file_hashes(str(noted))
    assert first is not None
    assert second is not None
    assert first.sha256 != second.sha256
    assert first.weights == second.weights
