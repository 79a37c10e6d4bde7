"""What the trainers that people use print and leave, each in its own shape, with made-up numbers.

Every writer takes a folder, the losses by step from 1 on, and the norms of the gradients; it returns nothing, and leaves a run.
"""

import io
import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.helpers.run_logs import events, metrics_csv, trainer_state
from tqdm import tqdm

Writer = Callable[[Path, Sequence[float], Sequence[float]], None]
STAMP: Final = "2026-03-01 10:00:00"


def _bar(file: io.StringIO, total: int, **words: Any) -> "tqdm[Any]":
    return tqdm(total=total, file=file, mininterval=0, miniters=1, ncols=110, **words)


def sd_scripts(folder: Path, losses: Sequence[float], norms: Sequence[float]) -> None:
    """kohya-ss/sd-scripts, train_network.py: rich's lines, a bar with the average, TensorBoard in the logging folder."""
    file = io.StringIO()
    file.write("Loading settings from /train/config.toml...\n")
    file.write(f"{STAMP} INFO     create LoRA network. base dim (rank): 32, alpha: 16                    lora.py:935\n")
    file.write("prepare optimizer, data loader etc.\nrunning training / 学習開始\n")
    file.write("  num train images * repeats / 学習画像の数×繰り返し回数: 200\n  num epochs / epoch数: 8\n")
    file.write("  gradient accumulation steps / 勾配を合計するステップ数 = 1\n")
    total = 0.0
    with _bar(file, 1600, smoothing=0, desc="steps") as bar:
        for step, loss in enumerate(losses, 1):
            if step % 200 == 1:
                file.write(f"\nepoch {step // 200 + 1}/8\n")
                file.write(f"{STAMP} INFO     epoch is incremented. current_epoch: 0, epoch: 1        train_util.py:715\n")
            bar.update(1)
            if step % 50 == 0:
                file.write(f"\n{STAMP} INFO     generating sample images at step / サンプル画像生成 ステップ: {step}")
                file.write("      train_util.py:6394\n\nsaving checkpoint: /train/out/cat-step00000050.safetensors\n")
            total += loss
            bar.set_postfix(avr_loss=total / step)
    (folder / "console.log").write_text(file.getvalue(), "utf-8")
    (folder / "config.toml").write_text(
        'mixed_precision = "fp16"\nlearning_rate = 1e-4\noptimizer_type = "AdamW8bit"\nmax_grad_norm = 1.0\n'
        'pretrained_model_name_or_path = "/models/v1-5-pruned.safetensors"\n'
    )
    (logs := folder / "logs" / "20260301100000" / "network_train").mkdir(parents=True)
    scalars = [("loss/current", step, loss) for step, loss in enumerate(losses, 1)]
    scalars += [("norm/avg_grad_norm", step, norm) for step, norm in enumerate(norms, 1)]
    scalars += [("lr/unet", step, 1e-4) for step in range(1, len(losses) + 1)]
    scalars += [("loss/epoch_average", epoch, losses[0]) for epoch in range(1, len(losses) // 200 + 1)]
    events(logs / "events.out.tfevents.1772359200.host.77.0", scalars)


def diffusers_lora(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """diffusers' train_dreambooth_lora_flux.py: accelerate's logger, and a bar with loss and rate."""
    head = "03/01/2026 10:00:00 - INFO - __main__ - "
    file = io.StringIO()
    file.write(f"{head}Distributed environment: NO\nNum processes: 1\nDevice: cuda\n\nMixed precision type: fp16\n\n")
    file.write(f"{head}***** Running training *****\n{head}  Num examples = 20\n{head}  Num Epochs = 25\n")
    file.write(f"{head}  Total optimization steps = 5000\n")
    with _bar(file, 5000, desc="Steps") as bar:
        for step, loss in enumerate(losses, 1):
            bar.update(1)
            if step % 40 == 0:
                file.write(f"\n{head}Saved state to out/checkpoint-{step}\n")
                file.write(f"{head}Running validation... \n Generating 4 images with prompt: a cat, step 3 of 5.\n")
            bar.set_postfix(loss=loss, lr=1e-4)
    (folder / "train.log").write_text(file.getvalue(), "utf-8")
    (logs := folder / "logs" / "dreambooth-flux-dev-lora").mkdir(parents=True)
    (logs / "hparams.yml").write_text("adam_epsilon: 1.0e-08\nlearning_rate: 0.0001\nmax_grad_norm: 1.0\nmixed_precision: fp16\n")
    events(logs / "events.out.tfevents.1772359200.host.77.1", [("loss", step, loss) for step, loss in enumerate(losses, 1)])


def hugging_face(folder: Path, losses: Sequence[float], norms: Sequence[float], *, spelled: bool = False) -> None:
    """transformers' Trainer: a bar, a dictionary for every logged step, trainer_state.json. spelled: numbers as texts."""
    file = io.StringIO()
    history: list[Mapping[str, float]] = []
    with _bar(file, 3000) as bar:
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), 1):
            bar.update(1)
            entry = {"loss": round(loss, 4), "grad_norm": norm, "learning_rate": 5e-05, "epoch": round(step / 500, 2)}
            file.write(f"{ {name: f'{value:.4g}' for name, value in entry.items()} if spelled else entry }\n")
            history.append({**entry, "step": step})
    (folder / "nohup.out").write_text(file.getvalue(), "utf-8")
    if not spelled:
        (saved := folder / f"checkpoint-{len(losses)}").mkdir()
        trainer_state(saved / "trainer_state.json", history)
    (folder / "run.sh.out").write_text("python run.py --fp16 --learning_rate 5e-5 --max_grad_norm 1.0\n")


def hugging_face_5(folder: Path, losses: Sequence[float], norms: Sequence[float]) -> None:
    hugging_face(folder, losses, norms, spelled=True)


def lightning(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """PyTorch Lightning: CSVLogger's folder, and the bar of an epoch."""
    (version := folder / "lightning_logs" / "version_0").mkdir(parents=True)
    rows: list[dict[str, object]] = []
    for step, loss in enumerate(losses):
        rows.append({"epoch": step // 50, "step": step + 1, "train_loss_step": loss})
        if step % 50 == 49:
            rows.append({"epoch": step // 50, "step": step + 1, "train_loss_epoch": loss, "val_loss": 0.2})
    metrics_csv(version / "metrics.csv", rows)
    (version / "hparams.yaml").write_text("learning_rate: 0.0001\n")
    file = io.StringIO("")
    file.write("Using 16bit Automatic Mixed Precision (AMP)\nGPU available: True (cuda), used: True\n")
    for epoch in range((len(losses) + 49) // 50):
        part = losses[50 * epoch : 50 * epoch + 50]
        for at, loss in enumerate(part, 1):
            shown = f"{loss:.3f}" if math.isfinite(loss) else f"{loss}.0"
            file.write(
                f"\rEpoch {epoch}: {2 * at:3d}%|███▍      | {at}/50 [00:01<00:02, 22.1it/s, v_num=0, train_loss_step={shown}]"
            )
    (folder / "console.txt").write_text(file.getvalue() + "\n", "utf-8")


def one_trainer(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """OneTrainer: a bar of the epochs, one of the steps of each, and an error where the loss is no number."""
    file = io.StringIO()
    scalars: list[tuple[str, int, float]] = []
    smooth = losses[0]
    stopped = False
    epochs = _bar(file, 100, desc="epoch")
    for begin in range(0, len(losses), 40):
        file.write("\n")
        with _bar(file, 40, desc="step") as bar:
            for step, loss in enumerate(losses[begin : begin + 40], begin):
                stopped = math.isnan(loss)
                if stopped:
                    break
                smooth = 0.9 * smooth + 0.1 * loss
                bar.set_postfix({"loss": loss, "smooth loss": smooth})
                bar.update(1)
                scalars += [("loss/train_step", step, loss), ("smooth_loss/train_step", step, smooth), ("lr/unet", step, 3e-4)]
        if stopped:
            break
        file.write("\n")
        epochs.update(1)
    if stopped:
        file.write('\nTraceback (most recent call last):\n  File "modules/trainer/GenericTrainer.py", line 801, in train\n')
        file.write("    raise RuntimeError(...)\nRuntimeError: Training loss became NaN. This may be due to invalid parameters, ")
        file.write("precision issues, or a bug in the loss computation.\n")
    (folder / "console.log").write_text(file.getvalue(), "utf-8")
    (folder / "config").mkdir()
    settings = {
        "train_dtype": "FLOAT_16",
        "learning_rate": 0.0003,
        "clip_grad_norm": 1.0,
        "optimizer": {"optimizer": "ADAMW", "eps": 1e-8},
    }
    (folder / "config" / "2026-03-01_10-00-00.json").write_text(json.dumps(settings, indent=4))
    (folder / "tensorboard" / "2026-03-01_10-00-00").mkdir(parents=True)
    events(folder / "tensorboard" / "2026-03-01_10-00-00" / "events.out.tfevents.1772359200.host.7.0", scalars)


def ai_toolkit(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """ostris/ai-toolkit: a bar with rate and loss, a line where the loss is no number, and the database of its window."""
    file = io.StringIO()
    rows: list[tuple[int, str, float | None]] = []
    file.write("Running 1 job\nLoading Flux model\n")
    with _bar(file, 2000, desc="cat") as bar:
        for step, loss in enumerate(losses):
            if step and step % 50 == 0:
                file.write(f"\nSaving at step {step}\nSaved checkpoint to output/cat/cat_{step:09d}.safetensors\n")
                file.write("\rGenerating Images:  50%|█████     | 1/2 [00:04<00:04,  4.0s/it]\n")
            if not math.isfinite(loss):
                file.write("\nloss is nan\n")
            shown = loss if math.isfinite(loss) else 0.0
            bar.set_postfix_str(f"lr: 1.0e-04 loss: {shown:.3e}")
            bar.update(1)
            rows += [(step, "learning_rate", 1e-4), (step, "loss/loss", shown)]
    (folder / "log.txt").write_text(file.getvalue(), "utf-8")
    (folder / "config.yaml").write_text(
        "job: extension\nconfig:\n  process:\n  - type: sd_trainer\n    save:\n      dtype: float16\n    train:\n"
        "      optimizer: adamw8bit\n      lr: 0.0001\n      dtype: fp16\n"
    )
    database(folder / "loss_log.db", rows)


def database(path: Path, rows: Sequence[tuple[int, str, float | None]]) -> None:
    """(step, name, number) of each; SQLite keeps a NaN as nothing."""
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY, wall_time REAL NOT NULL)")
        made.execute("CREATE TABLE metrics (step INTEGER, key TEXT, value_real REAL, value_text TEXT, PRIMARY KEY (step, key))")
        made.executemany("INSERT INTO steps VALUES (?, ?)", [(step, 1.7e9 + step) for step in sorted({row[0] for row in rows})])
        made.executemany("INSERT INTO metrics VALUES (?, ?, ?, NULL)", rows)
    made.close()


def hallo(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """Hallo's train_stage1.py: a bar, a validation after the first step, and MLflow's files of numbers."""
    head = "03/01/2026 10:00:00 - INFO - __main__ - "
    file = io.StringIO()
    file.write(f"{head}Distributed environment: NO\nMixed precision type: no\n\n{head}***** Running training *****\n")
    with _bar(file, 30000) as bar:
        bar.set_description("Steps")
        for step, loss in enumerate(losses, 1):
            bar.update(1)
            if step == 1:
                file.write(f"\n{head}Running validation... \n")
            bar.set_postfix(step_loss=loss, lr=1e-5)
    (folder / "stage1.log").write_text(file.getvalue(), "utf-8")
    (folder / "stage1.yaml").write_text(
        'solver:\n  mixed_precision: "no"\n  max_grad_norm: 1.0\n  learning_rate: 1.0e-5\n  adam_epsilon: 1.0e-8\n'
        'val:\n  validation_steps: 500\nweight_dtype: "fp16" # [fp16, fp32]\n'
        'face_analysis_model_path: "./pretrained_models/face_analysis"\n'
    )
    (metrics := folder / "mlruns" / "1" / "0a1b" / "metrics").mkdir(parents=True)
    (metrics / "train_loss").write_text("".join(f"17723592{at:05d} {loss} {at}\n" for at, loss in enumerate(losses, 1)))


def trellis(folder: Path, losses: Sequence[float], norms: Sequence[float]) -> None:
    """TRELLIS: log.txt of numbered objects, in which a norm that is no number is left out."""
    lines: list[str] = []
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), 1):
        status = {"lr": 1e-4, **({"grad_norm": norm} if math.isfinite(norm) else {})}
        entry = {
            "time": {"step": 1.5, "elapsed": 1.5 * step},
            "loss": {"loss": loss, "kl": 0.1},
            "status": status,
            "grad_clip": 1.0,
        }
        lines.append(f"{step}: {json.dumps(entry)}\n")
    (folder / "log.txt").write_text("".join(lines))
    settings = {"trainer": {"args": {"fp16_mode": None, "optimizer": {"name": "AdamW", "args": {"lr": 1e-4}}, "grad_clip": 1.0}}}
    settings["models"] = {"decoder": {"args": {"use_fp16": True}}}  # type: ignore[dict-item]
    (folder / "config.json").write_text(json.dumps(settings))
    said = "\n\x1b[93mWarning: NaN detected in gradients. Skipping update.\x1b[0m\n"
    console = "\nStarting training...\nSampling 8 images... Done.\n"
    for step, norm in enumerate(norms, 1):
        console += "" if math.isfinite(norm) else said
        if step % 20 == 0:
            console += f"Step: {step}/1000000 ({step / 1e4:.2f}%)  | Elapsed: 0.01 h           | Speed: 2400.00 steps/h\n"
    (folder / "stdout.txt").write_text(console)


def sana(folder: Path, losses: Sequence[float], norms: Sequence[float]) -> None:
    """Sana's train.py: one line for every few steps, with the means of loss and norm."""
    text = f"{STAMP},123 - [RANK 0] - Sana - INFO - Mixed precision type: fp16\n"
    bad = 0
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), 1):
        text += (
            f"{STAMP},123 - Sana - INFO - Epoch: 1 | Global Step: {step} | Local Step: {step} // 12345, total_eta: 12:00:00, "
            f"epoch_eta:1:00:00, time: all:1.230, model:0.900, data:0.010, lm:0.100, vae:0.200, lr:6.000e-06s:(32, 32), "
            f"loss:{loss:.4f}, grad_norm:{norm:.4f}\n"
        )
        bad += math.isnan(loss)
        if bad > 20:
            text += "Traceback (most recent call last):\nValueError: Loss is NaN too much times. Break here.\n"
            break
    (folder / "train_log.log").write_text(text)
    (folder / "config.yaml").write_text(
        "model:\n    mixed_precision: fp16\ntrain:\n    gradient_clip: 0.1\n    optimizer:\n        lr: 6.0e-06\n"
        "        type: CAMEWrapper\n"
    )


def deepspeed(folder: Path, losses: Sequence[float], norms: Sequence[float]) -> None:
    """DeepSpeed under diffusion-pipe: its own lines of steps, and of scales that were too large."""
    scale = 65536
    lines: list[str] = ["[2026-03-01 10:00:00,123] [INFO] [config.py:1000:print]   fp16_enabled ................. True\n"]
    for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), 1):
        stamp = "[2026-03-01 10:00:00,123] [INFO]"
        if not math.isfinite(norm):
            lines.append(
                f"{stamp} [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
                f"Attempted loss scale: {scale}, reducing to {scale // 2}\n"
            )
            scale //= 2
        lines.append(f"{stamp} [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[2e-05], mom=[[0.9, 0.99]]\n")
        lines.append(f"steps: {step} loss: {loss:.4f} iter time (s): 3.210 samples/sec: 0.312\n")
    (folder / "console.log").write_text("".join(lines))
    (folder / "config.toml").write_text("output_dir = '/out'\ngradient_clipping = 1.0\n[optimizer]\ntype = 'adamw'\nlr = 2e-5\n")


def simple_tuner(folder: Path, losses: Sequence[float], _norms: Sequence[float]) -> None:
    """SimpleTuner: the epoch stands before the bar of all steps."""
    file = io.StringIO()
    with _bar(file, 3000, desc="Epoch 2/30, Steps") as bar:
        for loss in losses:
            bar.update(1)
            bar.set_postfix(grad_norm=0.1, lr=1e-4, step_loss=loss)
    (folder / "debug.log").write_text(file.getvalue(), "utf-8")
    (folder / "config.json").write_text(json.dumps({"--mixed_precision": "fp16", "--learning_rate": "1e-4"}))


WRITERS: Final[tuple[Writer, ...]] = (
    sd_scripts,
    diffusers_lora,
    hugging_face,
    hugging_face_5,
    lightning,
    one_trainer,
    ai_toolkit,
    hallo,
    trellis,
    sana,
    deepspeed,
    simple_tuner,
)
