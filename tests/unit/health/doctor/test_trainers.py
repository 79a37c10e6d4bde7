"""Every trainer's own form: a sound run says nothing, a bad one says where, after what, and why."""

import math
import random
from pathlib import Path

import pytest
from tests.helpers.run_logs import BAD, steady
from tests.helpers.trainer_logs import STAMP, WRITERS, Writer, ai_toolkit, database, deepspeed, hallo, one_trainer, trellis

from halftone.health.doctor.flags import FLAGS, flag
from halftone.health.doctor.found import Diagnosis, Suspicion
from halftone.health.doctor.judge import diagnose
from halftone.health.doctor.sentences import advice_words
from halftone.library.run_logs.folder import read_run
from halftone.library.run_logs.trainer import TRAINERS, Trainer

every_trainer = pytest.mark.parametrize("write", WRITERS, ids=[write.__name__ for write in WRITERS])


def judged(place: Path) -> Diagnosis:
    return diagnose(read_run(place))


def codes(found: Diagnosis) -> set[str]:
    return {sign.code for sign in found.signs}


@every_trainer
@pytest.mark.parametrize("count", [3, 60, 260])
def test_a_sound_run(tmp_path: Path, write: Writer, count: int) -> None:
    write(tmp_path, steady(count), steady(count, 1.0, 1))
    found = judged(tmp_path)
    assert (found.verdict, found.troubles, found.suspects) == ("sound", (), ())
    assert found.steps is not None
    assert found.steps[1] in {count - 1, count}


NAMES: dict[str, Trainer] = {
    "sd_scripts": "sd-scripts",
    "diffusers_lora": "diffusers",
    "hugging_face": "transformers",
    "hugging_face_5": "transformers",
    "one_trainer": "onetrainer",
    "ai_toolkit": "ai-toolkit",
    "simple_tuner": "simpletuner",
}


@every_trainer
def test_which_trainer_it_is(tmp_path: Path, write: Writer) -> None:
    """Told from all that lies there; remedies are then named as it names them."""
    write(tmp_path, [*steady(100), *[BAD] * 30], [*steady(100, 1.0, 1), *[BAD] * 30])
    run = read_run(tmp_path)
    assert run.trainer == NAMES.get(write.__name__, write.__name__)
    advice = judged(tmp_path).suspects[0].advice
    assert advice[0] == "bfloat16"
    assert f"({flag('bfloat16', run.trainer)})" in advice_words(advice, run.trainer)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_trainer_has_names_for_the_common_remedies(trainer: Trainer) -> None:
    assert {"bfloat16", "clip-1", "lower-rate", "epsilon-1e-4"} <= set(FLAGS[trainer])


def test_names_where_the_trainer_is_not_known() -> None:
    assert (
        advice_words(("clip-1", "cosine"))
        == "Clip gradients at 1 (max_grad_norm 1.0); or let the learning rate fall by a cosine."
    )


@every_trainer
def test_an_overflow_in_a_steady_run(tmp_path: Path, write: Writer) -> None:
    write(tmp_path, [*steady(100), *[BAD] * 30], [*steady(100, 1.0, 1), *[BAD] * 30])
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.quantity == "loss"
    assert found.first.where.step in {100, 101}, "one of them counts from 0"
    assert {"finite-then", "steady", "half"} <= codes(found)
    assert found.suspects[0].cause == "activation-overflow"
    assert found.suspects[0].advice


@every_trainer
def test_a_loss_that_rises_until_it_is_no_number(tmp_path: Path, write: Writer) -> None:
    rising = [*steady(100), *(0.12 * 1.12**at for at in range(40)), BAD, BAD, BAD]
    norms = [*steady(100, 1.0, 1), *(1.3**at for at in range(40)), BAD, BAD, BAD]
    write(tmp_path, rising, norms)
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.where.step in {140, 141}
    assert found.suspects[0].cause in {"learning-rate", "gradient-overflow"}


@every_trainer
def test_a_bad_first_step(tmp_path: Path, write: Writer) -> None:
    write(tmp_path, [BAD] * 5, [BAD] * 5)
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.where.step in {0, 1}
    assert "first-step" in codes(found)


@pytest.mark.parametrize(("write", "cause"), [(hallo, "validation"), (trellis, "optimizer-epsilon")], ids=["hallo", "trellis"])
def test_a_bad_second_step(tmp_path: Path, write: Writer, cause: Suspicion) -> None:
    write(tmp_path, [0.3, BAD, BAD, BAD], [1.0, BAD, BAD, BAD])
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.where.step == 2
    assert "second-step" in codes(found)
    assert found.suspects[0].cause == cause


def test_a_scale_that_looks_for_its_place(tmp_path: Path) -> None:
    norms = [math.inf if at < 4 or at == 90 else norm for at, norm in enumerate(steady(130, 1.0, 1))]
    for write in (deepspeed, trellis):
        (folder := tmp_path / write.__name__).mkdir()
        write(folder, steady(130), norms)
        assert judged(folder).verdict == "sound"


def test_the_error_of_one_trainer_is_a_bad_loss(tmp_path: Path) -> None:
    """Its tables end before: the error alone tells."""
    one_trainer(tmp_path, [*steady(100), BAD], steady(101))
    found = judged(tmp_path)
    assert [one.code for one in found.troubles] == ["nonfinite", "stopped"]
    assert found.first is not None
    assert (found.first.where.file, found.first.where.step) == ("console.log", 101)


@pytest.mark.parametrize("name", ["log.txt", "loss_log.db"])
def test_each_of_two_places_tells_alone(tmp_path: Path, name: str) -> None:
    ai_toolkit(tmp_path, [*steady(100), BAD, *steady(30)], [])
    found = judged(tmp_path / name)
    assert found.first is not None
    assert found.first.where.step in {100, 101}
    assert "recovers" in codes(found)


def test_a_number_that_the_database_has_not(tmp_path: Path) -> None:
    database(
        tmp_path / "loss_log.db", [(step, "loss/loss", loss if step != 30 else None) for step, loss in enumerate(steady(50))]
    )
    found = judged(tmp_path)
    assert found.first is not None
    assert (found.first.where.step, found.first.wall) == (30, 1.7e9 + 30)


@pytest.mark.parametrize(
    "line",
    [
        "If the loss is NaN, try a lower learning rate.",
        "Options: --skip_nan_loss --stop_on_nan",
        "tensorboard: NaN or Inf found in input tensor.",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        "\x1b[93mWarning: NaN detected in gradients. Skipping update.\x1b[0m",
    ],
)
def test_what_is_said_in_sound_runs(tmp_path: Path, line: str) -> None:
    (tmp_path / "out.log").write_text(
        "".join(f"step {at} loss: {loss}\n{line if at == 7 else ''}\n" for at, loss in enumerate(steady(60)))
    )
    assert judged(tmp_path).verdict == "sound"


@pytest.mark.parametrize(
    "line",
    [
        "Loss is nan, stopping training",
        "loss is nan",
        "WARNING: non-finite loss, ending training",
        "ValueError: The loss returned in `training_step` is nan.",
        "RuntimeError: Training loss became NaN.",
        "NaN loss detected at step 61, skipping",
    ],
)
def test_a_bad_loss_in_words(tmp_path: Path, line: str) -> None:
    (tmp_path / "out.log").write_text("".join(f"step {at} loss: {loss}\n" for at, loss in enumerate(steady(60), 1)) + line + "\n")
    found = judged(tmp_path)
    assert found.first is not None
    assert (found.first.where.step, found.first.where.line, found.first.tag) == (61, 61, "loss")


def test_the_lines_of_several_processes(tmp_path: Path) -> None:
    """Each prints its own loss, now one is ahead and now another: that is no new beginning of the run."""
    chance = random.Random(5)
    lines = [(step + chance.random() * 2.5, step, rank) for step in range(1, 121) for rank in range(4)]
    text = "".join(
        f"[rank{rank}]: {STAMP} step {step} loss: {BAD if step > 100 else 0.12 + 0.01 * rank}\n"
        for _, step, rank in sorted(lines)
    )
    (tmp_path / "torchrun.log").write_text(f"Mixed precision type: fp16\n{text}")
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.where.step == 101
    assert {"finite-then", "steady"} <= codes(found)
    assert found.suspects[0].cause == "activation-overflow"


def test_a_resumed_run_is_judged_from_where_it_was_resumed(tmp_path: Path) -> None:
    first = "".join(f"step {at} loss: {loss}\n" for at, loss in enumerate(steady(100), 1))
    again = "".join(f"step {at} loss: {loss}\n" for at, loss in enumerate([*steady(40), BAD], 51))
    (tmp_path / "out.log").write_text(f"{first}Resuming from checkpoint checkpoint-50\n{again}")
    found = judged(tmp_path)
    assert found.first is not None
    assert found.first.where.step == 91
    sign = next(sign for sign in found.signs if sign.code == "finite-then")
    assert sign.values[0] == 40


def test_a_file_of_powershell(tmp_path: Path) -> None:
    """It writes UTF-16, with the bar's carriage returns."""
    hallo(tmp_path, [0.3, *steady(50), BAD], [])
    log = tmp_path / "stage1.log"
    log.write_bytes(log.read_text("utf-8").replace("\n", "\r\n").encode("utf-16"))
    found = judged(log)
    assert found.first is not None
    assert found.first.where.step == 52
