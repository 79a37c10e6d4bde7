"""Plain text as trainers print it: what of it is understood."""

import json
import math
from pathlib import Path

import pytest
from tests.helpers.run_logs import BAD, diffusers, kohya, steady

from halftone.library.run_logs.folder import Run, read_run
from halftone.library.run_logs.series import Track, quantity_of


def track(run: Run, tag: str) -> Track:
    (found,) = [one for one in run.tracks if one.tag == tag]
    return found


def written(folder: Path, text: str | bytes, name: str = "train.log") -> Run:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return read_run(folder)


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("loss", "loss"),
        ("avr_loss", "loss"),
        ("loss/average", "loss"),
        ("step_loss", "loss"),
        ("train_loss", "loss"),
        ("mseloss", "loss"),
        ("loss/validation/step_current", "validation"),
        ("eval_loss", "validation"),
        ("Val Loss", "validation"),
        ("grad_norm", "gradient"),
        ("Grad Norm", "gradient"),
        ("norm/avg_grad_norm", "gradient"),
        ("gnorm", "gradient"),
        ("lr", "rate"),
        ("lr-AdamW", "rate"),
        ("lr/unet", "rate"),
        ("lr/d*lr/unet", "rate"),
        ("LearningRate", "rate"),
        ("learning_rate", "rate"),
        ("loss_scale", "scale"),
        ("Fp16 Grad Scale", "scale"),
        ("log_scale", "scale"),
        ("max_grad_norm", None),
        ("lr_scheduler", None),
        ("lr_warmup_steps", None),
        ("prior_loss_weight", None),
        ("loss_type", None),
        ("glossy", None),
        ("guidance_scale", None),
        ("scale", None),
        ("time", None),
        ("color", None),
    ],
)
def test_names(name: str, quantity: str | None) -> None:
    assert quantity_of(name) == quantity


@pytest.mark.parametrize(
    ("line", "step", "numbers"),
    [
        (
            "2024-12-01 - Sana - INFO - Epoch: 1 | Global Step: 20 | Local Step: 20 // 12345, total_eta: 12:00:00, "
            "epoch_eta:1:00, time: all:1.230, model:0.9, lr:6.000e-06s:(32, 32), loss:nan, grad_norm:0.4321",
            20,
            {"lr": 6e-6, "loss": BAD, "grad_norm": 0.4321},
        ),
        (
            "Training: 2023-03-14 09:08:43,293-Speed 2178.40 samples/sec   Loss nan   LearningRate 0.001000   Epoch: 0   "
            "Global Step: 20   Fp16 Grad Scale:  0   Required: 194 hours",
            20,
            {"Loss": BAD, "LearningRate": 0.001, "Fp16 Grad Scale": 0},
        ),
        (
            "2020-07-24 22:51:56,873 - mmseg - INFO - Iter [6600/40000]\tlr: 8.517e-03, eta: 10:46:15, time: 1.139, "
            "memory: 6840, loss: inf, grad_norm: nan",
            6600,
            {"lr": 8.517e-3, "loss": math.inf, "grad_norm": BAD},
        ),
        ("I0820 22:24:28 9094 solver.cpp:338] Iteration 50 (1.98 iter/s, 5.0s/10 iter), loss = -nan", 50, {"loss": BAD}),
        ("Epoch 1:  50%|█████     | 5/10 [00:00<00:00, 12.00it/s, v_num=0, train_loss=nan.0]", 15, {"train_loss": BAD}),
        ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4.5e-05, 'epoch': 0.1, 'step': 7}", 7, {"loss": 0, "grad_norm": BAD}),
        ("step 12: loss=1.#QNAN", 12, {"loss": BAD}),
        ("Step 7 | Train Loss: 0.5 | Val Loss: nan | LR: 0.001", 7, {"Train Loss": 0.5, "Val Loss": BAD, "LR": 0.001}),
        ("step 12: loss=-nan(ind) lr=1e-4", 12, {"loss": BAD, "lr": 1e-4}),
        ("iter: 3, loss: tensor(0.25, device='cuda:0')", 3, {"loss": 0.25}),
        ("\x1b[32mstep\x1b[0m 4 | \x1b[1mloss\x1b[0m: 0.5", 4, {"loss": 0.5}),
        (
            '12: {"time": {"step": 0.9}, "loss": {"loss": NaN, "kl": 0.1}, "status": {"lr": 1e-4}, "log_scale": 20.0}',
            12,
            {"loss/loss": BAD, "loss/kl": 0.1, "status/lr": 1e-4, "log_scale": 2.0**20},
        ),
        ('{"_step": 3, "_timestamp": 1700000000.5, "train/loss": "NaN", "scale": 65536}', 3, {"train/loss": BAD, "scale": 65536}),
    ],
)
def test_one_line_of_many_programs(tmp_path: Path, line: str, step: int, numbers: dict[str, float]) -> None:
    run = written(tmp_path, line + "\n")
    for tag, value in numbers.items():
        (point,) = [track(run, tag)[0]]
        assert (point.step, point.line) == (step, 1)
        assert point.value == value or (math.isnan(point.value) and math.isnan(value))


@pytest.mark.parametrize(
    "line",
    [
        "learning_rate: 1e-4",
        "  --lr 1e-4 --max_grad_norm 1.0",
        "a glossy photo, 35mm, step by step",
        "total_eta: 12:00:00, nan, inf",
        "guidance_scale: 7.5",
        "lr_scheduler: cosine",
    ],
)
def test_what_is_no_number_of_training(tmp_path: Path, line: str) -> None:
    assert written(tmp_path, line + "\n").tracks == ()


def test_a_bar_of_kohya(tmp_path: Path) -> None:
    kohya(tmp_path / "out.log", [0.1, 0.2, BAD, BAD], between={2: "saving checkpoint: /x/last.safetensors"})
    run = read_run(tmp_path)
    loss = track(run, "avr_loss")
    assert list(loss.steps) == [1, 2, 3, 4]
    assert loss.values[:2].tolist() == pytest.approx([0.1, 0.15])
    assert all(map(math.isnan, loss.values[2:]))
    assert loss.averaged
    (saved,) = run.happenings
    assert (saved.kind, saved.step) == ("checkpoint", 2)


def test_a_bar_of_diffusers_among_other_bars(tmp_path: Path) -> None:
    """The bar of a validation's own steps has no say in the steps of the training."""
    inner = "Running validation... \n Generating 4 images\n  100%|██████████| 50/50 [00:03<00:00, 15.1it/s]"
    diffusers(tmp_path / "out.log", [0.1, BAD], between={1: inner})
    run = read_run(tmp_path)
    assert list(track(run, "step_loss").steps) == [1, 2]
    assert {(one.kind, one.step) for one in run.happenings} == {("validation", 1)}


def test_numbers_without_a_step_go_by_the_bar_before(tmp_path: Path) -> None:
    text = (
        " 50%|█████     | 50/100 [00:10<00:10,  5.0it/s]{'loss': 0.4, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
    )
    loss = track(written(tmp_path, text), "loss")
    assert (loss.steps[0], loss.values[0]) == (50, 0.4)


def test_numbers_without_any_step_are_counted(tmp_path: Path) -> None:
    loss = track(written(tmp_path, "loss: 0.5\nloss: 0.25\nloss: nan\n"), "loss")
    assert list(loss.steps) == [1, 2, 3]
    assert list(loss.lines) == [1, 2, 3]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp932", "latin-1"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    """PowerShell redirects into UTF-16; a Japanese or German console writes its own."""
    head = {"latin-1": "Größe", "cp932": "学習開始"}.get(encoding, "学習開始 Größe")
    text = f"{head}\r\nstep 1 loss=0.5\r\nstep 2 loss=nan\r\n"
    loss = track(written(tmp_path, text.encode(encoding)), "loss")
    assert list(loss.lines) == [2, 3]
    assert math.isnan(loss.values[1])


def test_lines_are_told_apart_in_a_very_long_one(tmp_path: Path) -> None:
    text = "x" * 300_000 + "\nstep 5 loss=nan\n"
    loss = track(written(tmp_path, text), "loss")
    assert (loss.steps[0], loss.lines[0]) == (5, 2)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Resuming from checkpoint checkpoint-500", "resume"),
        ("INFO - Loading states from /x/checkpoint-500", "resume"),
        ("Restoring states from the checkpoint path at /x/a.ckpt", "resume"),
        ("resume training from local state: /x", "resume"),
        ("Checkpoint 'latest' does not exist. Starting a new training run.", None),
        ("Running validation... ", "validation"),
        ("generating sample images at step / サンプル画像生成 ステップ: 100", "validation"),
        ("***** Running Evaluation *****", "validation"),
        ("Validation DataLoader 0: 100%|██████████| 5/5 [00:00<00:00]", "validation"),
        ("  num validation images * repeats: 0", None),
        ("Saved state to /x/checkpoint-500", "checkpoint"),
        ("saving checkpoint: /x/a-000001.safetensors", "checkpoint"),
        ("removing old checkpoint: /x/a-000001.safetensors", None),
        ("RuntimeError: NaN detected in latents: /data/1.png", "nan-latents"),
        ("NaN found in latents, replacing with zeros", "nan-latents"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out-of-memory"),
        ("ValueError: Loss is NaN too much times. Break here.", "error"),
        ("Traceback (most recent call last):", "error"),
        ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0", "skipped-step"),
        ("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", "skipped-step"),
        ("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "scale-floor"),
        ("a cat resting in saved memories", None),
    ],
)
def test_what_programs_say(tmp_path: Path, line: str, kind: str | None) -> None:
    found = [one.kind for one in written(tmp_path, line + "\n").happenings]
    assert found == ([] if kind is None else [kind])


def test_a_skipped_step_tells_the_scale(tmp_path: Path) -> None:
    text = "step 3 loss=0.5\nGradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n"
    scale = track(written(tmp_path, text), "loss scale")
    assert (scale.steps[0], scale.values[0]) == (3, 32768)


def test_json_lines_with_a_broken_one(tmp_path: Path) -> None:
    rows = [json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(steady(4), 1)]
    loss = track(written(tmp_path, "\n".join((*rows[:2], '{"step": 3, "loss": ', *rows[3:])), "history.jsonl"), "loss")
    assert list(loss.steps) == [1, 2, 4]


def test_an_error_right_behind_a_bar(tmp_path: Path) -> None:
    """The bar has no end of line, and the traceback begins where it stopped."""
    text = "steps:   1%|▏    | 5/600 [00:01<02:00,  5.0it/s, avr_loss=0.1]Traceback (most recent call last):\nValueError: bad\n"
    run = written(tmp_path, text)
    assert [(one.kind, one.step) for one in run.happenings] == [("error", 5), ("error", 5)]
