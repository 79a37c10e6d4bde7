"""TensorBoard's events, CSV, transformers' state, settings and checkpoints, as programs write them; and whole folders."""

import base64
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tests.helpers.run_logs import BAD, events, kohya, metrics_csv, record, scalar_event, trainer_state

from halftone.library.run_logs import events as event_files
from halftone.library.run_logs import tables
from halftone.library.run_logs.checkpoints import step_in_name
from halftone.library.run_logs.folder import Run, read_run
from halftone.library.run_logs.settings import NAMES, STEMS

WRITTEN_BY_TENSORBOARD = (
    "eNrzYICAf5M85nLOaJ6QtOnALUcp3qSixMw8Pdey1LwSK6MgPS6dktS84vyipPzEohS94tLc3MSiSr3yosyS1CK9VJCq+LTMnNR4iMhKyyc3la"
    "DmVgja/uVk7IaYK8CoJcolzMWTk19crJ9cWlQE1CgKVGSvcoTvgCxUR4L+fWVOL4QOAS4+LvacIv3SvNQSUfHtFy30659aoRhfCVPMhNX4Brsz"
    "Jxfwoxi/CKEDw3jDUJU3KMafgClmxmr8gfr/vz8sQzH+JUIHhvF+Dy55ohgv0ANVzILd9fWWUxXNUYzPRejAMH7dnox/JlDFccbiMZxPeuBeVe"
    "dShRqfWJZalJie6sTBwajFAlRp58XNxcnFXpycmJNYVCy/uqzYAmrG4sracE69Xrh/tLk00czg4WAy4oAoPmCPYo7n/+efAbJvuKo="
)
"""A whole file of torch.utils.tensorboard's SummaryWriter: loss/current and lr/unet at steps 1 to 4, the loss NaN at 3 and
infinite at 4, and loss/average in both forms of tensors at 2 and 3. Compressed.
"""
EVENTS = "events.out.tfevents.1700000000.host.1.0"


def losses(run: Run) -> dict[str, list[tuple[int, float]]]:
    return {one.tag: list(zip(one.steps, one.values, strict=True)) for one in run.tracks}


def test_a_file_of_tensorboard_itself(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(zlib.decompress(base64.b64decode(WRITTEN_BY_TENSORBOARD)))
    run = read_run(tmp_path)
    found = losses(run)
    assert found["loss/current"][:2] == [(1, 0.5), (2, 0.25)]
    assert math.isnan(found["loss/current"][2][1])
    assert found["loss/current"][3] == (4, math.inf)
    assert found["loss/average"] == [(2, 0.125), (3, 0.125)]
    assert [step for step, _ in found["lr/unet"]] == [1, 2, 3, 4]
    assert run.notes == ()
    assert run.tracks[0].walls[0] > 1.7e9


def test_the_end_of_an_event_file_that_is_cut_off(tmp_path: Path) -> None:
    """At every length: what is whole is kept."""
    whole = events(tmp_path / EVENTS, [("loss", 1, 0.5), ("loss", 2, 0.25)]).read_bytes()
    one = len(record(scalar_event("loss", 0.25, 2)))
    for missing in range(1, one):
        (tmp_path / EVENTS).write_bytes(whole[:-missing])
        run = read_run(tmp_path)
        assert losses(run) == {"loss": [(1, 0.5)]}
        assert [note.code for note in run.notes] == ["cut-off"]


def test_a_wrong_checksum_is_told(tmp_path: Path) -> None:
    data = bytearray(events(tmp_path / EVENTS, [("loss", 1, 0.5), ("loss", 2, 0.25)]).read_bytes())
    data[-6] ^= 1
    (tmp_path / EVENTS).write_bytes(data)
    run = read_run(tmp_path)
    assert losses(run) == {"loss": [(1, 0.5)]}
    assert [note.code for note in run.notes] == ["damaged"]


def test_pictures_in_an_event_file_are_passed_over(tmp_path: Path) -> None:
    parts = (record(b"\x00" * 100_000), record(scalar_event("loss", 0.5, 1)), record(b"\xff\xff\xff"))
    (tmp_path / EVENTS).write_bytes(b"".join(parts))
    run = read_run(tmp_path)
    assert losses(run) == {"loss": [(1, 0.5)]}
    assert [note.code for note in run.notes] == ["damaged"]


def test_lightnings_table(tmp_path: Path) -> None:
    rows = [
        {"epoch": 0, "step": 9, "train_loss": 0.5},
        {"step": 9, "lr-AdamW": 1e-3},
        {"epoch": 0, "step": 19, "train_loss": BAD},
        {"epoch": 0, "step": 19, "val_loss": 0.7},
    ]
    metrics_csv(tmp_path / "metrics.csv", rows)
    run = read_run(tmp_path)
    (loss,) = [one for one in run.tracks if one.tag == "train_loss"]
    assert list(loss.steps) == [9, 19]
    assert list(loss.lines) == [2, 4]
    assert math.isnan(loss.values[1])
    assert losses(run)["lr-AdamW"] == [(9, 1e-3)]
    assert [one.quantity for one in run.tracks if one.tag == "val_loss"] == ["validation"]


def test_a_table_that_tensorboard_exported(tmp_path: Path) -> None:
    (tmp_path / "run-a-tag-loss_average.csv").write_text("Wall time,Step,Value\n1700000000.5,1,0.5\n1700000001.5,2,nan\n")
    (track,) = read_run(tmp_path).tracks
    assert (track.quantity, list(track.steps), track.walls[0]) == ("loss", [1, 2], 1700000000.5)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "name;caption\nx;loss\n", '"\n'])
def test_other_tables_say_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert read_run(tmp_path).tracks == ()


def test_transformers_state(tmp_path: Path) -> None:
    path = trainer_state(
        tmp_path / "trainer_state.json",
        [
            {"epoch": 0.1, "grad_norm": 1.5, "learning_rate": 1e-5, "loss": 0.5, "step": 10},
            {"epoch": 0.2, "grad_norm": BAD, "learning_rate": 1e-5, "loss": 0.0, "step": 20},
            {"epoch": 0.2, "eval_loss": 0.4, "step": 20},
        ],
    )
    (norm,) = [one for one in read_run(tmp_path).tracks if one.tag == "grad_norm"]
    assert list(norm.steps) == [10, 20]
    assert math.isnan(norm.values[1])
    assert "NaN" in path.read_text().split("\n")[norm.lines[1] - 1]


def test_transformers_state_that_is_cut_off(tmp_path: Path) -> None:
    path = trainer_state(tmp_path / "trainer_state.json", [{"loss": 0.5, "step": 10}, {"loss": BAD, "step": 20}])
    path.write_text(path.read_text()[: path.read_text().rindex("NaN")])
    run = read_run(tmp_path)
    assert losses(run) == {"loss": [(10, 0.5)]}
    assert [note.code for note in run.notes] == ["cut-off"]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "config.toml",
            '[training]\nmixed_precision = "fp16"\noptimizer_args = ["weight_decay=0.01", "eps=1e-8"]\nfull_fp16 = true\n',
            {"precision": ("fp16", 2), "optimizer-arguments": ("weight_decay=0.01 eps=1e-8", 3), "half-weights": ("true", 4)},
        ),
        (
            "my-lora.json",
            '{\n "learning_rate": 0.0001,\n "no_half_vae": true,\n "max_grad_norm": 0\n}',
            {"rate": ("0.0001", 2), "vae-float32": ("true", 3), "clip": ("0", 4)},
        ),
        (
            "hparams.yaml",
            "precision: 16-mixed\nlearning_rate: 0.001\nmodel: !!python/object:torch.nn.Module {}\n",
            {"precision": ("16-mixed", 1), "rate": ("0.001", 2)},
        ),
        ("default_config.yaml", "compute_environment: LOCAL_MACHINE\nmixed_precision: 'no'\n", {"precision": ("no", 2)}),
        (
            "out.log",
            "launch train.py --mixed_precision=fp16 --learning_rate 8e-06 --adam_epsilon 1e-8\nenable full fp16 training.\n",
            {"precision": ("fp16", 1), "rate": ("8e-06", 1), "epsilon": ("1e-8", 1), "half-weights": ("true", 2)},
        ),
        (
            "out2.log",
            "Mixed precision type: fp16\nNamespace(lr_scheduler='constant', train_batch_size=4, max_grad_norm=1.0)\n",
            {"precision": ("fp16", 1), "schedule": ("constant", 2), "batch": ("4", 2), "clip": ("1.0", 2)},
        ),
        ("out3.log", "\t`--mixed_precision` was set to a value of `'no'`\n", {}),
        ("config.json", '{"torch_dtype": "float16", "lr": 3}', {}),
        ("broken.json", '{"lr": ', {}),
    ],
)
def test_settings(tmp_path: Path, name: str, text: str, wanted: dict[str, tuple[str, int]]) -> None:
    (tmp_path / name).write_text(text)
    found = {one.name: (one.value, one.line) for one in read_run(tmp_path).settings}
    assert found == wanted


def test_the_quick_look_for_settings_misses_none() -> None:
    others = [other for names in NAMES.values() for other in names]
    assert [other for other in others if not any(stem in other for stem in STEMS)] == []


def test_settings_in_a_loras_header(tmp_path: Path) -> None:
    save_file({"a": np.zeros(4, np.float16)}, tmp_path / "x.safetensors", {"ss_mixed_precision": "fp16", "ss_steps": "70"})
    run = read_run(tmp_path)
    assert [(one.name, one.value) for one in run.settings] == [("precision", "fp16")]
    assert run.checkpoints[0].step == 70
    assert run.trainer == "sd-scripts"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500/model.safetensors", 500),
        ("last-step00000500.safetensors", 500),
        ("epoch=1-step=200.safetensors", 200),
        ("global_step70/model.safetensors", 70),
        ("last-000003.safetensors", None),
        ("model.safetensors", None),
    ],
)
def test_steps_in_names(name: str, step: int | None) -> None:
    assert step_in_name(name) == step


def test_a_whole_folder(tmp_path: Path) -> None:
    """Checkpoints in the order of their steps; pickles only counted; what is hidden or no log left out."""
    kohya(tmp_path / "out.log", [0.1])
    for step, bad in ((9, 0.0), (10, BAD)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        tensors = {"a": np.array([1, bad], np.float16), "b": np.ones(3, np.float32)}
        save_file(tensors, tmp_path / f"checkpoint-{step}" / "model.safetensors")
    (tmp_path / "checkpoint-9" / "optimizer.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    (tmp_path / "checkpoint-11").mkdir()
    (tmp_path / "checkpoint-11" / "model.safetensors").write_bytes(b"no")
    (tmp_path / ".cache").mkdir()
    kohya(tmp_path / ".cache" / "out.log", [BAD])
    (tmp_path / "sample.png").write_bytes(b"\x89PNG\0loss=nan")
    (tmp_path / "image.log").write_bytes(bytes(range(256)) * 20)
    run = read_run(tmp_path)
    assert run.logs == ("out.log",)
    assert run.pickles == ("checkpoint-9/optimizer.bin",)
    assert [(one.step, len(one.bad), bool(one.problem)) for one in run.checkpoints] == [
        (9, 0, False),
        (10, 1, False),
        (11, 0, True),
    ]
    assert run.checkpoints[1].kinds == {"F16": (1, 1), "F32": (1, 0)}


def test_events_are_read_alike_together_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of any length, several tags, both forms of scalars, and records that are none of them."""
    steps = [0, 1, 127, 128, 16383, 16384, 2**31, 2**40, 2**62, *range(300)]
    made = [scalar_event(tag, at / 7, step, 1.7e9 + at) for at, step in enumerate(steps) for tag in ("loss", "lr/unet", "x")]
    made[40:40] = [b"", b"\x00", b"\xff" * 30, scalar_event("loss", BAD, 5), scalar_event("loss", math.inf, 6, 0.0)] * 3
    known = zlib.decompress(base64.b64decode(WRITTEN_BY_TENSORBOARD))
    (tmp_path / EVENTS).write_bytes(b"".join(map(record, made)) + known)

    def read() -> tuple[object, ...]:
        run = read_run(tmp_path)
        rows = {one.tag: [repr(point) for point in map(one.__getitem__, range(len(one)))] for one in run.tracks}
        return rows, sorted(run.notes, key=str)

    together = read()
    monkeypatch.setattr(event_files, "_LAYOUTS", 0)
    alone = read()
    monkeypatch.setattr(event_files, "_LAYOUTS", 32)
    monkeypatch.setattr(event_files, "_CHUNK", 100)
    assert together == alone == read()


@pytest.mark.parametrize("at", [3, 9, 14, 60, 200])
def test_what_stands_before_a_wrong_checksum_counts(tmp_path: Path, at: int) -> None:
    records = [record(scalar_event("loss", 0.5, step)) for step in range(12)]
    data = bytearray(b"".join(records))
    data[at] ^= 1
    (tmp_path / EVENTS).write_bytes(data)
    run = read_run(tmp_path)
    assert [one.code for one in run.notes] == ["damaged"]
    assert sum(map(len, run.tracks)) == at // len(records[0])


def test_large_records_are_passed_over(tmp_path: Path) -> None:
    """Pictures between the numbers, also longer ones than what is read in one go."""
    loss = [record(scalar_event("loss", 0.5, step)) for step in range(3)]
    large = [record(bytes(20_000)), record(bytes(5_000_000))]
    (tmp_path / EVENTS).write_bytes(loss[0] + large[0] + loss[1] + large[1] + loss[2])
    assert [step for step, _ in losses(read_run(tmp_path))["loss"]] == [0, 1, 2]
    (tmp_path / EVENTS).write_bytes(loss[0] + large[1][:-500])
    assert [one.code for one in read_run(tmp_path).notes] == ["cut-off"]


_CELLS = st.sampled_from(("", "", "0.5", "nan", "inf", "nan.0", "1e-5", "x", " ", "7", '"8"', "-1", "1.5"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(("step", "epoch", "train_loss", "lr", "log_scale", "timestamp", "other", "step")), max_size=6),
    rows=st.lists(st.lists(_CELLS, max_size=7), max_size=6),
    whole=st.booleans(),
)
def test_tables_are_read_alike_by_columns_and_by_lines(
    tmp_path: Path, names: list[str], rows: list[list[str]], whole: bool
) -> None:
    head = [*names, "loss"]
    told = [
        [str(at) if whole and name == "step" else cell for name, cell in zip(head, row, strict=False)]
        for at, row in enumerate(rows)
    ]
    lines = [",".join(row) for row in (head, *told)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    by_columns = read_run(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables._Table, "_by_columns", lambda *_: False)
        by_lines = read_run(tmp_path)
    assert {tag: repr(values) for tag, values in losses(by_columns).items()} == {
        tag: repr(values) for tag, values in losses(by_lines).items()
    }
