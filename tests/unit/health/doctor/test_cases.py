"""Runs as they went wrong in real life, and what the doctor says of each."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.helpers.run_logs import BAD, diffusers, events, kohya, metrics_csv, steady, trainer_state

from halftone.contract.wording import number
from halftone.health.doctor.found import Advice, Diagnosis, SignCode, Suspicion, TroubleCode, Where
from halftone.health.doctor.judge import diagnose
from halftone.health.doctor.sentences import cause_words, sign_words, trouble_words
from halftone.health.doctor.setup import setup_of
from halftone.library.run_logs.folder import read_run

FP16 = "Mixed precision type: fp16\n"
BF16 = "Mixed precision type: bf16\n"


def judged(place: Path) -> Diagnosis:
    return diagnose(read_run(place))


def codes(found: Diagnosis) -> set[SignCode]:
    return {sign.code for sign in found.signs}


def first_step(found: Diagnosis) -> int | None:
    return None if found.first is None else found.first.where.step


def sana(folder: Path) -> None:
    """Sana fine-tuned in FP16 at 6e-6 to 8e-6: sound for a while, then NaN."""
    lines = [
        f"2024-12-01 10:00:00 - Sana - INFO - Epoch: 1 | Global Step: {20 * at} | Local Step: {20 * at} // 12345, "
        f"total_eta: 12:00:00, epoch_eta:1:00:00, time: all:1.230, model:0.900, lr:6.000e-06s:(32, 32), loss:{loss:.4f}, "
        f"grad_norm:{norm:.4f}\n"
        for at, (loss, norm) in enumerate(zip([*steady(60), BAD, BAD], [*steady(60, 0.4, 1), BAD, BAD], strict=True), 1)
    ]
    (folder / "train_log.log").write_text(FP16 + "".join(lines) + "ValueError: Loss is NaN too much times. Break here.\n")


def trellis(folder: Path) -> None:
    """After the first step of AdamW every float16 parameter is NaN, and the float32 output layer is sound."""
    (folder / "log.txt").write_text(
        '1: {"time": {"step": 2.0}, "loss": {"loss": 0.31}, "status": {"lr": 0.0001, "grad_norm": 1.2}}\n'
        '2: {"time": {"step": 2.0}, "loss": {"loss": NaN}, "status": {"lr": 0.0001, "grad_norm": NaN}}\n'
    )
    tensors = {f"blocks.{at}.weight": np.full(4, BAD, np.float16) for at in range(3)}
    (folder / "ckpts").mkdir()
    save_file({**tensors, "out_layer.weight": np.ones(4, np.float32)}, folder / "ckpts" / "decoder_step0000001.safetensors")


def trellis_checkpoint_alone(folder: Path) -> None:
    trellis(folder)
    (folder / "log.txt").unlink()


def hallo(folder: Path) -> None:
    """NaN from the second iteration on, right after the validation that ran after the first."""
    diffusers(folder / "stage1.log", [0.35, BAD, BAD, BAD], rate=1e-5, between={1: "Running validation... "}, head=FP16)


def kohya_latents(folder: Path) -> None:
    text = "caching latents.\n 12%|█▏        | 5/40 [00:01<00:08]\nTraceback (most recent call last):\n"
    (folder / "out.log").write_text(text + "RuntimeError: NaN detected in latents: /data/cat/007.png\n", "utf-8")


def sdxl_half(folder: Path) -> None:
    """An SDXL LoRA in FP16: the average is NaN from the first step on."""
    kohya(folder / "out.log", [BAD] * 12)
    (folder / "config.toml").write_text(
        'mixed_precision = "fp16"\npretrained_model_name_or_path = "sd_xl_base_1.0.safetensors"\n'
    )


def high_rate(folder: Path) -> None:
    """The loss rises over many steps, the norm leaps, then NaN."""
    rising = [*steady(60), *(0.12 * 1.12**at for at in range(40)), BAD, BAD]
    norms = [*steady(90, 1.0), *(3.0 * 2**at for at in range(10)), BAD, BAD]
    scalars = [("train_loss", at, loss) for at, loss in enumerate(rising, 1)]
    scalars += [("grad_norm", at, norm) for at, norm in enumerate(norms, 1)]
    scalars += [("lr", at, 5e-3) for at in range(1, 103)]
    events(folder / "events.out.tfevents.1.host", scalars)
    (folder / "hparams.yml").write_text("mixed_precision: fp16\nmax_grad_norm: 0\n")


def end_of_warm_up(folder: Path) -> None:
    rows: list[dict[str, object]] = []
    for step in range(200):
        loss = steady(200)[step] * (1 if step < 160 else 1.4 ** (step - 160)) if step < 180 else BAD
        rows.append({"step": step, "train_loss": loss})
        rows.append({"step": step, "lr-AdamW": 4e-4 * min(1, (step + 1) / 170)})
    metrics_csv(folder / "metrics.csv", rows)


def scaler_floor(folder: Path) -> None:
    """GradScaler halves until there is nothing left to halve."""
    scalars = [("loss", step, loss) for step, loss in enumerate(steady(40), 1)]
    scalars += [("loss_scale", step, 65536.0 * 0.5 ** max(0, step - 20)) for step in range(1, 41)]
    events(folder / "events.out.tfevents.1.host", scalars)
    (folder / "accelerate.yaml").write_text("mixed_precision: fp16\n")


def deepspeed_floor(folder: Path) -> None:
    lines = [
        f"step {at} loss: 0.5\n[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {2 ** (17 - at)}, "
        f"reducing to {2 ** (16 - at)}\n"
        for at in range(1, 17)
    ]
    end = "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n"
    (folder / "nohup.out").write_text("".join(lines) + end)


def test_the_first_step_that_deepspeed_skipped(tmp_path: Path) -> None:
    """Its place is named, and not that of the last one."""
    bars = [f"  {at}%|█         | {at}/50 [00:01<00:10,  1.0it/s]" for at in range(1, 40)]
    skip = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"
    lines = [f"{{'loss': 0.5, 'learning_rate': 1e-05}}\n{bar}{skip if at >= 20 else ''}\n" for at, bar in enumerate(bars, 1)]
    (tmp_path / "out.log").write_text("".join(lines) + "{'loss': nan, 'learning_rate': 1e-05}\n", "utf-8")
    sign = next(one for one in judged(tmp_path).signs if one.code == "steps-skipped")
    assert sign.where is not None
    assert (sign.where.line, sign.where.step) == (40, 20)
    assert sign_words(sign).text() == "20 steps were skipped because a gradient overflowed, the first of them after step 20."


def test_no_step_was_logged_before_deepspeed_skipped_one(tmp_path: Path) -> None:
    skip = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
    (tmp_path / "out.log").write_text(skip * 6 + "step: 10 loss: 0.5\nstep: 20 loss: nan\n")
    sign = next(one for one in judged(tmp_path).signs if one.code == "steps-skipped")
    assert sign.where == Where("out.log", 1, None)
    assert (
        sign_words(sign).text()
        == "6 steps were skipped because a gradient overflowed, the first of them before the first logged step."
    )


TRELLIS = """{"models": {"denoiser": {"name": "SLatFlowModel", "args": {"use_fp16": %s}}},
"trainer": {"name": "SparseFlowMatchingTrainer", "args": {"optimizer": {"name": "AdamW", "args": {"lr": 0.0001}},
"fp16_mode": "%s"}}}"""


@pytest.mark.parametrize(
    ("narrow", "mode", "precision", "half_weights"),
    [
        ("true", "inflat_all", "half", False),  # trained in FP16, with FP32 copies of the weights
        ("true", "amp", "half", False),
        ("false", "amp", "half", False),  # autocast to FP16 over FP32 weights
        ("false", "inflat_all", "", False),
    ],
)
def test_the_precision_of_a_trellis_configuration(
    tmp_path: Path, narrow: str, mode: str, precision: str, half_weights: bool
) -> None:
    (tmp_path / "config.json").write_text(TRELLIS % (narrow, mode))
    (tmp_path / "log.txt").write_text('500: {"loss": {"loss": 0.3}, "status": {"grad_norm": 1.0}}\n')
    setup = setup_of(read_run(tmp_path).settings)
    assert (setup.precision, setup.half_weights) == (precision, half_weights)


def bad_after_resume(folder: Path) -> None:
    text = "Resuming from checkpoint checkpoint-500\nMixed precision type: bf16\n"
    bar = "".join(f"\rSteps:  50%|█████     | {at}/1000 [00:01<00:10,  1.0it/s, lr=0.0001, step_loss=nan]" for at in (501, 502))
    (folder / "out.log").write_text(text + bar + "\n", "utf-8")


def resumed_from_broken(folder: Path) -> None:
    bad_after_resume(folder)
    (folder / "checkpoint-500").mkdir()
    save_file({"a": np.full(3, BAD, np.float32), "b": np.ones(3, np.float32)}, folder / "checkpoint-500" / "model.safetensors")


def hidden_by_the_trainer(folder: Path) -> None:
    """transformers' Trainer writes 0 where the loss is NaN; the norm tells."""
    good = [{"step": 10 * at, "loss": loss, "grad_norm": 1.0 + at % 3} for at, loss in enumerate(steady(30), 1)]
    trainer_state(
        folder / "trainer_state.json", [*good, *({"step": 10 * at, "loss": 0.0, "grad_norm": BAD} for at in range(31, 41))]
    )
    (folder / "training_args.json").write_text('{"fp16": true}')


def one_broken_picture(folder: Path) -> None:
    """In every pass over the pictures one step is NaN, in BF16."""
    losses = [BAD if at % 40 == 17 else loss for at, loss in enumerate(steady(160))]
    diffusers(folder / "out.log", losses, head=BF16)


def steady_then_bad_in_float32(folder: Path) -> None:
    diffusers(folder / "out.log", [*steady(100), BAD, BAD, BAD], head="Mixed precision type: no\n")


CASES: list[tuple[Callable[[Path], None], TroubleCode, int | None, Suspicion, Advice, set[SignCode]]] = [
    (
        sana,
        "nonfinite",
        1220,
        "activation-overflow",
        "bfloat16",
        {"half", "steady", "rate-low", "gradient-steady", "finite-then"},
    ),
    (trellis, "nonfinite", 2, "optimizer-epsilon", "epsilon-1e-4", {"weights-half-bad", "second-step"}),
    (trellis_checkpoint_alone, "weights", None, "optimizer-epsilon", "epsilon-1e-4", {"weights-half-bad"}),
    (hallo, "nonfinite", 2, "validation", "validate-apart", {"after-validation", "second-step"}),
    (kohya_latents, "latents", None, "vae-overflow", "vae-float32", {"nan-latents"}),
    (sdxl_half, "nonfinite", 1, "vae-overflow", "vae-float32", {"sdxl-half-vae", "first-step", "averaged"}),
    (high_rate, "nonfinite", 101, "learning-rate", "lower-rate", {"rate-high", "loss-rising", "gradient-spike", "no-clip"}),
    (end_of_warm_up, "nonfinite", 180, "learning-rate", "lower-rate", {"warm-up-end", "loss-rising"}),
    (scaler_floor, "scale-gone", None, "loss-scale", "bfloat16", {"scale-gone", "half"}),
    (deepspeed_floor, "scale-floor", None, "loss-scale", "bfloat16", {"scale-floor", "steps-skipped"}),
    (bad_after_resume, "nonfinite", 501, "optimizer-state", "earlier-checkpoint", {"after-resume", "first-logged"}),
    (resumed_from_broken, "nonfinite", 501, "weights-nonfinite", "earlier-checkpoint", {"weights-bad-before"}),
    (hidden_by_the_trainer, "nonfinite", 310, "activation-overflow", "bfloat16", {"loss-hidden", "half"}),
    (one_broken_picture, "nonfinite", 18, "data-nonfinite", "mend-file", {"recovers", "bfloat16"}),
    (steady_then_bad_in_float32, "nonfinite", 101, "data-nonfinite", "mend-file", {"steady", "float32"}),
]


@pytest.mark.parametrize(("make", "trouble", "step", "cause", "advice", "seen"), CASES, ids=[case[0].__name__ for case in CASES])
def test_real_cases(
    tmp_path: Path,
    make: Callable[[Path], None],
    trouble: TroubleCode,
    step: int | None,
    cause: Suspicion,
    advice: Advice,
    seen: set[SignCode],
) -> None:
    make(tmp_path)
    found = judged(tmp_path)
    assert found.verdict == "trouble"
    assert found.troubles[0].code == trouble
    assert first_step(found) == step
    assert seen <= codes(found)
    assert [one.cause for one in found.suspects][:1] == [cause]
    assert not {"loss-hidden", "gradient-first"} <= codes(found)
    assert found.suspects[0].advice[0] == advice
    scores = [one.score for one in found.suspects]
    assert scores == sorted(scores, reverse=True)


def lines(folder: Path, losses: list[float], norms: list[float] | None = None, *, head: str = "", tag: str = "loss") -> None:
    """A plain log of a step in each line."""
    told = [f" grad_norm: {norm:.4f}" for norm in norms] if norms is not None else [""] * len(losses)
    numbers = zip(losses, told, strict=True)
    text = "".join(f"step {step} {tag}: {loss:.4f}{norm}\n" for step, (loss, norm) in enumerate(numbers, 1))
    (folder / "out.log").write_text(head + text)


def said(found: Diagnosis, code: SignCode) -> str:
    return next((sign_words(sign).text() for sign in found.signs if sign.code == code), "")


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (
            [0.135, 0.134, 0.135, 0.89, 12.4, BAD],
            "The loss exploded: around 0.135 before, it was 0.89 in step 4 and 12.4 in step 5.",
        ),
        ([0.135, 0.89, 12.4, BAD], "The loss exploded: around 0.135 before, it was 0.89 in step 2 and 12.4 in step 3."),
        ([0.135, 0.135, 12.4, BAD], "The loss exploded: around 0.135 before, it was 12.4 in step 3."),
        (
            [*[0.135] * 50, 0.89, 12.4, 9.1, BAD],
            "The loss exploded: around 0.135 before, it was 0.89 in step 51 and 12.4 in step 52.",
        ),
        ([*[0.13] * 30, 5.0, *[0.13] * 30, 5.0, BAD], ""),  # it leaps now and then
        ([0.135, 0.4, BAD], ""),
    ],
)
def test_an_explosion_within_a_few_lines_is_named_with_its_step(tmp_path: Path, losses: list[float], told: str) -> None:
    lines(tmp_path, losses, tag="avr_loss")
    found = judged(tmp_path)
    assert said(found, "loss-exploding") == told
    assert ("learning-rate" in {one.cause for one in found.suspects}) is bool(told)


def test_an_explosion_that_a_run_ends_with_is_trouble_without_nan(tmp_path: Path) -> None:
    lines(tmp_path, [*steady(30), 0.9, 12.4, 311.0])
    found = judged(tmp_path)
    assert [one.code for one in found.troubles] == ["diverged"]
    assert found.troubles[0].where == Where("out.log", 31, 31)
    assert trouble_words(found.troubles[0], None).text().endswith("ended at 311: the training came apart, with finite numbers.")


def test_a_loss_that_rose_is_told_with_the_highest_that_it_reached(tmp_path: Path) -> None:
    lines(tmp_path, [*steady(60, 0.13), *(0.39 * 1.1 ** (at % 3) for at in range(12)), 38.0, 7676.0, BAD])
    assert said(judged(tmp_path), "loss-rising").endswith(f"to {number(7676)} in step 74.")


@pytest.mark.parametrize("each", [1.02, 1.05, 1.2])
def test_a_norm_that_rises_steadily_was_not_as_usual(tmp_path: Path, each: float) -> None:
    norms = [0.5 * each**at * noise for at, noise in enumerate(steady(80, 1.0))]
    lines(tmp_path, [*steady(80), BAD], [*norms, BAD])
    found = judged(tmp_path)
    assert "gradient-steady" not in codes(found)
    assert "gradient-spike" not in codes(found)
    assert said(found, "gradient-rising").endswith(f"to {value_text(max(norms))} in step {norms.index(max(norms)) + 1}.")


def value_text(value: float) -> str:
    return number(value) if value >= 100 else f"{float(f'{value:.4f}'):.4g}"


@pytest.mark.parametrize(
    "head",
    [
        "mixed_precision: fp16\n",
        "step 0 loss: 0.12\nmixed_precision: fp16\n",
        "step 0 mixed_precision: fp16 loss_scale: 65536\n",
        '{"mixed_precision": "fp16", "seed": 1}\n',
        "step 0 loss: 0.12\nprecision: 0.83, recall: 0.4\nINFO mixed_precision=fp16\n",
    ],
)
def test_the_precision_is_read_wherever_a_log_names_it(tmp_path: Path, head: str) -> None:
    lines(tmp_path, [*steady(30), BAD], head=head)
    found = judged(tmp_path)
    assert "half" in codes(found)
    assert "precision-untold" not in codes(found)


@pytest.mark.parametrize(
    ("schedule", "advised"), [("cosine", False), ("linear", False), ("constant", True), ("constant_with_warmup", True)]
)
def test_a_schedule_that_falls_already_is_not_advised(tmp_path: Path, schedule: str, *, advised: bool) -> None:
    lines(tmp_path, [0.13, 0.13, 0.9, 12.0, BAD], head=f"lr_scheduler: {schedule}\nlearning_rate: 0.01\n")
    assert ("cosine" in judged(tmp_path).suspects[0].advice) is advised


def test_what_the_run_had_already_is_not_advised(tmp_path: Path) -> None:
    high_rate(tmp_path)
    (tmp_path / "hparams.yml").write_text("mixed_precision: bf16\nmax_grad_norm: 1.0\nlr_warmup_steps: 100\n")
    rate = next(one for one in judged(tmp_path).suspects if one.cause == "learning-rate")
    assert rate.advice == ("lower-rate", "cosine")


def test_a_later_sound_checkpoint_and_the_last_before(tmp_path: Path) -> None:
    diffusers(tmp_path / "out.log", [*steady(30), BAD, *steady(30)])
    for step in (20, 60):
        save_file({"a": np.ones(2, np.float32)}, tmp_path / f"lora-step{step}.safetensors")
    found = judged(tmp_path)
    assert "weights-sound" in codes(found)
    assert found.last_sound == "lora-step20.safetensors"


def test_numbers_and_words_in_two_files_belong_together(tmp_path: Path) -> None:
    """TensorBoard has the numbers, the console what was done."""
    events(tmp_path / "events.out.tfevents.1.host", [("loss", 1, 0.3), ("loss", 2, BAD)])
    (tmp_path / "console.log").write_text("step 1 lr: 1e-5\nRunning validation...\n")
    found = judged(tmp_path)
    assert found.suspects[0].cause == "validation"


def test_a_validation_that_did_no_harm_before_is_less_suspect(tmp_path: Path) -> None:
    between: dict[int, str] = dict.fromkeys((10, 20, 30), "Running validation... ")
    diffusers(tmp_path / "out.log", [*steady(30), BAD], between=between, head=FP16)
    found = judged(tmp_path)
    assert "after-validation-again" in codes(found)
    assert found.suspects[0].cause == "activation-overflow"


@pytest.mark.parametrize(
    ("losses", "trouble"),
    [
        ([0.4] * 80, "nothing-learnt"),
        ([*steady(60), *(0.12 * 1.2**at for at in range(40)), *steady(60, 90.0)], "diverged"),
    ],
)
def test_trouble_with_finite_numbers(tmp_path: Path, losses: list[float], trouble: TroubleCode) -> None:
    events(tmp_path / "events.out.tfevents.1.host", [("loss", at, loss) for at, loss in enumerate(losses, 1)])
    found = judged(tmp_path)
    assert [one.code for one in found.troubles] == [trouble]
    assert found.first is None


def test_a_rate_of_nothing(tmp_path: Path) -> None:
    diffusers(tmp_path / "out.log", steady(80), rate=0.0)
    assert [one.code for one in judged(tmp_path).troubles] == ["rate-zero"]


def test_only_the_validation_is_bad(tmp_path: Path) -> None:
    rows = [{"step": at, "train_loss": loss, "val_loss": BAD} for at, loss in enumerate(steady(30))]
    metrics_csv(tmp_path / "metrics.csv", rows)
    assert [one.code for one in judged(tmp_path).troubles] == ["validation"]


@pytest.mark.parametrize(
    ("end", "troubles"),
    [
        ("Traceback (most recent call last):\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\n", ["stopped"]),
        ("Traceback (most recent call last):\nKeyboardInterrupt\n", []),
        ("ImportError: no module named xformers\nstep 999 loss=0.1\n", []),
        ("wandb: CommError: could not reach the server\n", []),
    ],
)
def test_how_a_log_ends(tmp_path: Path, end: str, troubles: list[TroubleCode]) -> None:
    path = diffusers(tmp_path / "out.log", steady(30))
    path.write_text(path.read_text("utf-8") + end, "utf-8")
    assert [one.code for one in judged(tmp_path).troubles] == troubles


@pytest.mark.parametrize("text", ["hello\n", "epoch 1\nlr: 1e-4 step 3\n"])
def test_a_log_that_says_nothing_is_not_called_sound(tmp_path: Path, text: str) -> None:
    (tmp_path / "out.log").write_text(text)
    assert judged(tmp_path).verdict == "silent"


def test_the_place_of_the_first_bad_number(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("step 1 loss: 0.5\nstep 2 loss: 0.4\nstep 3 loss: inf\nstep 4 loss: nan\n")
    first = judged(tmp_path).first
    assert first is not None
    assert (first.where.file, first.where.line, first.where.step, first.value) == ("a.log", 3, 3, math.inf)


def test_a_run_that_was_begun_again_in_the_same_log(tmp_path: Path) -> None:
    """What came before is looked for in the same attempt."""
    first = "".join(f"step {at} loss: {loss}\n" for at, loss in enumerate(steady(50), 1))
    (tmp_path / "a.log").write_text(first + "step 1 loss: 0.3\nstep 2 loss: nan\n")
    found = judged(tmp_path)
    assert "second-step" in codes(found)
    assert "finite-then" not in codes(found)


@pytest.mark.parametrize("words", ["mixed_precision: {}", "mixed_precision={}", '{{"mixed_precision": "{}"}}', "precision={}"])
@pytest.mark.parametrize(
    ("named", "precision"),
    [
        ("fp16", "half"),
        ("16-mixed", "half"),
        ("16-true", "half"),
        ("float16", "half"),
        ("bf16", "bfloat16"),
        ("bf16-mixed", "bfloat16"),
        ("bf16-true", "bfloat16"),
        ("bfloat16", "bfloat16"),
        ("torch.bfloat16", "bfloat16"),
        ("fp32", "float32"),
        ("32-true", "float32"),
        ("float32", "float32"),
    ],
)
def test_a_precision_that_is_named_late_is_read(tmp_path: Path, words: str, named: str, precision: str) -> None:
    late = f"{words.format(named)}\n"
    lines(tmp_path, [*steady(30), BAD], head="".join(f"step {at} loss: 0.12\n" for at in range(9)) + late)
    assert setup_of(read_run(tmp_path).settings).precision == precision


@pytest.mark.parametrize("measure", ["precision: 16", "precision: 0.93 recall: 0.9", "precision=32", "no precision: no"])
def test_a_measure_that_is_named_late_is_not_read(tmp_path: Path, measure: str) -> None:
    lines(tmp_path, [*steady(30), BAD], head="".join(f"step {at} loss: 0.12\n" for at in range(9)) + f"{measure}\n")
    assert setup_of(read_run(tmp_path).settings).precision == ""


def test_a_precision_that_is_a_measure_is_not_taken_for_the_type(tmp_path: Path) -> None:
    diffusers(tmp_path / "out.log", [*steady(30), BAD], head="precision: 0.93 recall: 0.9\n" + FP16)
    assert "half" in codes(judged(tmp_path))


def test_a_gradient_that_leaps_before_the_end_speaks_for_itself(tmp_path: Path) -> None:
    """And of a limit of FP16 nothing is claimed where no precision is told."""
    scalars = [("loss", at, loss) for at, loss in enumerate([*steady(120), BAD], 1)]
    scalars += [("grad_norm", at, norm) for at, norm in enumerate([*steady(117, 0.5, 1), 1e5, 1e5, 1e5, math.inf], 1)]
    events(tmp_path / "events.out.tfevents.1.host", scalars)
    found = judged(tmp_path)
    assert [one.cause for one in found.suspects] == ["gradient-overflow", "learning-rate"]


def test_what_is_only_supposed_is_said_with_an_if(tmp_path: Path) -> None:
    diffusers(tmp_path / "out.log", [*steady(60), BAD])
    (suspect,) = judged(tmp_path).suspects
    assert cause_words(suspect).startswith("If it was trained in FP16, ")
    diffusers(tmp_path / "out.log", [*steady(60), BAD], head=FP16)
    assert cause_words(judged(tmp_path).suspects[0]).startswith("A layer made ")


def test_numbers_without_steps_are_not_called_steps(tmp_path: Path) -> None:
    entries = [{"loss": 2.1, "grad_norm": 1.2, "epoch": 0.1 * at} for at in range(9)]
    entries += [{"loss": BAD, "grad_norm": BAD, "epoch": 1.0}]
    (tmp_path / "out.txt").write_text("".join(f"{entry}\n" for entry in entries))
    found = judged(tmp_path)
    said = trouble_words(found.troubles[0], found.first).text()
    assert said == "The loss is not finite from entry 10 on; the log names no steps."
    assert found.steps is None


@pytest.mark.parametrize("count", [1, 3])
def test_one_and_many(tmp_path: Path, count: int) -> None:
    save_file({f"a{at}": np.full(2, BAD, np.float32) for at in range(count)}, tmp_path / "x-step9.safetensors")
    (tmp_path / "out.log").write_text("RuntimeError: NaN detected in latents: /1.png\n" * count)
    weights, latents = (trouble_words(one, None).text() for one in judged(tmp_path).troubles)
    assert ("tensors" in weights, " times" in latents) == (count > 1, count > 1)


def test_what_was_made_ready_is_no_checkpoint(tmp_path: Path) -> None:
    """Latents and words in a cache, and the state that a training goes on from."""
    for name in ("cache/1.safetensors", "_latent_cache/2.safetensors", "state.safetensors", "cat-step10.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_file({"a": np.ones(2, np.float32)}, tmp_path / name)
    assert [one.file for one in read_run(tmp_path).checkpoints] == ["cat-step10.safetensors"]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ([138], "The loss is not finite at step 138 only; it is finite again from step 139 on."),
        ([138, 139, 140], "The loss is not finite from step 138 to 140; it is finite again from step 141 on."),
        ([20, 60, 61], "The loss is not finite at 3 steps, the first of them 20; it is finite again from step 62 on."),
        ([20, *range(151, 201)], "The loss is not finite at 51 steps, the first of them 20."),
        (list(range(138, 201)), "The loss is not finite from step 138 on."),
    ],
)
@pytest.mark.parametrize("tag", ["loss", "avr_loss"])
def test_where_the_loss_is_finite_again_is_told(tmp_path: Path, bad: list[int], told: str, tag: str) -> None:
    """An average, too, that is finite again did not keep the bad step."""
    lines(tmp_path, [BAD if step in bad else loss for step, loss in enumerate(steady(200), 1)], tag=tag)
    found = judged(tmp_path)
    assert trouble_words(found.troubles[0], found.first).text() == told
    lasts = told.endswith("138 on.")
    assert ("recovers" in codes(found)) is not lasts
    assert ("averaged" in codes(found)) is (tag == "avr_loss" and lasts)


def apex(folder: Path, *, skipped: range, scale: Callable[[int], float]) -> None:
    """A log of 80 steps in which apex leaves steps out."""
    skip = "Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to {}\n"
    told = [skip.format(scale(step)) if step in skipped else "" for step in range(80)]
    (folder / "out.log").write_text("".join(f"step {at} loss: 0.1{at % 7}\n{said}" for at, said in enumerate(told)))


def halved(step: int) -> float:
    return 65536.0 * 0.5 ** (step - 50)


def floored(step: int) -> float:
    return max(0.0625, halved(step))


@pytest.mark.parametrize(
    ("skipped", "scale", "code", "told"),
    [
        (range(51, 80), halved, "scale-gone", "From step 51 on every step overflowed: 29 of 80."),
        (range(31, 80, 2), lambda step: 65536.0 * 0.5 ** (step // 2 - 14), "scale-gone",
         "25 of 80 steps overflowed, the first of them step 31."),
        (range(51, 80), floored, "scale-floor",
         "The loss scale fell to its floor. From step 51 on every step overflowed: 29 of 80."),
    ],
)  # fmt: skip
def test_steps_that_overflow_are_counted(
    tmp_path: Path, skipped: range, scale: Callable[[int], float], code: Literal["scale-gone", "scale-floor"], told: str
) -> None:
    """A floor is one only where the scale stays at it."""
    apex(tmp_path, skipped=skipped, scale=scale)
    found = judged(tmp_path)
    assert [(one.code, trouble_words(one, None).text()) for one in found.troubles] == [(code, told)]
    assert (code == "scale-floor") is ("floor" in said(found, code))
    assert found.suspects[0].cause == "loss-scale"


def test_a_falling_scale_alone_is_told_with_its_numbers(tmp_path: Path) -> None:
    scaler_floor(tmp_path)
    (trouble,) = judged(tmp_path).troubles
    assert trouble_words(trouble, None).text() == f"The loss scale fell from {number(65536)} in step 1 to 0.0625 in step 40."


def jumped(ratio: float, leap: float | None) -> tuple[list[float], list[float] | None]:
    """300 steps at one level, 200 at another; leap: of the norm where it changes, None where no norm is logged."""
    losses = [*steady(300, 2.5), *steady(200, 2.5 * ratio, 1)]
    norms = [norm * (leap or 1) if at == 300 else norm for at, norm in enumerate(steady(500, 1.0, 2))]
    return losses, norms if leap else None


@pytest.mark.parametrize("ratio", [2.5, 2.9, 6.0])
def test_a_lasting_jump_with_a_leap_of_the_norm_is_trouble(tmp_path: Path, ratio: float) -> None:
    lines(tmp_path, *jumped(ratio, 480.0))
    found = judged(tmp_path)
    assert [(one.code, one.where) for one in found.troubles] == [("jumped", Where("out.log", 301, 301))]
    text = trouble_words(found.troubles[0], None).text()
    assert text.startswith("The loss leapt from around 2.")
    assert " at step 301 and stayed there; the gradient norm leapt to " in text
    assert found.suspects[0].cause == "learning-rate"


@pytest.mark.parametrize("leap", [None, 1.0])
def test_a_lasting_jump_alone_is_worth_a_note(tmp_path: Path, leap: float | None) -> None:
    """A term that is switched on late looks like this."""
    lines(tmp_path, *jumped(2.9, leap))
    found = judged(tmp_path)
    assert (found.verdict, found.troubles, codes(found)) == ("sound", (), {"level-jump"})
    assert "at step 301 and stayed there" in said(found, "level-jump")


def test_a_term_that_is_switched_on_late_is_no_trouble(tmp_path: Path) -> None:
    """The norm leaps with the loss, and both stay where they are."""
    losses, norms = jumped(4.0, 20.0)
    lines(tmp_path, losses, [norm * 20 if at > 300 else norm for at, norm in enumerate(norms or [])])
    found = judged(tmp_path)
    assert (found.verdict, codes(found)) == ("sound", {"level-jump"})


def test_a_slow_rise_is_worth_a_note(tmp_path: Path) -> None:
    lines(tmp_path, [0.12 + 0.0008 * step for step in range(600)], tag="avr_loss")
    found = judged(tmp_path)
    assert (found.verdict, codes(found)) == ("sound", {"level-rise"})
    assert said(found, "level-rise") == "The loss rose step by step: from around 0.1316 to around 0.5876 at the end."


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (0, "The loss is exactly 0 in all of 200 numbers."),
        (60, "The loss is exactly 0 from step 61 to the end, in 200 numbers; it was around 0.1 before."),
    ],
)
def test_a_loss_of_exactly_nothing_is_worth_a_note(tmp_path: Path, before: int, told: str) -> None:
    lines(tmp_path, [*[0.1] * before, *[0.0] * 200])
    found = judged(tmp_path)
    assert (found.verdict, codes(found), said(found, "loss-zero")) == ("sound", {"loss-zero"}, told)


def test_entries_without_steps_are_counted_in_one_way(tmp_path: Path) -> None:
    entries = [{"loss": loss, "grad_norm": 0.5 if at < 58 else BAD} for at, loss in enumerate(steady(90))]
    (tmp_path / "out.txt").write_text("".join(f"{entry}\n" for entry in entries))
    found = judged(tmp_path)
    texts = [trouble_words(found.troubles[0], found.first).text(), *(sign_words(one).text() for one in found.signs)]
    assert texts[0] == "The gradient norm is not finite from entry 59 on; the log names no steps."
    assert any("in entry 59, while the loss" in one for one in texts)
    assert any("the last of entry 58" in one for one in texts)
    assert not any("step 5" in one for one in texts)
