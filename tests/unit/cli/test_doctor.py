"""`halftone train doctor`: its page, its object, its exit codes, and what it refuses."""

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.helpers.hostile_pickles import MARK, Hostile, hostile
from tests.helpers.run_logs import BAD, diffusers, events, steady

from halftone.cli import main

FP16 = "Mixed precision type: fp16\n"

PICKLES = (
    "optimizer.bin", "scheduler.pt", "random_states_0.pkl", "pytorch_model.bin", "model.ckpt", "training_args.bin", "a.pickle",
    "a.pth", "lora.safetensors", "__0_0.distcp",
)  # fmt: skip
"""Names that trainers give to pickles; the last two are pickles that no ending tells."""


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["train", "doctor", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_page_of_a_bad_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diffusers(tmp_path / "out.log", [*steady(40), BAD], rate=6e-6, head=FP16)
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "lora-step30.safetensors")
    (tmp_path / "optimizer.bin").write_bytes(b"\x80\x04.")
    code, out, err = told(capsys, str(tmp_path))
    said = " ".join(out.split())
    assert (code, err) == (1, "")
    assert "✗ The loss is not finite from step 41 on. out.log, line 5: step_loss = nan" in said
    assert "1 A layer made a number above 65 504, the limit of FP16. (" in said
    assert "+ It was trained in FP16. [out.log, line 1]" in said
    assert "→ Train in BF16" in said
    assert "The last checkpoint without NaN or infinity: lora-step30.safetensors" in said
    assert "1 pickle file (optimizer.bin) not opened" in said
    assert len(out.splitlines()) <= 50


def test_a_page_of_a_sound_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diffusers(tmp_path / "out.log", steady(40))
    code, out, _ = told(capsys, str(tmp_path / "out.log"))
    assert code == 0
    assert out.startswith("✓ The run is sound from step 1 to 40.")


def test_a_page_of_a_run_that_is_worth_a_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.log").write_text("".join(f"step {at} loss: 0.0\n" for at in range(1, 101)))
    code, out, _ = told(capsys, str(tmp_path))
    said = " ".join(out.split())
    assert code == 0
    assert said.startswith(
        "! No number is NaN or infinite from step 1 to 100, but this is worth a look: · The loss is exactly 0 in"
    )
    assert "sound" not in said


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_page_goes_into_a_file_of_few_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    diffusers(tmp_path / "out.log", [*steady(40), BAD], head=FP16)
    page = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(page, encoding=encoding, write_through=True))
    assert main(["train", "doctor", str(tmp_path)]) == 1
    assert page.getvalue().decode(encoding).startswith("? The loss is not finite")


def test_the_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events(tmp_path / "events.out.tfevents.1", [("loss", step, loss) for step, loss in enumerate([*steady(40), BAD], 1)])
    (tmp_path / "accelerate.yaml").write_text("mixed_precision: fp16\n")
    code, out, _ = told(capsys, str(tmp_path), "--json")
    found = json.loads(out)
    assert code == 1
    names = "schema run verdict first troubles causes signs last_sound_checkpoint steps last_loss read notes"
    assert set(found) == set(names.split())
    assert found["first"] == {
        "quantity": "loss",
        "tag": "loss",
        "value": "nan",
        "time": "2023-11-14T22:13:20+00:00",
        "file": "events.out.tfevents.1",
        "line": None,
        "step": 41,
    }
    assert found["causes"][0]["cause"] == "activation-overflow"
    assert set(found["causes"][0]) == {"cause", "message", "points", "for", "against", "remedies"}
    assert found["causes"][0]["remedies"][0]["code"] == "bfloat16"
    assert found["read"]["logs"] == ["events.out.tfevents.1"]


@pytest.mark.parametrize(
    ("made", "code", "sentence"),
    [
        (None, "run-missing", "There is no training run at {path}."),
        ({}, "run-empty", "{path} is empty."),
        ({"notes.txt": b"hello\n"}, "run-silent", "{path} contains no training log. Checked: 1."),
        ({"a.ckpt": b"\x80\x04.", "b.pt": b"PK"}, "run-pickles", "{path} contains only pickle files."),
        ({"a.safetensors": b"no"}, "run-silent", "{path} contains no training log. Checked: 1."),
    ],
)
def test_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, bytes] | None, code: str, sentence: str
) -> None:
    run = tmp_path / "run"
    if made is not None:
        run.mkdir()
        for name, data in made.items():
            (run / name).write_bytes(data)
    left, out, err = told(capsys, str(run), "--json")
    assert left == 2
    assert json.loads(out)["error"]["code"] == code
    assert err.startswith(sentence.format(path=run))


def test_pickles_among_the_checkpoints_are_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, mark = tmp_path / "run", tmp_path / MARK
    for step in (10, 20):
        folder = run / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        save_file({"a": np.ones(2, np.float32)}, folder / f"lora-step{step}.safetensors")
        for name in PICKLES:
            hostile(folder / name, mark, "pickle")
    pickle.loads(pickle.dumps(Hostile(mark))).close()
    assert mark.exists(), "the pickle has to write its mark where somebody opens it"
    mark.unlink()
    code, out, _ = told(capsys, str(run), "--json")
    assert not mark.exists()
    assert code == 0
    assert sorted(json.loads(out)["read"]["pickles"]) == sorted(
        f"checkpoint-{step}/{name}" for step in (10, 20) for name in PICKLES[:-2]
    )


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_alone_is_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    hostile(tmp_path / "run" / name, tmp_path / MARK, "pickle")
    for place in (tmp_path / "run", tmp_path / "run" / name):
        assert told(capsys, str(place))[0] == 2
    assert not (tmp_path / MARK).exists()


def test_an_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.log").touch()
    left, _, err = told(capsys, str(tmp_path / "out.log"))
    assert (left, err.split(".log ")[1][:9]) == (2, "is empty.")


def test_the_group_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    assert "doctor" in capsys.readouterr().out


def test_checkpoints_alone_are_not_called_a_sound_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "lora-step30.safetensors")
    code, out, _ = told(capsys, str(tmp_path))
    assert code == 0
    assert out.startswith("✓ No checkpoint has NaN or infinity; no loss log was found.")


def test_what_would_tell_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The norm of the gradients is not asked for where it is there."""
    entry = '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.4}\n{"step": 3, "loss": NaN'
    for more, advice in (("", "Log the gradient norm"), (', "grad_norm": NaN', "Add its settings and its console output")):
        (tmp_path / "a.jsonl").write_text(f"{entry}{more}}}\n")
        assert advice in " ".join(told(capsys, str(tmp_path))[1].split())
