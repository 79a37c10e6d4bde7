"""The commands with a scripted engine: what they print, keep and return."""

import io
import json
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from PIL import Image
from tests.helpers import samples
from tests.helpers.kept import ASKED, write_kept
from tests.helpers.model_files import ramp, safetensors, write_folder, write_json
from tests.helpers.scripted import AnyAction, Fail, Picture, Print, ScriptedEngine, Steps, Throw
from typer.main import get_command

from halftone.cli import main
from halftone.cli.app import application
from halftone.cli.jobs.hardware import names_here, possible_kinds
from halftone.cli.reports.json_objects import finite
from halftone.contract.engine import Control, Emit
from halftone.contract.errors import Fact
from halftone.contract.facts import CheckReport, RepairReport
from halftone.contract.messages import Examine, Repair
from halftone.contract.request import CheckInputs, Lora, Numerics, PictureRequest
from halftone.gallery.history import History
from halftone.library.learned import recall, remember
from halftone.library.models import describe
from halftone.library.records import load_report, save_report, save_selftest
from halftone.settings.picture_files import has_jpeg_xl
from halftone.settings.places import checks_dir, data_dir, latents_dir, pictures_dir, resources
from halftone.settings.store import Settings, load, save


class Run:
    """One command line in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.code = -1
        self.out = ""
        self.err = ""

    def __call__(self, *words: str, **script: Sequence[AnyAction]) -> "Run":
        self.code = main(words, engine=lambda: ScriptedEngine(script))
        self.out, self.err = self._capture.readouterr()
        return self

    @property
    def object(self) -> dict[str, Any]:
        """The one object on stdout."""
        return json.loads(self.out, parse_constant=pytest.fail)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write_folder(tmp_path / "tiny"))


@pytest.fixture
def fragile(tmp_path: Path) -> str:
    return str(write_folder(tmp_path / "fragile"))


def test_a_size_that_no_memory_can_hold_is_refused_before_it_starts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.swap_memory", lambda: SimpleNamespace(total=2**30))
    size = ["--width", "16384", "--height", "16384"]
    refused = run("generate", "x", "--model", "pocket", "--precision", "float32", *size)
    assert refused.code != 0
    assert "This size does not fit: 16384 × 16384 pixels need about " in refused.err
    assert "\u00a0GB, and there are 9.7\u00a0GB" in refused.err
    assert not list(pictures_dir().iterdir())
    assert run("generate", "x", "--model", "pocket", "--precision", "float32", "--width", "1024", "--height", "1024").code == 0


def test_a_size_far_above_the_models_own_is_told_with_its_time(run: Run) -> None:
    big = ["generate", "x", "--model", "pocket", "--precision", "float32", "--width", "1024", "--height", "512", "--steps", "4"]
    small = ["generate", "x", "--model", "pocket", "--precision", "float32"]
    assert "times the native pixels" not in run(*small, "--seed", "1").err, "the model's own size needs no word"
    with History() as history:
        known = [entry.facts for entry in history.recent()]
    told = run(*big, "--seed", "2").err
    side = describe("pocket").native_width
    assert f"1024 × 512 has {round(1024 * 512 / side**2)} times the native pixels." in told
    assert "It needs about " in told
    assert f" at {known[0].width} × {known[0].height}, {known[0].steps} steps. It needs" in told


def test_a_large_start_picture_is_warned_of_as_a_large_size_is(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a size the result is as large as its start picture."""
    Image.new("RGB", (1024, 512)).save(tmp_path / "start.png")
    words = ["generate", "x", "--model", "pocket", "--precision", "float32", "--image", str(tmp_path / "start.png")]
    assert "1024 × 512 has 32 times the native pixels." in run(*words).err
    assert "times the native pixels" not in run(*words, "--width", "128").err
    monkeypatch.setattr("psutil.swap_memory", lambda: SimpleNamespace(total=2**30))
    refused = run(*words, "--width", "16384", "--height", "16384")
    assert refused.code != 0
    assert "This size does not fit: 16384 × 16384 pixels need about " in refused.err


def test_a_size_of_which_nothing_is_known_is_said_not_to_be_measured(run: Run) -> None:
    told = run("generate", "x", "--model", "pocket", "--precision", "float32", "--width", "1024", "--height", "512").err
    assert "This may take very long." in told


def test_a_healthy_model(run: Run, model: str) -> None:
    found = run("check", model, "--precision", "float16", "--json").object
    assert run.code == 0
    assert list(found) == [
        "schema",
        "model",
        "device",
        "precision",
        "precision_reason",
        "verdict",
        "findings",
        "known",
        "plan",
        "cures",
        "components",
        "seconds",
        "made_up_inputs",
        "ran",
    ]
    assert found["ran"] == []
    assert found["verdict"] == "healthy"
    assert set(found["plan"]) == {
        "dtypes",
        "rescale",
        "upcast",
        "rescale_deviation",
        "results_in_float32",
        "scaled_inputs",
        "settings",
        "upcast_parameters",
        "total_parameters",
        "error",
        "verified",
        "reasons",
    }


def test_a_check_writes_a_page_and_never_over_another_file_unasked(run: Run, model: str, tmp_path: Path) -> None:
    page = tmp_path / "tiny.html"
    assert run("check", model, "--precision", "float16", "--report", str(page)).code == 0
    assert f"Report written: {page}" in run.err
    written = page.read_text("utf-8")
    assert written.startswith("<!doctype html>")
    assert "is healthy in FP16" in written
    page.write_text("MINE")
    refused = run("check", model, "--precision", "float16", "--report", str(page), "--json")
    assert refused.code == 2
    assert refused.object["error"]["code"] == "output-exists"
    assert page.read_text() == "MINE"
    assert run("check", model, "--precision", "float16", "--report", str(page), "--overwrite").code == 0
    assert page.read_text("utf-8") != "MINE"


@pytest.mark.parametrize(
    ("name", "code"), [("a.png", "output-bad-type"), ("", "output-bad-type"), ("none/a.html", "output-folder-missing")]
)
def test_a_page_that_could_not_be_written_is_refused_before_the_check(
    run: Run, model: str, tmp_path: Path, name: str, code: str
) -> None:
    refused = run("check", model, "--report", str(tmp_path / name), "--json")
    assert refused.code == 2
    assert refused.object["error"]["code"] == code
    assert not list(checks_dir().iterdir()), "nothing was checked"


def test_a_model_that_overflows(run: Run, fragile: str) -> None:
    found = run("check", fragile, "--json", "--layers").object
    assert run.code == 1
    finding = found["findings"][0]
    assert list(finding) == ["code", "component", "module", "dtype", "peak", "limit", "step", "message", "remedy", "further"]
    assert found["plan"]["rescale"] == {"vae": ["decoder.conv_in"]}
    assert [layer["peak"] for layer in found["layers"]] == [900.0, 14_000.0, 212_000.0, 80_000.0]


def test_a_report_for_people(run: Run, fragile: str, model: str) -> None:
    text = run("check", fragile, "--layers").out
    assert run.code == 1
    for part in (
        "A cure is ready.",
        "limit 65\u202f504",
        "Rescale in memory",
        "--apply",
        "halftone repair",
        "decoder.up_blocks.3",
    ):
        assert part in text
    assert "healthy in FP16" in run("check", model).out


def test_a_cure_is_applied_on_request(run: Run, fragile: str) -> None:
    text = run("check", fragile, "--apply").out
    assert run.code == 0
    assert "works in FP16" in text
    assert "with its cure, which is in use" in text
    assert "It is used with this model on this device." in text
    run("check", fragile)
    assert run.code == 0, "it holds, with the cure that is in force"


def test_another_check_keeps_the_cure_in_force_or_says_that_it_ended(run: Run, fragile: str) -> None:
    facts = msgspec.structs.replace(samples.POCKET, id=fragile)
    run("check", fragile, "--precision", "float16", "--apply")
    run("check", fragile, "--precision", "float16")
    kept = load_report(facts, samples.CPU, "float16")
    assert kept is not None
    assert kept.applied
    other = msgspec.structs.replace(kept.plan, rescale={"vae": {"decoder.conv_in.weight": -9}})
    save_report(msgspec.structs.replace(kept, plan=other))
    assert "no longer used" in run("check", fragile, "--precision", "float16").err
    ended = load_report(facts, samples.CPU, "float16")
    assert ended is not None
    assert not ended.applied


def test_a_cure_is_undone_on_request(run: Run, fragile: str) -> None:
    facts = describe(fragile)
    assert run("check", fragile, "--undo").out == "No cure is in use for fragile.\n"
    run("check", fragile, "--precision", "float16", "--apply")
    kept = load_report(msgspec.structs.replace(samples.POCKET, id=fragile), samples.CPU, "float16")
    assert kept is not None
    save_report(msgspec.structs.replace(kept, model=facts))
    remember(facts, samples.CPU, "float16", kept.plan, kept.numerics)
    assert run("check", fragile, "--undo", "--json").object["undone"]
    left = load_report(facts, samples.CPU, "float16")
    assert left is not None
    assert (left.applied, left.findings) == (False, kept.findings)
    assert recall(facts, samples.CPU, "float16", kept.numerics) is None
    assert "given together with --apply" in run("check", fragile, "--undo", "--apply").err
    assert run.code == 2


def test_an_applied_cure_that_a_changed_setting_rules_out_is_told(run: Run, fragile: str, tmp_path: Path) -> None:
    run("check", fragile, "--precision", "float16", "--apply")
    kept = load_report(msgspec.structs.replace(samples.POCKET, id=fragile), samples.CPU, "float16")
    assert kept is not None
    save_report(msgspec.structs.replace(kept, model=describe(fragile)))
    made = ("generate", "a", "--model", fragile, "--precision", "float16", "--output")
    assert "is not used" not in run(*made, str(tmp_path / "a.png")).err
    said = run(*made, str(tmp_path / "b.png"), "--vae-float32", "never").err
    assert "The cure that was applied to fragile is not used. The setting" in said
    assert "changed since the check. Check the model again with --apply." in said


def test_a_model_that_was_not_named_is_told(run: Run, model: str, tmp_path: Path) -> None:
    save(Settings(last_model=model))
    assert "Model: tiny (no --model)." in run("generate", "a", "--output", str(tmp_path / "a.png")).err
    assert "--model" not in run("generate", "a", "--model", model, "--output", str(tmp_path / "b.png")).err
    assert run("generate", "a", "--output", str(tmp_path / "c.png"), "--json").object["images"]


def test_pictures(run: Run, model: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    found = run("generate", "a sun", "--model", model, "--output", str(path), "--json").object
    assert run.code == 0
    assert list(found) == [
        "images",
        "precision",
        "precision_reason",
        "plan",
        "notes",
        "events",
        "seconds",
        "seconds_per_step",
        "asked",
    ]
    assert found["images"][0]["path"] == str(path)
    assert load().last_model == "pocket", "the window opens with the model that was selected there"
    with History() as history:
        assert [entry.facts.path for entry in history.recent()] == [str(path)]
        assert history.recent()[0].thumbnail.startswith(b"\x89PNG")


def test_a_recovered_picture_is_explained(run: Run, model: str) -> None:
    run("generate", "a sun", "-m", model, generate=[Steps(nan_at=2), Picture()])
    assert run.code == 0
    assert "recovered" in run.out
    assert "1 At step 2: UNet" in " ".join(run.out.split())
    assert "went back one step" in " ".join(run.out.split())
    assert f"What you can do:  halftone check {model} --precision float32 --apply" in run.out
    assert str(pictures_dir()) in run.out.replace("\n", "")
    events = run("generate", "a sun", "-m", model, "--json", generate=[Steps(nan_at=2), Picture()]).object["events"]
    assert list(events[0]) == ["step", "component", "module", "kind", "action"]


def test_a_picture_that_could_not_be_recovered(run: Run, model: str) -> None:
    run("generate", "a sun", "-m", model, generate=[Picture(state="not-recovered")])
    assert run.code == 1
    assert run("generate", "a", "-m", model, generate=[]).code == 1, "no picture at all"
    assert "No picture was made" in run.out


def test_a_picture_that_could_not_be_saved_is_saved_elsewhere_as_it_was_asked_for(run: Run, model: str, tmp_path: Path) -> None:
    latents_dir().mkdir(parents=True, exist_ok=True)
    kept = write_kept(latents_dir() / "kept.safetensors", model)
    facts: dict[str, Fact] = {"need": "3 MB", "free": "1 MB", "folder": "/full", "latents": str(kept)}
    words = ["generate", "a sun", "-m", model, "--batch", "3", "-o", str(tmp_path / "a.png"), "--precision", "fp16"]
    run(*words, generate=[Fail(code="disk-full", facts=facts)])
    assert run.code == 2
    said, _, command = run.err.rpartition(":  halftone ")
    assert said.endswith("The picture is not lost; save it elsewhere with")
    other = tmp_path / "other.png"
    again = shlex.split(command.replace("OTHER.png", str(other)))
    assert run(*again).code == 0
    with History() as history:
        request = history.recent()[0].request
    assert (request.prompt, request.negative, request.seed, request.steps) == (ASKED.prompt, ASKED.negative, 7, 4)
    assert (request.model, request.sampler, request.width, request.height) == (model, "Euler", 64, 48)
    assert request.resume_latents == str(kept), "only the rest of it was timed"


def test_the_numbers_that_were_asked_for_are_told(run: Run, model: str) -> None:
    words = ("--steps", "2", "--guidance", "3", "--clip-skip", "2", "--hires", "1.5")
    found = run("generate", "a sun", "-m", model, *words, "--json").object["asked"]
    wanted = {"steps": 2, "guidance": 3.0, "clip_skip": 2, "hires": 1.5}
    assert {name: found.get(name) for name in wanted} == wanted


class Listening(ScriptedEngine):
    """Keeps what a check is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[CheckInputs] = []
        self.precisions: list[str] = []

    def examine(self, command: Examine, emit: Emit, control: Control) -> CheckReport:
        self.asked.append(command.inputs)
        self.precisions.append(command.numerics.precision)
        return super().examine(command, emit, control)


@pytest.mark.parametrize(
    ("pipeline", "words", "options"),
    [
        ("StableDiffusion3Pipeline", ("--shift", "3", "--clip-skip", "2"), {"shift": 3.0, "clip_skip": 1}),
        ("FluxPipeline", ("--flow-shift", "1.15"), {"shift": 1.15}),
        ("StableDiffusionPipeline", ("--guidance-rescale", "0.7"), {"guidance_rescale": 0.7}),
    ],
)
def test_a_check_takes_the_options_of_a_picture(
    run: Run, tmp_path: Path, pipeline: str, words: tuple[str, ...], options: dict[str, float]
) -> None:
    engine = Listening()
    assert main(["check", str(write_folder(tmp_path / "m", pipeline)), *words], engine=lambda: engine) == 0
    assert [asked.options for asked in engine.asked] == [options]
    assert run("check", "pocket", "--shift", "3").code == 2
    assert "This model's pipeline has no option --shift." in run.err


@pytest.mark.parametrize(("given", "options"), [("1", {}), ("2", {"clip_skip": 1})])
def test_clip_skip_counts_as_a1111_does(run: Run, model: str, given: str, options: dict[str, int]) -> None:
    run("generate", "a sun", "-m", model, "--clip-skip", given)
    with History() as history:
        assert history.recent()[0].request.options == options


@pytest.mark.parametrize("more", [["a sun"], ["--seed", "8"], ["--batch", "2"], ["--option", "eta=1"], ["--sampler", "DDIM"]])
def test_kept_latents_say_themselves_what_was_asked_for(run: Run, model: str, tmp_path: Path, more: list[str]) -> None:
    kept = write_kept(tmp_path / "kept.safetensors", model)
    assert run("generate", *more, "--latents", str(kept)).code == 2
    assert "given together with --latents. Use only --latents" in run.err


def test_a_picture_to_start_from_means_the_same_from_another_folder(
    run: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("image", "mask"):
        Image.new("RGB", (64, 64), "white").save(tmp_path / f"{name}.png")
    monkeypatch.chdir(tmp_path)
    assert run("generate", "a", "-m", model, "--image", "image.png", "--mask", "mask.png").code == 0
    with History() as history:
        request = history.recent(1)[0].request
    assert (request.image, request.mask) == (str(tmp_path / "image.png"), str(tmp_path / "mask.png"))


@pytest.mark.parametrize("where", ["elsewhere", "known", "own"])
def test_kept_latents_from_elsewhere_read_no_file_that_the_user_did_not_name(
    run: Run, model: str, tmp_path: Path, where: str
) -> None:
    for folder in ("loot", "mine"):
        (tmp_path / folder).mkdir()
    lora = tmp_path / ("mine" if where == "known" else "loot") / "grain.safetensors"
    lora.write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    save(Settings(lora_folders=(str(tmp_path / "mine"),)))
    folder = latents_dir() if where == "own" else tmp_path / "mine"
    asked = PictureRequest(prompt="a", model=model, loras=(Lora(path=str(lora)),))
    kept = write_kept(folder / "kept.safetensors", model, describe(model).fingerprint, asked=asked)
    found = run("generate", "--latents", str(kept), "-m", model)
    if where == "elsewhere":
        assert found.code == 2
        assert found.err.startswith(f"The latents {kept} need {lora}, which is outside your folders. Halftone does not read it.")
        assert str(latents_dir()) in found.err
    else:
        assert found.code == 0


def test_kept_latents_of_another_model_or_none_are_refused(run: Run, model: str, tmp_path: Path) -> None:
    kept = write_kept(tmp_path / "kept.safetensors", str(tmp_path / "fragile"))
    assert run("generate", "--latents", str(kept), "-m", model, "--json").object["error"]["code"] == "latents-other-model"
    kept.unlink()
    assert run("generate", "--latents", str(kept), "--json").object["error"]["code"] == "latents-missing"
    (tmp_path / "a.png").write_bytes(b"x")
    assert run("generate", "--latents", str(tmp_path / "a.png"), "--json").object["error"]["code"] == "latents-unreadable"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (Fail(code="out-of-memory", facts={"detail": "x"}), 2, "does not fit"),
        (Throw(kind="keyboard-interrupt"), 130, "Cancelled"),
    ],
)
def test_what_was_made_is_kept_and_named_when_the_job_does_not_end_well(
    run: Run, model: str, tmp_path: Path, end: AnyAction, code: int, said: str
) -> None:
    path = tmp_path / "a.png"
    words = ("generate", "a sun", "-m", model, "--precision", "fp16", "-o", str(tmp_path))
    found = run(*words, generate=[Picture(path=str(path)), end])
    assert found.code == code
    first, *rest = found.err.splitlines()
    assert first == f"Already finished: {path}"
    assert said in rest[-1]
    with History() as history:
        assert [entry.facts.path for entry in history.recent()] == [str(path)]


def test_a_history_of_a_newer_version_is_no_obstacle_and_is_told(run: Run, model: str) -> None:
    with sqlite3.connect(data_dir() / "history.sqlite") as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert run("generate", "a sun", "-m", model, "--precision", "fp16").code == 0
    assert run.err == (
        "The history could not be saved (history.sqlite belongs to a newer Halftone: it has version 99, this one knows 1).\n"
    )


def test_a_repaired_copy(run: Run, model: str, tmp_path: Path) -> None:
    found = run("repair", model, "--output", str(tmp_path / "copy"), "--json").object
    assert run.code == 0
    assert found["path"] == str(tmp_path / "copy")
    assert set(found) == {"path", "changed_tensors", "float32_error", "float16_finite"}
    assert "finite in FP16" in run("repair", model, "--output", str(tmp_path / "copy")).out
    assert "identical to the original in FP32" in run.out
    run("repair", model, "--output", str(tmp_path / "copy"), repair=[Fail(code="no-rescale", facts={"model": "tiny"})])
    assert run.code == 1


@pytest.mark.logs("SelfTest failed")
def test_devices_are_measured_once(run: Run) -> None:
    first = run("devices", "--json").object
    assert run.code == 0
    assert {"schema", "devices", "device", "dtypes", "tests", "speeds", "bits", "effects", "auto", "auto_reason"} <= set(first)
    save_selftest(samples.self_test_report())
    broken = [Fail(code="device-lost", facts={"device": "cpu", "detail": "x"})]
    assert run("devices", selftest=broken).code == 0, "the stored self-test is shown"
    assert "A processor (cpu)" in run.out
    assert run("devices", "--again", selftest=broken).code == 2
    assert "cpu stopped responding" in run.err


def test_a_device_that_is_not_here_is_refused_with_those_that_are(run: Run) -> None:
    said = f"There is no device foo here. Use {names_here()}.\n"
    assert run("devices", "--device", "foo").err == said
    assert run("devices", "--device", "mps").err == said.replace("foo", "mps") or "mps" in possible_kinds()


def test_auto_measures_the_device_before_its_first_job_and_says_what_it_took(run: Run, model: str) -> None:
    first = run("generate", "a sun", "-m", model)
    assert "Measuring A processor" in first.err
    said = "Precision, as measured on this device: FP16 is slower than FP32 on this processor."
    assert said in " ".join(first.out.split())
    again = run("generate", "a sun", "-m", model, selftest=[Throw(kind="value-error")])
    assert again.code == 0, "what was measured is kept"
    assert again.err == ""
    assert said in " ".join(again.out.split())
    found = run("generate", "a sun", "-m", model, "--json").object
    assert (found["precision"], found["precision_reason"]) == ("float32", "FP16 is slower than FP32 on this processor.")
    assert said in " ".join(run("check", model).out.split())
    assert run("check", model, "--json").object["precision_reason"] == "FP16 is slower than FP32 on this processor."


@pytest.mark.parametrize("words", [["generate", "a sun", "-m"], ["check"]])
def test_a_given_precision_needs_no_measuring(run: Run, model: str, words: list[str]) -> None:
    found = run(*words, model, "--precision", "float16", selftest=[Throw(kind="value-error")])
    assert found.code == 0
    assert found.err == ""
    assert run(*words, model, "--precision", "float16", "--json").object["precision_reason"] == "FP16, your setting."


@pytest.mark.logs("SelfTest failed")
def test_a_device_that_cannot_be_measured_computes_in_float32_and_this_is_told(run: Run, model: str) -> None:
    found = run("generate", "a sun", "-m", model, selftest=[Throw(kind="value-error", text="scripted")])
    assert found.code == 0
    assert "could not be measured (scripted), so Auto uses FP32" in found.err
    assert "Precision: FP32 until A processor is measured." in " ".join(found.out.split())


@pytest.fixture
def other_family(tmp_path: Path) -> str:
    """A model whose prompts are read by T5 of 120 tokens, as far as its files say."""
    folder = shutil.copytree(describe("pocket").path, tmp_path / "other", ignore=shutil.ignore_patterns("examples", "training"))
    index = folder / "model_index.json"
    index.write_text(
        index.read_text(encoding="utf-8").replace("StableDiffusionPipeline", "PixArtAlphaPipeline"), encoding="utf-8"
    )
    return str(folder)


def test_a_prompt_that_is_cut_is_told(run: Run, other_family: str) -> None:
    found = run(
        "generate", "-m", other_family, "sun " * 70 + "and two red hills " * 30, "--precision", "fp32", "--negative", "red " * 130
    )
    assert found.code == 0
    long, negative = found.err.splitlines()
    assert long.startswith("The prompt has 190 parts of words, and Pocket (demo) reads only the first 119: it ends at ")
    assert "“… and two red hills and”" in long
    assert negative.startswith("The negative prompt has 130 parts of words")
    words = ("generate", "-m", other_family, "--precision", "fp32", "--json")
    assert len(run(*words, "sun " * 120).object["notes"]) == 1
    assert run(*words, "sun " * 119).object["notes"] == []


def test_what_of_a_prompt_is_not_followed_is_told(run: Run, other_family: str) -> None:
    words = ("--precision", "fp32", "--json", "a (red:1.4) sun " + "and hills " * 60)
    assert run("generate", "-m", "pocket", *words).object["notes"] == [], "nothing is cut, and weights are followed"
    cut, weights = run("generate", "-m", other_family, *words).object["notes"]
    assert cut.startswith("The prompt has 123 parts of words")
    assert weights == "This text encoder has no prompt weights; brackets are ignored."


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (("--sampler", "DPM adaptive Karras", "--steps", "7"), True),
        (("--sampler", "dpm_adaptive", "--hires", "2", "--hires-steps", "7"), True),
        (("--sampler", "DPM adaptive Karras"), False),
        (("--sampler", "DPM fast Karras", "--steps", "7"), False),
        (("--steps", "7"), False),
    ],
)
def test_a_number_of_steps_without_effect_is_named(run: Run, words: tuple[str, ...], noted: bool) -> None:
    notes = run("generate", "a sun", "-m", "pocket", "--precision", "fp32", "--json", *words).object["notes"]
    assert [note.partition(":")[0] for note in notes] == ["The number of steps has no effect"] * noted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("generate", "a", "-m", "pocket", "--shift", "3"), "no option --shift. Known options: --clip-skip, "),
        (
            ("generate", "a", "-m", "pocket", "--shift", "3"),
            ", --option eta=VALUE, --option sigmas=VALUE, --option timesteps=VALUE.",
        ),
        (("check", "pocket", "--export", "photoshop"), "--export takes comfyui, a1111, forge or diffusers."),
        (("farm", "submit", "gone.jsonl"), "gone.jsonl. Check the path."),
        (("convert", "gone.ckpt"), "There is no file "),
    ],
)
def test_a_refusal_names_what_can_be_typed(run: Run, words: tuple[str, ...], said: str) -> None:
    assert said in run(*words).err


@pytest.mark.skipif(has_jpeg_xl(), reason="the plugin is here")
@pytest.mark.parametrize("words", [("--format", "jxl"), ("--output", "a.jxl")])
def test_a_format_that_needs_a_package_names_it(run: Run, words: tuple[str, ...]) -> None:
    assert run("generate", "a", *words).err == (
        "Picture format cannot be jxl without the Python package pillow-jxl-plugin. Use png, jpg or webp, or install the "
        "package.\n"
    )


@pytest.mark.parametrize(("command", "said"), [("check", "a1111 or forge"), ("generate", "Number of pictures. Default: 1.")])
def test_the_help_names_values_and_defaults(run: Run, command: str, said: str) -> None:
    assert said in " ".join(run(command, "--help").out.split())


@pytest.mark.parametrize("where", ["python", "descriptor", "child"])
def test_nothing_that_libraries_print_reaches_stdout(run: Run, model: str, where: Any) -> None:
    found = run("check", model, "--json", examine=[Print(text="noise", where=where)])
    assert found.object["verdict"] == "healthy"
    assert "noise" in found.err


@pytest.mark.logs("scripted")
def test_what_was_not_foreseen_is_said_in_one_sentence(run: Run, model: str) -> None:
    run("check", model, "--json", examine=[Throw(kind="value-error", text="scripted")])
    assert run.code == 2
    assert run.object["error"]["code"] == "internal"
    assert "command-line.log" in run.err
    assert "Traceback" not in run.err


def test_cancelling_is_no_error(run: Run, model: str) -> None:
    run("check", model, "--precision", "float16", examine=[Throw(kind="keyboard-interrupt")])
    assert (run.code, run.err.strip()) == (130, "Cancelled.")


def test_the_settings_are_the_base_and_flags_change_them(run: Run, model: str, tmp_path: Path) -> None:
    save(Settings(pictures_folder=str(tmp_path / "mine"), last_model=model))
    assert run("generate", "a").code == 2
    assert "mine does not exist" in run.err
    (tmp_path / "mine").mkdir()
    assert run("generate", "a", "--json").object["images"][0]["path"] == str(tmp_path / "mine" / "picture.png")


@pytest.mark.parametrize("name", ["gone", "whole.safetensors"])
def test_a_last_model_that_does_not_run_is_no_obstacle(run: Run, folder: Path, name: str) -> None:
    save(Settings(last_model=str(folder / name)))
    found = run("check", "--json").object
    assert run.code == 0
    assert found["model"]["path"] == "resources/pocket"


@pytest.mark.logs("settings folder cannot be made")
def test_a_folder_that_takes_no_files_is_told_without_a_traceback(
    run: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HALFTONE_DATA", str(tmp_path / "file" / "data"))
    assert run("check", model, "--json").object["verdict"] == "healthy", "the check itself needs no folder"
    assert "The report could not be saved" in run.err
    assert run("generate", "a", "-m", model).code == 2
    assert "Traceback" not in run.err


@pytest.mark.logs("The self-test could not be kept")
def test_a_measurement_that_cannot_be_kept_is_told_with_the_reason(run: Run, model: str) -> None:
    run("devices")
    (kept,) = checks_dir().iterdir()
    kept.unlink()
    kept.mkdir()
    found = run("generate", "a sun", "-m", model)
    assert found.code == 0
    assert "The measurements could not be saved (is a directory): the next command measures again." in found.err
    said = "Precision, as measured on this device: FP16 is slower than FP32 on this processor."
    assert said in " ".join(found.out.split()), "the engine of this process goes by it"
    shown = run("devices")
    assert shown.code == 0
    assert shown.err == "The measurements could not be saved (is a directory): the next command measures again.\n"


def test_a_cancelled_picture_says_how_far_it_was_and_what_is_kept(run: Run, model: str) -> None:
    words = ["generate", "a", "-m", model, "--precision", "float16"]
    halt = Throw(kind="keyboard-interrupt")
    assert run(*words, generate=[Steps(steps=4), halt]).err.endswith("Cancelled at step 4 of 4, nothing kept.\n")
    assert run(*words, generate=[halt]).err.endswith("Cancelled, nothing kept.\n")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([Steps(steps=4)], "Cancelled at picture 1 of 3, step 4 of 4, nothing kept.\n"),
        ([Steps(steps=4), Picture()], "Cancelled at picture 2 of 3. What was finished before is kept."),
        ([Steps(), Picture(), Steps(steps=6)], "Cancelled at picture 2 of 3, step 6 of 6. What was finished before is kept."),
    ],
)
def test_of_several_pictures_it_is_told_which_one_was_cancelled(run: Run, model: str, script: list[AnyAction], said: str) -> None:
    halt = Throw(kind="keyboard-interrupt")
    assert said in run("generate", "a", "-m", model, "--precision", "float16", "--batch", "3", generate=[*script, halt]).err


def test_a_check_that_auto_runs_in_float32_says_how_float16_is_checked(run: Run, model: str) -> None:
    assert "To check FP16: --precision float16" in run("check", model).out
    assert "To check FP16" not in run("check", model, "--precision", "float32").out


def test_a_folder_that_is_not_there_is_told_as_one(run: Run, model: str, tmp_path: Path) -> None:
    said = "If it is to be a folder, create it first."
    assert said in run("generate", "a", "-m", model, "--batch", "2", "-o", str(tmp_path / "w")).err
    assert said not in run("generate", "a", "-m", model, "-o", str(tmp_path / "w.bmp")).err


def test_measuring_can_be_cancelled_too(run: Run, model: str) -> None:
    assert run("generate", "a", "-m", model, selftest=[Throw(kind="keyboard-interrupt")]).code == 130
    assert run.err.endswith("Cancelled.\n")


def test_numbers_are_finite_or_null() -> None:
    assert finite({"a": [float("nan"), (float("inf"), 1)], "b": {"c": 2.5}}) == {"a": [None, [None, 1]], "b": {"c": 2.5}}


Refusal = tuple[Callable[[Path], list[str]], str]
REFUSALS: list[Refusal] = [
    (lambda folder: ["check", str(folder / "missing")], "model-missing"),
    (lambda folder: ["check", str(folder / "empty")], "model-empty-folder"),
    (lambda folder: ["check", str(folder)], "model-not-a-model"),
    (lambda folder: ["check", str(folder / "a.ckpt")], "model-pickle"),
    (lambda folder: ["check", str(folder / "cut.safetensors")], "model-truncated"),
    (lambda folder: ["check", str(folder / "bad.safetensors")], "model-bad-header"),
    (lambda folder: ["check", str(folder / "lora.safetensors")], "model-unsupported"),
    (lambda folder: ["generate", "a", "--model", str(folder / "whole.safetensors")], "model-unsupported"),
    (lambda folder: ["repair", str(folder / "whole.safetensors"), "--output", str(folder / "copy")], "model-unsupported"),
    (lambda _: ["check", "pocket", "--device", "quantum"], "device-unknown"),
    (lambda _: ["check", "pocket", "--precision", "float8"], "setting-bad-value"),
    (lambda _: ["check", "pocket", "--no-half", "--precision", "fp16"], "setting-bad-value"),
    (lambda _: ["check", "pocket", "--tf32", "--no-tf32"], "setting-bad-value"),
    (lambda _: ["check", "pocket", "--option", "eta"], "setting-bad-value"),
    (lambda _: ["check", "pocket", "--width", "100"], "size-not-multiple"),
    (lambda _: ["check", "pocket", "--steps", "0"], "value-out-of-range"),
    (lambda _: ["check", "pocket", "--image", "/nothing.png"], "image-missing"),
    (lambda folder: ["check", "pocket", "--image", str(folder)], "image-not-file"),
    (lambda folder: ["generate", "a", "--from", str(folder)], "image-not-file"),
    (lambda _: ["generate", "a", "--image", "/dev/null"], "image-not-file"),
    (lambda folder: ["check", "pocket", "--image", str(folder / "mine.png")], "image-unreadable"),
    (lambda folder: ["generate", "a", "--image", str(folder / "mine.png")], "image-unreadable"),
    (lambda _: ["check", "pocket", "--option", "nothing=1"], "option-unknown"),
    (lambda _: ["generate", "a", "--option", "prompt_embeds=1"], "option-unknown"),
    (lambda folder: ["farm", "submit", str(folder / "missing.jsonl")], "file-missing"),
    (lambda _: ["generate", "a", "--clip-skip", "0"], "value-out-of-range"),
    (lambda _: ["generate", "a", "--guidance-rescale", "1.1"], "value-out-of-range"),
    (lambda _: ["check", "pocket", "--cfg-rescale", "nan"], "value-out-of-range"),
    (lambda _: ["generate", "a", "--clip-skip", "2", "--option", "clip_skip=1"], "setting-bad-value"),
    (lambda _: ["generate", "a", "--option", "strength=1"], "setting-bad-value"),
    (lambda _: ["generate", "a", "--num-frames", "3"], "option-unknown"),
    (lambda _: ["generate", "a", "--video", "mp4"], "video-of-pictures"),
    (lambda _: ["generate", "a", "--video", "avi"], "setting-bad-value"),
    (lambda _: ["generate", "a", "--fps", "8"], "video-of-pictures"),
    (lambda _: ["generate", "a", "--fps", "0"], "value-out-of-range"),
    (lambda folder: ["generate", "a", "--output", str(folder / "a.mp4")], "video-of-pictures"),
    (lambda _: ["generate", "a", "--sampler", "Eular"], "setting-bad-value"),
    (lambda _: ["generate", "a", "--option", "eta=much"], "setting-bad-value"),
    (lambda folder: ["generate", "a", "--lora", str(folder / "no.safetensors")], "lora-missing"),
    (lambda folder: ["check", "--lora", f"{folder / 'no.safetensors'}:0.5"], "lora-missing"),
    (lambda folder: ["check", "--lora", str(folder / "whole.safetensors")], "lora-not-a-lora"),
    (lambda _: ["generate", "a", "--lora", "x" * 300 + ":0.5"], "lora-not-a-lora"),
    (lambda _: ["generate", "a", "--lora", "x" * 300 + ".safetensors"], "lora-not-a-lora"),
    (lambda folder: ["check", "--lora", str(folder)], "lora-not-a-lora"),
    (lambda folder: ["check", "--lora", str(folder / "a.ckpt")], "model-pickle"),
    (lambda folder: ["check", "--lora", str(folder / "cut.safetensors")], "model-truncated"),
    (lambda folder: ["generate", "a", "--lora", f"{folder / 'lora.safetensors'}:12"], "value-out-of-range"),
    (lambda folder: ["generate", "a", "--lora", f"{folder / 'lora.safetensors'}:nan"], "value-out-of-range"),
    (lambda _: ["generate", "a <lora:grain:0.5>"], "lora-no-folder"),
    (lambda _: ["check", "--prompt", "a <lora:grain:0.5>"], "lora-no-folder"),
    (lambda _: ["generate", "{a|b <lora:grain:0.5>}"], "lora-no-folder"),
    (lambda _: ["generate", "a <lora:../../grain:1>"], "lora-no-folder"),
    (lambda _: ["generate", "a __../../grain__"], "wildcard-none"),
    (lambda _: ["generate", "a \udcff sun"], "prompt-no-text"),
    (lambda _: ["generate", "a", "--negative", "\udcff"], "prompt-no-text"),
    (lambda _: ["check", "--prompt", "\udcff"], "prompt-no-text"),
    (lambda folder: ["generate", "sun " * 9_000, "--output", str(folder / "a.JPG")], "prompt-too-long"),
    (lambda _: ["generate", "a", "--guidance", "nan"], "value-out-of-range"),
    (lambda _: ["generate", "a", "--seed", "-2"], "value-out-of-range"),
    (lambda _: ["generate", "a", "--batch", "0"], "value-out-of-range"),
    (lambda folder: ["generate", "a", "--output", str(folder / "no" / "a.png")], "output-folder-missing"),
    (lambda folder: ["generate", "a", "--output", str(folder / "mine.png" / "below" / "a.png")], "output-not-folder"),
    (lambda folder: ["generate", "a", "--output", str(folder / "mine.png")], "output-exists"),
    (lambda folder: ["generate", "a", "--output", str(folder / "a.gif")], "output-bad-type"),
    (lambda folder: ["repair", str(folder / "tiny"), "--output", str(folder / "tiny")], "output-exists"),
    (lambda folder: ["repair", str(folder / "tiny"), "--output", str(folder / "no" / "copy")], "output-folder-missing"),
    (lambda folder: ["demo", "fragile", "--output", str(folder / "tiny")], "output-exists"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "tiny")
    for name, content in {
        "a.ckpt": b"\x80",
        "cut.safetensors": safetensors({})[:5],
        "bad.safetensors": b"\x05" + b"\0" * 7 + b"{]}  ",
        "lora.safetensors": safetensors({"lora_unet_a.lora_down.weight": ramp(2)}),
        "whole.safetensors": safetensors({"model.diffusion_model.input_blocks.0.0.weight": ramp(2)}),
        "mine.png": b"mine",
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("refusal", REFUSALS, ids=[f"{number}-{code}" for number, (_, code) in enumerate(REFUSALS)])
def test_bad_input_is_refused_in_one_sentence(run: Run, folder: Path, refusal: Refusal) -> None:
    words, code = refusal
    found = run(*words(folder), "--json")
    assert found.code == 2
    assert found.object["error"]["code"] == code
    assert found.err.count("\n") == 1
    assert "Traceback" not in found.err
    assert (folder / "mine.png").read_bytes() == b"mine"


def test_only_endings_that_a_picture_model_can_write_are_named(run: Run, folder: Path) -> None:
    told = run("generate", "a", "--output", str(folder / "a.gif")).err
    assert told.endswith("End the name with .png, .jpg or .webp.\n")


def test_loras_are_given_by_file_or_named_in_the_prompt(run: Run, folder: Path) -> None:
    save(Settings(lora_folders=(str(folder),)))
    (folder / "soft grain.safetensors").write_bytes((folder / "lora.safetensors").read_bytes())
    words = ["generate", "a sun, <lora:LoRA:0.6> at sea <lora:soft grain>", "-m", str(folder / "tiny")]
    output = str(folder / "a.png")
    assert run(*words, "--lora", f"{folder / 'lora.safetensors'}:-1.5", "--output", output).code == 0
    with History() as history:
        request = history.recent(1)[0].request
    assert request.prompt == "a sun, at sea"
    assert [(lora.name, lora.weight) for lora in request.loras] == [("lora", -1.5), ("lora", 0.6), ("soft grain", 1.0)]
    unknown = run("generate", "<lora:sepia:1> a", "-m", str(folder / "tiny"))
    assert unknown.err.startswith(f"No LoRA sepia in {folder}. There are: lora, soft grain. ")
    for bad in (["a <lora:lora:much>"], ["a", "--lora", f"{folder / 'lora.safetensors'}:much"]):
        assert run("generate", *bad).err.startswith("The weight of the LoRA lora cannot be much. Use a number")
    assert run("generate", "a", "--lora", f"{folder / 'gone.safetensors'}:1,5").err.startswith(
        "The weight of the LoRA gone cannot"
    )
    assert run("generate", "a", "--lora", f"{folder / 'a:b'}").err.startswith("There is no LoRA at ")


def test_a_controlnet_is_given_with_its_picture(run: Run, folder: Path) -> None:
    none = run("generate", "a sun", "-m", "pocket", "--control", f"{folder / 'none'}={folder / 'photo.png'}")
    assert none.err.startswith(f"There is no ControlNet at {folder / 'none'}.")
    net = folder / "net"
    net.mkdir()
    config = {"_class_name": "ControlNetModel", "cross_attention_dim": 768, "block_out_channels": [320, 640]}
    write_json(net / "config.json", config)
    (net / "diffusion_pytorch_model.safetensors").write_bytes(safetensors({"conv_in.weight": ramp(2)}))
    for words in (["generate", "a sun"], ["check"]):
        model = ["-m", "pocket"] if words[0] == "generate" else ["pocket"]
        found = run(*words, *model, "--control", f"{net}={folder / 'none.png'}")
        assert (found.code, found.err.startswith(f"There is no picture at {folder / 'none.png'}.")) == (2, True)
        other = run(*words, *model, "--control", f"{net}={resources() / 'pocket' / 'vae'}")
        assert other.code == 2
        strong = run(*words, *model, "--control", f"{net}={folder / 'none.png'}:70")
        assert strong.err.startswith("The strength of the ControlNet net cannot be 70.0. Choose a value from 0.0 to 10.0.")


def test_a_vae_is_given_by_file_or_folder(run: Run, folder: Path) -> None:
    vae = resources() / "pocket" / "vae"
    assert run("generate", "a sun", "-m", "pocket", "--vae", str(vae), "--output", str(folder / "a.png")).code == 0
    with History() as history:
        assert history.recent(1)[0].request.vae == str(vae)
    for words in (["generate", "a sun", "-m", "pocket"], ["check", "pocket"]):
        none = run(*words, "--vae", str(folder / "none.safetensors"))
        assert none.err.startswith(f"There is no VAE at {folder / 'none.safetensors'}.")
        lora = run(*words, "--vae", str(folder / "lora.safetensors"))
        assert f"Halftone cannot read {folder / 'lora.safetensors'} as a VAE: it is a LoRA." in lora.err
        assert (none.code, lora.code) == (2, 2)


@pytest.mark.parametrize(
    ("flags", "numerics"),
    [
        (["--no-half"], Numerics(precision="float32")),
        (["--no-half-vae"], Numerics(vae_float32="always")),
        (["--upcast-attention"], Numerics(upcast_cross_attention="always")),
        (["--disable-nan-check"], Numerics(nan_check="off")),
        (["--offload", "group"], Numerics(offload="group")),
        (["--medvram"], Numerics(offload="model")),
        (["--lowvram"], Numerics(offload="sequential")),
        (["--upcast-sampling"], Numerics()),
        (["--no-upcast-sampling"], Numerics(upcast_sampling=False)),
        (["--no-half", "--disable-nan-check"], Numerics(precision="float32", nan_check="off")),
    ],
)
def test_names_that_users_of_other_programs_know_set_the_same(
    run: Run, folder: Path, flags: list[str], numerics: Numerics
) -> None:
    words = ["generate", "a", "-m", str(folder / "tiny"), "--output", str(folder / "a.png")]
    assert run(*words, *flags).code == 0
    with History() as history:
        assert history.recent(1)[0].request.numerics == numerics


def test_a_file_may_be_replaced_on_request(run: Run, folder: Path) -> None:
    words = ["generate", "a", "-m", str(folder / "tiny"), "--output", str(folder / "mine.png")]
    said = "Choose another name, or replace it with --overwrite."
    assert run(*words).err.endswith(f"{said}\n")
    assert run(*words, "--json").object["error"]["remedy"] == said
    copy = run("demo", "fragile", "--output", str(folder / "tiny")).err
    assert copy.endswith("Choose another name.\n"), "a model is never replaced"
    assert run("generate", "a", "-m", str(folder / "tiny"), "--output", str(folder / "mine.png"), "--overwrite").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "--stepz", "3"], "halftone check has no option --stepz. Did you mean --steps? See halftone check --help."),
        (["generate", "a", "--sise", "8"], "halftone generate has no option --sise. Did you mean --width and --height?"),
        (
            ["generate", "a", "--scheduler", "karras"],
            'halftone generate has no option --scheduler. Write the schedule after the sampler: --sampler "Euler Karras".',
        ),
        (["generate", "a", "--size=8"], "halftone generate has no option --size. Did you mean --width and --height?"),
        (["devices", "--size", "8"], "halftone devices has no option --size. See halftone devices --help."),
        (["check", "--bogus"], "halftone check has no option --bogus. See halftone check --help."),
        (["--bogus"], "halftone has no option --bogus. See halftone --help."),
        (["chek"], "There is no command chek. Did you mean check? See halftone --help."),
        (["nonsense"], "There is no command nonsense. See halftone --help."),
        (["demo", "fragil"], "There is no command fragil. Did you mean fragile? See halftone demo --help."),
        (["generate"], "halftone generate needs a prompt. See halftone generate --help."),
        (["upscale"], "halftone upscale needs a picture. See halftone upscale --help."),
        (["repair", "pocket"], "halftone repair needs --output. See halftone repair --help."),
        (["generate", "a", "b"], "halftone generate does not know what to do with “b”. Quote values that contain spaces."),
        (["check", "--steps", "many"], "--steps takes a whole number. See halftone check --help."),
        (["check", "--guidance", "much"], "--guidance takes a number. See halftone check --help."),
        (["check", "--steps"], "--steps needs a value. See halftone --help."),
        (["check", "--json=3"], "--json takes no value."),
    ],
)
def test_words_that_mean_nothing_are_refused_in_one_sentence(run: Run, words: list[str], said: str) -> None:
    assert run(*words).code == 2
    assert run.err.startswith(said)
    assert run.err.count("\n") == 1
    assert run.out == ""
    assert run(*words, "--json").err.count("\n") == 1


def test_without_a_word_the_help_is_shown(run: Run) -> None:
    for words in ([], ["demo"]):
        assert "Usage" in run(*words).out
        assert run.err == ""


@pytest.mark.parametrize(
    "words", [["--help"], ["check", "-h"], ["generate", "--help"], ["demo", "fragile", "--help"], ["repair", "-h"]]
)
def test_every_command_explains_itself_with_an_example(run: Run, words: list[str]) -> None:
    assert run(*words).code == 0
    assert "halftone" in run.out
    assert "Example:" in run.out or "Start here:" in run.out
    assert "bool" not in run.out, "a switch takes no value, and the help promises none"


@pytest.mark.parametrize(
    "words", ["", "devices", "check", "generate", "repair", "upscale", "models", "fetch", "gui", "demo", "demo fragile"]
)
def test_the_help_names_every_option_whole_in_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*words.split(), "--help").out
    command: Any = get_command(application())
    for word in words.split():
        command = command.commands[word]
    offered = {name for one in command.params if not one.hidden for name in (*one.opts, *one.secondary_opts)}
    assert {name for name in offered if name.startswith("-")} <= set(re.findall(r"(?<![\w-])--?\w[\w-]*", shown))
    assert max(len(line) for line in shown.splitlines() if not line.startswith(("Example:", "Start here:"))) <= 80


@pytest.mark.parametrize("command", ["generate", "check"])
def test_the_help_names_the_default_model_and_no_figures_of_the_window(run: Run, command: str) -> None:
    shown = " ".join(run(command, "--help").out.split())
    assert "Default: the window's last model, at first pocket." in shown
    assert "Compared with" not in shown
    assert "auto, float16, bfloat16 or float32. FP32 is safest" in shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("more", "told"), [([], True), (["--json"], False)])
def test_a_terminal_is_told_at_once_what_takes_the_first_seconds(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: str, more: list[str], told: bool
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    before: list[str] = []

    def load_engine() -> ScriptedEngine:
        before.append(screen.getvalue())
        return ScriptedEngine({})

    assert main(["generate", "a sun", "-m", model, *more], engine=load_engine) == 0
    capfd.readouterr()
    assert ("Loading the engine (takes some seconds)" in before[0]) == told
    assert screen.getvalue().count("Loading the engine") == int(told), "once"


def test_the_precision_flag_reaches_the_job(run: Run, model: str) -> None:
    assert describe(model).id == model
    assert run("check", model, "--precision", "half", "--no-half-vae", "--upcast-attention", "--json").code == 0


def test_the_version(run: Run) -> None:
    assert run("--version").out == run("--version", "--help").out == "halftone 0.1.0\n"


def test_words_and_seeds_become_the_request(run: Run, model: str, tmp_path: Path) -> None:
    styles = tmp_path / "styles.csv"
    styles.write_text('name,prompt,negative_prompt\nFilm,"{prompt}, film",ink\n', encoding="utf-8-sig")
    (tmp_path / "colour.txt").write_text("red\n")
    words = ["--styles", str(styles), "--style", "film", "--wildcards", str(tmp_path)]
    words += ["--variation-seed", "9", "--variation-strength", "0.3", "--seed-resize-from", "64X128"]
    assert run("generate", "a __colour__ sun", "-m", model, "--seed", "-1", *words).code == 0, run.err
    with History() as history:
        first = history.recent()[0].request
    assert run("generate", "{a|b}", "-m", model, "--no-draw", "--variation-seed", "-1").code == 0, run.err
    with History() as history:
        second = history.recent()[0].request
    assert first.seed is None
    assert [style.prompt for style in first.styles] == ["{prompt}, film"]
    assert first.wildcards == (str(tmp_path),)
    assert (first.variation_seed, first.variation_strength, first.seed_size) == (9, 0.3, (64, 128))
    assert first.draws
    assert (second.draws, second.variation_seed, second.prompt) == (False, None, "{a|b}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a __nothing__"], "The wildcard nothing is unknown: no folder has wildcards."),
        (["a", "--wildcards", "/nowhere"], "The folder /nowhere does not exist"),
        (["a", "--style", "Film"], "There is no style Film"),
        (["a", "--styles", "/no.csv", "--style", "Film"], "There is no styles file at /no.csv"),
        (["a", "--styles", "/no.csv"], "--style NAME as well"),
        (["a", "--seed-resize-from", "big"], "WIDTHxHEIGHT"),
        (["a", "--variation-strength", "2"], "Variation strength cannot be 2"),
    ],
)
def test_words_that_cannot_be_are_refused(run: Run, model: str, words: list[str], said: str) -> None:
    assert run("generate", *words, "-m", model).code == 2
    assert said in run.err


def test_an_export_says_what_to_set(run: Run, fragile: str, capfd: pytest.CaptureFixture[str]) -> None:
    main(["check", fragile, "--export", "comfyui"], engine=Repairing)
    assert "\n      --fp32-vae\n" in capfd.readouterr().out
    found = run("check", fragile, "--export", "diffusers", "--json").object
    assert found["export"]["settings"][0]["where"] == "Python code"
    assert run("check", fragile, "--export", "photoshop").code == 2


class Repairing(ScriptedEngine):
    """Finds what a rescaling cures in a known family, and keeps what is to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Repair] = []

    def examine(self, command: Examine, emit: Emit, control: Control) -> CheckReport:
        found = super().examine(command, emit, control)
        return replace(found, depth=command.depth, model=replace(found.model, family="SDXL", path=command.model))

    def repair(self, command: Repair, emit: Emit, control: Control) -> RepairReport:
        self.asked.append(command)
        return super().repair(command, emit, control)


def test_a_repair_looks_as_thoroughly_as_its_check(fragile: str, tmp_path: Path) -> None:
    engine = Repairing()
    main(["repair", fragile, "--output", str(tmp_path / "a"), "--thorough"], engine=lambda: engine)
    main(["check", fragile, "--thorough", "--export", "diffusers", "--output", str(tmp_path / "b")], engine=lambda: engine)
    assert [asked.depth for asked in engine.asked] == ["thorough", "thorough"]


def test_an_export_writes_the_repaired_file_in_the_programs_layout(
    fragile: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    engine, place = Repairing(), str(tmp_path / "whole")
    main(["check", fragile, "--export", "diffusers", "--output", place, "--json"], engine=lambda: engine)
    assert json.loads(capfd.readouterr().out)["export"]["repaired"]["path"] == place
    assert [(asked.output, asked.layout, asked.depth) for asked in engine.asked] == [(place, "folder", "quick")]
    main(["check", fragile, "--export", "diffusers"], engine=lambda: engine)
    assert "--export diffusers --output fragile-repaired" in capfd.readouterr().out
    assert main(["check", fragile, "--export", "a1111", "--output", place], engine=lambda: engine) == 2
    assert "cannot write this Stable Diffusion 1.x model as one file" in capfd.readouterr().err


def test_a_repaired_file_with_another_vae_is_refused_before_the_check(run: Run, tmp_path: Path) -> None:
    words = ("check", "pocket", "--export", "diffusers", "--output", str(tmp_path / "whole"))
    tried = run(*words, "--vae", str(resources() / "pocket" / "vae"))
    assert tried.code == 2
    assert "--output cannot be given with parts that are not the model's own: a copy cannot hold these." in tried.err


def test_a_sound_model_gets_no_repaired_file(run: Run, model: str, tmp_path: Path) -> None:
    assert run("check", model, "--export", "diffusers", "--output", str(tmp_path / "whole")).code == 0
    assert "No repaired file was written. There is nothing to repair." in run.err
    assert run("check", model, "--output", str(tmp_path / "whole")).code == 2


@pytest.mark.parametrize(("words", "precision"), [([], "float16"), (["--precision", "bf16"], "bfloat16")])
def test_an_export_checks_in_fp16_unless_a_precision_is_named(fragile: str, words: list[str], precision: str) -> None:
    engine = Listening()
    main(["check", fragile, "--export", "diffusers", *words], engine=lambda: engine)
    assert engine.precisions == [precision]


def test_an_unknown_embedding_of_comfyuis_syntax_is_refused_by_name(run: Run) -> None:
    refused = run("generate", "a (embedding:dog.pt:1.2)", "--prompt-syntax", "comfyui").err
    assert refused.startswith("Your folders hold no embedding dog for Pocket")
