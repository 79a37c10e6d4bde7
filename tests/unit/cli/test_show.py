"""Reports for people, as lines of text."""

import io

import pytest
from msgspec.structs import replace
from rich.console import Console
from tests.helpers import samples

from halftone.cli.jobs.command_jobs import is_good
from halftone.cli.models.export import show_export
from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.reports.json_objects import check_object, devices_object, generate_object
from halftone.cli.reports.printed_reports import show_check, show_devices, show_pictures, show_repair
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, DeviceFacts, DTypeReport, Finding, GenerateReport, PictureFacts
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Extras, Lora, Numerics
from halftone.contract.wording import Words
from halftone.health.device_faults import detours
from halftone.health.explain import finding_words
from halftone.health.other_programs import export
from halftone.health.reports.report_sentences import size_words

AS_SET = ChosenPrecision("float16", Words("{0}, your setting.", ("FP16",)), measured=False)


def lines(report: CheckReport) -> list[str]:
    """What is printed, without empty lines and indents."""
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_check(report, AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    return [line.strip() for line in out.file.getvalue().splitlines() if line.strip()]


def test_the_verdict_and_the_cure_stand_before_the_findings() -> None:
    shown = lines(samples.check_report(fragile=True))
    starts = [
        "✗ Pocket fails in FP16",
        "sd · 4 layers",
        "Cure  Rescale",
        "time ",
        "Exact but for rounding.",
        "Use it from now on:",
        "Write a repaired",
        "1  ",
    ]
    assert [line[: len(start)] for line, start in zip(shown, starts, strict=False)] == starts


@pytest.mark.parametrize(
    ("deviation", "said"),
    [
        ({}, "Exact but for rounding."),
        ({"vae": 0.0123}, "Not exact: the result changed by up to 1.2\u00a0%."),
        (None, "Not measured whether the rescaling is exact."),
    ],
)
def test_a_rescaling_says_whether_it_is_exact(deviation: dict[str, float] | None, said: str) -> None:
    report = samples.check_report(fragile=True)
    cures = tuple(replace(cure, plan=replace(cure.plan, deviation=deviation)) for cure in report.cures)
    assert said in lines(replace(report, cures=cures))


def test_a_rescaled_epsilon_says_that_a_copy_may_differ() -> None:
    report = samples.check_report(fragile=True)
    plan = Plan(rescale={"vae": {"decoder.norm.eps": 2}}, deviation={})
    cures = tuple(replace(cure, plan=plan) if cure.kind == "rescale" else cure for cure in report.cures)
    assert "Exact but for rounding. A copy cannot store norm epsilons, so it may differ." in lines(replace(report, cures=cures))


@pytest.mark.parametrize(
    ("psnr", "error", "said"),
    [
        (None, 0.0012, "picture not compared: the results are within 0.12\u00a0% of FP32"),
        (None, None, "picture not compared"),
        (52.4, 0.0012, "picture 52\u00a0dB from FP32"),
    ],
)
def test_a_picture_that_was_not_compared_is_told_with_the_reason(psnr: float | None, error: float | None, said: str) -> None:
    report = samples.check_report(fragile=True)
    cures = tuple(replace(cure, psnr=psnr, plan=replace(cure.plan, error=error)) for cure in report.cures)
    price = next(line for line in lines(replace(report, cures=cures)) if line.startswith("time "))
    assert price.split(" · ")[-1] == said


def test_a_cure_in_use_is_told_with_the_room_it_gives() -> None:
    report = replace(samples.check_report(fragile=True), applied=True)
    layers = tuple(replace(layer, peak_after=5000.0) for layer in report.layers)
    shown = lines(replace(report, plan=replace(report.plan, verified=True), layers=layers))
    assert shown[0].startswith("✓ Pocket works in FP16")
    assert "least headroom 3.7 bits with the cure, \u22121.7 bits before" in shown[1]
    assert shown.index("Before the cure:") < next(index for index, line in enumerate(shown) if line.startswith("1  "))
    assert "Before the cure:" not in lines(samples.check_report(fragile=True))


def test_the_memory_of_a_cure_is_told_as_computed() -> None:
    report = samples.check_report(fragile=True)
    cure = replace(report.cures[0], memory_bytes=84_000_000)
    assert any("memory +84\u00a0MB, computed" in line for line in lines(replace(report, cures=(cure,))))


def test_a_damaged_file_is_named_with_its_tensor_and_the_remedy_comes_last() -> None:
    facts: dict[str, str | int | float | bool] = {
        "file": "model.safetensors",
        "tensor": "conv_in.weight",
        "count": 1,
        "read": True,
    }
    finding = Finding(
        code="weights-nonfinite", component="vae", module="conv_in", dtype="float16", peak=None, limit=None, facts=facts
    )
    broken = replace(samples.check_report(), verdict="broken", findings=(finding,), cures=())
    shown = lines(broken)
    assert shown[0] == "✗ Pocket has NaN in its file."
    assert "NaN in tensor conv_in.weight of model.safetensors." in shown[-3]
    assert shown[-2:] == ["vae · model.safetensors · conv_in.weight", finding_remedy(finding)]


def test_a_lora_that_is_the_cause_brings_its_remedy() -> None:
    facts: dict[str, str | int | float | bool] = {"lora": "glow", "lora_weight": 0.8, "loras": 1, "lora_share": 0.5}
    finding = Finding(
        code="activation-overflow", component="unet", module="conv_in", dtype="float16", peak=7e4, limit=65504.0, facts=facts
    )
    other = replace(finding, module="conv_out", facts={})
    shown = lines(replace(samples.check_report(fragile=True), findings=(finding, other)))
    remedies = [line for line in shown if line.startswith("Apply the cure")]
    assert remedies == ["Apply the cure, or lower the weight of glow: at 0.4, the same step held."]


def test_pictures_name_what_they_were_made_with() -> None:
    drawn = Lora(path="/l/drawn.safetensors", weight=0.5)
    pictures = (samples.picture_facts("a.png"), replace(samples.picture_facts("b.png"), loras=(drawn,)))
    report = GenerateReport(images=pictures, plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    out = Console(file=io.StringIO(), width=200, highlight=False)
    extras = Extras(loras=(Lora(path="/l/glow.safetensors", weight=0.8), Lora(path="ink")), vae="/v/crisp.safetensors")
    show_pictures(report, "pocket", AS_SET, extras=extras, console=out)
    assert isinstance(out.file, io.StringIO)
    said = out.file.getvalue()
    assert "clean · with the VAE crisp.safetensors and the LoRAs glow 0.8, ink 1\n" in said
    assert "clean · with the VAE crisp.safetensors and the LoRAs glow 0.8, ink 1, drawn 0.5\n" in said
    shown = generate_object(report, AS_SET, ())["images"]
    assert ["loras" in one for one in shown] == [False, True]
    assert shown[1]["loras"] == [{"path": "/l/drawn.safetensors", "weight": 0.5}]


def test_a_damaged_lora_is_named_and_the_model_is_not_blamed() -> None:
    facts: dict[str, str | int | float | bool] = {"lora": "glow", "file": "glow.safetensors", "tensor": "up", "read": True}
    finding = Finding(code="weights-nonfinite", component="unet", module="m", dtype="float16", peak=None, limit=None, facts=facts)
    shown = lines(replace(samples.check_report(), verdict="broken", findings=(finding,), cures=()))
    assert shown[0] == "✗ The LoRA glow has NaN, so Pocket cannot run with it."


def finding_remedy(finding: Finding) -> str:
    return finding_words(finding)[1].text()


def test_what_others_met_stands_under_a_heading_of_its_own_after_the_findings() -> None:
    sdxl = replace(samples.POCKET, family="SDXL", components=("unet", "vae"))
    shown = lines(replace(samples.check_report(fragile=True), model=sdxl))
    heading = shown.index("Reported by other users, not measured here:")
    assert shown.index(next(line for line in shown if line.startswith("1  "))) < heading
    assert shown[heading + 1].startswith("–  The SDXL VAE decoder overflows in FP16")
    assert "What helped: An exact rescaling" in shown[heading + 1]
    assert "diffusers #4325" in shown[heading + 2]
    assert shown[heading + 2].endswith("cause found")


def test_where_nothing_is_known_there_is_no_heading() -> None:
    assert not [line for line in lines(samples.check_report(fragile=True)) if line.startswith("Known")]


def test_known_troubles_stand_in_the_object() -> None:
    sdxl = replace(samples.POCKET, family="SDXL", components=("unet", "vae"))
    found = check_object(replace(samples.check_report(fragile=True), model=sdxl), AS_SET, layers=False)["known"]
    assert [trouble["id"] for trouble in found] == ["sdxl-vae", "sdxl-vae-encode"]
    assert set(found[0]) == {"id", "what", "helps", "sources", "sure"}


def test_a_device_tells_what_others_met_on_it() -> None:
    card = DeviceFacts(id="cuda:0", backend="cuda", name="NVIDIA GeForce GTX 1660", torch_version="2.13.0")
    report = replace(samples.self_test_report(), device=card)
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_devices((card,), report, Numerics(), console=out)
    assert isinstance(out.file, io.StringIO)
    assert "Reported by other users" in out.file.getvalue()
    assert [trouble["id"] for trouble in devices_object((card,), report)["known"]] == ["gtx16-fp16"]


@pytest.mark.parametrize(
    ("threads", "details", "said"),
    [
        (1, {"cores": "2", "threads": "2"}, "1 of 2 threads in use · Cores: 2"),
        (1, {"cores": "2"}, "1 thread in use · Cores: 2"),
        (None, {"threads": "2"}, "Threads: 2"),
    ],
)
def test_the_threads_of_a_device_are_told_once(threads: int | None, details: dict[str, str], said: str) -> None:
    device = replace(samples.CPU, threads=threads, details=details)
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_devices((device,), replace(samples.self_test_report(), device=device), Numerics(), console=out)
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue().splitlines()[1].endswith(f"PyTorch 2.13.0 · {said}")


def test_a_device_tells_each_way_around_its_faults() -> None:
    sample = samples.self_test_report()
    test = replace(sample.tests[0], mode="float16", outcome="wrong")
    bad = (replace(test, operation="attention-backend", backend="flash"), replace(test, operation="copies"))
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_devices((), replace(sample, tests=bad), Numerics(), console=out)
    assert isinstance(out.file, io.StringIO)
    ways = [line.strip() for line in out.file.getvalue().splitlines() if "the self-test" in line]
    assert ways == list(map(str, detours(replace(sample, tests=bad), "auto")))
    assert len(ways) == 2


def test_a_device_tells_what_was_tested_in_whole_sentences() -> None:
    sample = samples.self_test_report()
    tests = (*(replace(sample.tests[0], operation=name) for name in ("matmul", "copies", "matmul")),)
    types = tuple(
        DTypeReport(dtype=name, state="works", reason=Words("3 tests passed."), speed=2.0) for name in ("float16", "float32")
    )
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_devices(
        (sample.device, replace(sample.device, id="cuda:1")), replace(sample, tests=tests, dtypes=types), Numerics(), console=out
    )
    assert isinstance(out.file, io.StringIO)
    said = [line.strip() for line in out.file.getvalue().splitlines()]
    assert "✓ FP16 works, about 2.0 × as fast as FP32. 3 tests passed." in said
    assert "✓ FP32 works. 3 tests passed." in said
    assert "Tested: matrix product, copies." in said
    assert [line[-1] for line in said if "measured" in line or "Also here" in line] == [".", "."]


def test_a_device_tells_which_accuracy_tests_failed_and_what_the_settings_do() -> None:
    sample = samples.self_test_report()
    right = sample.tests[0]
    sums = replace(right, mode="float16-sums", operation="long-sums", outcome="wrong")
    bad = (right, sums, replace(sums, operation="matmul"), replace(sums, outcome="right"))
    for on in (False, True):
        out = Console(file=io.StringIO(), width=200, highlight=False)
        show_devices((), replace(sample, tests=bad), Numerics(precision="float16", fp16_accumulation=on), console=out)
        assert isinstance(out.file, io.StringIO)
        said = out.file.getvalue()
        assert "FP16 with FP16 sums: 2 of 3 accuracy tests failed (long sums, matrix product)." in said
        assert ("Your settings turn it off." in said) == (not on)
        assert f"Your settings: FP16, sums in {'FP16' if on else 'FP32'}, Auto attention, and every step is checked." in said


@pytest.mark.parametrize(("peak", "said"), [(1000.0, "In FP16, none would exceed"), (70000.0, "In FP16, 1 layer would exceed")])
def test_a_check_in_a_wider_type_says_what_fp16_would_meet(peak: float, said: str) -> None:
    report = samples.check_report()
    wide = replace(report, precision="bfloat16", layers=(replace(report.layers[0], peak=peak),))
    shown = lines(wide)
    assert any(line.startswith(said) for line in shown)
    assert ("To check FP16: --precision float16" in shown) == (peak > 65504)
    assert not any("would pass" in line for line in lines(report))


def test_the_memory_of_a_picture_is_told() -> None:
    assert "2.1\u00a0GB of memory" in pictures_shown(replace(samples.picture_facts("a.png"), peak_memory=2_100_000_000))


def test_the_time_of_a_cure_says_what_it_is_of() -> None:
    report = samples.check_report(fragile=True)
    cure = replace(report.cures[0], time_ratio=1.049, time_spread=0.01)
    assert any("picture time about +4.9\u00a0%, measured" in line for line in lines(replace(report, cures=(cure,))))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            Words("{0} passed every test and is about {1} × as fast as FP32.", ("FP16", "2.4")),
            "Precision: FP16, measured on this device. Why: halftone devices",
        ),
        (
            Words("FP16, because BF16 is missing here."),
            "Precision, as measured on this device: FP16, because BF16 is missing here.",
        ),
    ],
)
def test_what_is_the_same_for_every_picture_is_told_in_short(reason: Words, said: str) -> None:
    assert ChosenPrecision("float16", reason, measured=True).brief() == said


def test_a_device_tells_that_auto_follows_the_model() -> None:
    types = tuple(DTypeReport(dtype=name, state="works", reason=Words("Right."), speed=2.0) for name in ("float16", "bfloat16"))
    report = replace(samples.self_test_report(), dtypes=types, auto="float16")
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_devices((), report, Numerics(), console=out)
    assert isinstance(out.file, io.StringIO)
    assert "Auto uses FP16, or BF16 for models that need its range. " in out.file.getvalue()


def test_a_picture_that_waits_for_an_answer_is_finished_by_a_command() -> None:
    asking = replace(samples.picture_facts("", "asking"), latents="/kept/7-0.safetensors")
    report = GenerateReport(images=(asking,), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    out = Console(file=io.StringIO(), width=60, highlight=False)
    show_pictures(report, "pocket", AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    assert "  Finish it with:  halftone generate --latents /kept/7-0.safetensors --on-black recover\n" in out.file.getvalue()


@pytest.mark.parametrize(("loras", "other"), [((), "the original"), (("glow",), "the original with its LoRAs")])
@pytest.mark.parametrize(("error", "said"), [(0.0, "identical to"), (0.25, "0.25 away from")])
def test_a_copy_is_compared_with_what_it_was_made_of(loras: tuple[str, ...], other: str, error: float, said: str) -> None:
    out = Console(file=io.StringIO(), width=200, highlight=False)
    show_repair(replace(samples.repair_report("copy"), loras=loras, float32_error=error), console=out)
    assert isinstance(out.file, io.StringIO)
    assert f"{said} {other} in FP32" in out.file.getvalue()


def pictures_shown(picture: PictureFacts) -> str:
    report = GenerateReport(images=(picture,), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    out = Console(file=io.StringIO(), width=120, highlight=False)
    show_pictures(report, "pocket", AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


FINISH = "  Finish it with:  halftone generate --latents /kept/7-0.safetensors --on-black recover"


@pytest.mark.parametrize("kept_step", [None, 3])
@pytest.mark.parametrize(
    ("why", "sound", "last"),
    [("setting", True, FINISH), ("no-cure", True, f"{FINISH} --precision float32"), ("float32", False, "")],
)
def test_a_picture_that_was_stopped_is_finished_by_the_last_command(
    why: str, sound: bool, last: str, kept_step: int | None
) -> None:
    event = replace(samples.GUARDED, action="stopped", cure="none", why=why, sound_in_float32=sound)
    picture = replace(samples.picture_facts("", "not-recovered"), latents="/kept/7-0.safetensors", kept_step=kept_step)
    told = pictures_shown(replace(picture, events=(event,)))
    assert ("kept after step 3 as /kept" in told) == (kept_step is not None)
    if last:
        assert told.splitlines()[-1] == last
    assert ("Finish it with" in told) == bool(last)


def test_a_picture_whose_loop_cannot_be_kept_says_so() -> None:
    told = pictures_shown(replace(samples.picture_facts("", "not-recovered"), not_kept=True))
    assert "This model and sampler cannot resume it." in told
    assert "--on-black recover" in told
    assert "Finish it with" not in told


def test_a_script_learns_what_is_kept() -> None:
    kept = replace(samples.picture_facts("", "not-recovered"), latents="/kept/7-0.safetensors", kept_step=3)
    report = GenerateReport(images=(kept,), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None)
    (image,) = generate_object(report, AS_SET, ())["images"]
    assert (image["path"], image["latents"], image["kept_step"]) == (None, "/kept/7-0.safetensors", 3)


def test_how_it_ran_is_told_after_the_pictures_and_cures_are_not_told_twice() -> None:
    plan = replace(samples.PLAIN, reasons=(Words("unet runs in BF16."), Words("unet: 26 layers are stored in FP8.", about="run")))
    report = GenerateReport(images=(samples.picture_facts("a.png"),), plan=plan, events=(), seconds=1.0, seconds_per_step=None)
    out = Console(file=io.StringIO(), width=120, highlight=False)
    show_pictures(report, "pocket", AS_SET, console=out)
    assert isinstance(out.file, io.StringIO)
    assert "  unet: 26 layers are stored in FP8.\n" in out.file.getvalue()
    assert "BF16." not in out.file.getvalue()


def test_a_script_learns_of_a_second_pass_that_was_not_made() -> None:
    why = ErrorFacts(code="out-of-memory", facts={"detail": "memory ran out at 64 × 64"})
    cut = replace(samples.picture_facts("a.png"), cut_short=why)
    report = GenerateReport(
        images=(samples.picture_facts("b.png"), cut), plan=samples.PLAIN, events=(), seconds=1.0, seconds_per_step=None
    )
    whole, first = generate_object(report, AS_SET, ())["images"]
    assert "cut_short" not in whole
    assert first["cut_short"]["code"] == "out-of-memory"
    assert first["cut_short"]["message"] == "This size does not fit: memory ran out at 64 × 64."
    assert first["cut_short"]["remedy"]
    assert [is_good(picture) for picture in report.images] == [True, False]


def test_a_second_pass_in_which_no_cure_held_goes_on_in_float32() -> None:
    why = ErrorFacts(code="second-pass-black", facts={"detail": "no cure that Halftone tried held", "why": "no-cure"})
    told = pictures_shown(replace(samples.picture_facts("a.png"), cut_short=why, latents="/kept/7-0.safetensors"))
    assert "NaN in the second pass, and no cure that Halftone tried held." in " ".join(told.split())
    assert told.splitlines()[-1] == f"{FINISH} --precision float32"


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((), ""),
        (((512, 768, 1),), "512 × 768"),
        (((512, 512, 1), (512, 384, 1)), "512 × 512, 512 × 384"),
        (((448, 256, 9),), "9 frames of 448 × 256"),
    ],
)
def test_a_check_says_which_sizes_it_ran(sizes: tuple[tuple[int, int, int], ...], said: str) -> None:
    report = replace(samples.check_report(), sizes=sizes)
    assert size_words(report) == said
    assert any(said in line for line in lines(report))


def test_what_to_set_elsewhere_stands_one_value_a_line() -> None:
    out = io.StringIO()
    report = samples.check_report(fragile=True)
    report = replace(report, cures=(*report.cures, Cure(kind="bfloat16", plan=report.plan)))
    report = replace(report, model=replace(report.model, family="SDXL", format="single-file", path="sdxl.safetensors"))
    show_export(report, export(report, "comfyui"), hint=True, console=Console(file=out, width=100, highlight=False))
    shown = [line.strip() for line in out.getvalue().splitlines() if line.strip()]
    assert shown == [
        "In ComfyUI:",
        "ComfyUI, Launch options (VAE decoder):",
        "--fp32-vae",
        "or: --bf16-vae",
        "Or write a repaired file, which needs no setting: halftone check pocket --export comfyui --output pocket-repaired",
    ]
