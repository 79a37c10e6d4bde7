"""Runs that were broken off are found by what they left; finished and damaged ones are none."""

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.training import TrainConfig
from halftone.library.training_data.training_runs import broken_off, unfinished


def broken_run(output: Path, config: TrainConfig, step: int) -> Path:
    """As the trainer leaves one."""
    folder = output / config.name
    folder.mkdir()
    run = {"config": msgspec.to_builtins(config), "model": "m", "pictures": {}, "file": f"{config.name}.safetensors"}
    (folder / "run.json").write_text(json.dumps(run), "utf-8")
    note = {"step": step, "model": "m", "dtype": "float16"}
    (folder / "state.safetensors").write_bytes(state(note))
    return folder


def state(note: Mapping[str, object]) -> bytes:
    header = json.dumps({"__metadata__": {"halftone.training": json.dumps(note)}}).encode()
    return len(header).to_bytes(8, "little") + header


def test_a_broken_run_is_found_with_its_step_and_settings(tmp_path: Path) -> None:
    folder = broken_run(tmp_path, samples.TRAIN, 7)
    (found,) = unfinished(str(tmp_path))
    assert (found.folder, found.config, found.step) == (str(folder), samples.TRAIN, 7)


def test_one_that_has_its_lora_was_kept(tmp_path: Path) -> None:
    broken_run(tmp_path, samples.TRAIN, 7)
    assert [run.kept for run in unfinished(str(tmp_path))] == [False]
    assert broken_off(str(tmp_path)) == unfinished(str(tmp_path))
    (tmp_path / f"{samples.TRAIN.name}.safetensors").touch()
    assert [run.kept for run in unfinished(str(tmp_path))] == [True]
    assert broken_off(str(tmp_path)) == ()


def test_one_that_came_to_its_last_step_is_none(tmp_path: Path) -> None:
    broken_run(tmp_path, samples.TRAIN, samples.TRAIN.steps)
    assert unfinished(str(tmp_path)) == ()


@pytest.mark.parametrize("damage", ["run.json", "state.safetensors"])
def test_a_damaged_one_is_none(tmp_path: Path, damage: str) -> None:
    folder = broken_run(tmp_path, samples.TRAIN, 7)
    (folder / damage).write_bytes(b"{")
    assert unfinished(str(tmp_path)) == ()


def test_no_folder_no_runs(tmp_path: Path) -> None:
    assert unfinished(str(tmp_path / "none")) == ()
