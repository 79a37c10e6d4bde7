"""A controller over a link that only notes what is sent, and reports as large as those of real models."""

import math
import random
from collections.abc import Sequence

import msgspec

from halftone.contract.facts import (
    BitsResult,
    CheckReport,
    ComponentFacts,
    DeviceFacts,
    DTypeReport,
    Finding,
    LayerPeak,
    MemoryFacts,
    ModelFacts,
    OperationResult,
    SelfTestReport,
    SettingEffect,
    SpeedResult,
)
from halftone.contract.messages import AnyCommand, AnyEvent, Examine, JobEnded, MemoryChanged, Ready
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import AttentionBackend, DType
from halftone.contract.wording import Words
from halftone.gui.controller import Controller
from halftone.gui.process import Link
from halftone.library import records
from halftone.library.samplers import SAMPLERS
from halftone.session.state import Found
from halftone.settings.store import Settings

GPU = DeviceFacts(
    id="cuda:0",
    backend="cuda",
    name="NVIDIA GeForce RTX 3060",
    memory_total=12_000_000_000,
    driver="572.16",
    capability="8.6",
    torch_version="2.13.0",
    details={"cuda": "12.8", "multiprocessors": "28"},
)
CPU = DeviceFacts(
    id="cpu", backend="cpu", name="AMD EPYC, 2 cores", memory_total=8_000_000_000, torch_version="2.13.0", threads=2
)
MODEL = ModelFacts(
    id="/models/meridian",
    name="Meridian XL 2.1",
    path="/models/meridian",
    family="SDXL",
    format="diffusers",
    stored_dtype="float16",
    size_bytes=6_900_000_000,
    fingerprint="feed",
    components=("text_encoder", "text_encoder_2", "unet", "vae"),
    samplers=SAMPLERS,
)


class NotingLink(Link):
    """Notes the commands; the test says what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[AnyCommand] = []

    def start(self) -> None:
        pass

    def send(self, command: AnyCommand) -> None:
        self.sent.append(command)

    def stop(self) -> None:
        pass

    @property
    def hopeless(self) -> bool:
        return False

    def tell(self, event: AnyEvent, blob: bytes = b"") -> None:
        self.arrived.emit(event, blob)

    def last(self, kind: type[AnyCommand]) -> AnyCommand:
        return next(command for command in reversed(self.sent) if isinstance(command, kind))


def desk(
    device: DeviceFacts = GPU,
    report: CheckReport | None = None,
    self_test: SelfTestReport | None = None,
    settings: Settings | None = None,
    models: Sequence[ModelFacts] = (MODEL,),
) -> tuple[Controller, NotingLink]:
    """A controller whose worker is ready, with these records on the disk and these models in the list."""
    if report is not None:
        records.save_report(report)
    if self_test is not None:
        records.save_selftest(self_test)
    link = NotingLink()
    controller = Controller(link, settings if settings is not None else Settings(last_model=models[0].id))
    controller.session.models.show(Found({model.id: model for model in models}, {}, {}, {}))  # instead of reading folders
    link.tell(Ready(version="0.1.0", protocol=1, pid=1, devices=(device,)))
    link.tell(MemoryChanged(memory=MemoryFacts(total=device.memory_total or 1, own=400_000_000, others=1_100_000_000)))
    return controller, link


def layers(*, over: bool = True, tight: bool = True, scale: float = 1.0) -> tuple[LayerPeak, ...]:
    """1 818 layers shaped like those of an SDXL model whose decoder overflows."""
    chance = random.Random(3)
    made: list[LayerPeak] = []

    def add(component: str, modules: list[str], kind: str, exponents: list[float]) -> None:
        made.extend(
            LayerPeak(component=component, module=module, kind=kind, peak=scale * 2**exponent)
            for module, exponent in zip(modules, exponents, strict=True)
        )

    for name, count in (("text_encoder", 100), ("text_encoder_2", 260)):
        modules = [f"text_model.encoder.layers.{index // 8}.mlp.fc{index % 8 + 1}" for index in range(count)]
        add(name, modules, "Linear", [3 + 2 * math.sin(index / count * 9) + 3 * chance.random() for index in range(count)])
    places = [
        f"{'down' if index < 700 else 'up'}_blocks.{index % 700 // 240}.attentions.{index % 3}.m{index}" for index in range(1388)
    ]
    heights = [5 + 1.5 * math.sin(index / 200) + 5 * chance.random() ** 5 for index in range(1388)]
    heights[853], heights[600] = (15.25 if tight else 12.0), 12.4
    add("unet", places, "Linear", heights)
    decoder = ["post_quant_conv", "decoder.conv_in", *(f"decoder.mid_block.resnets.{n % 2}.n{n}" for n in range(14))]
    decoder += [f"decoder.up_blocks.{block}.resnets.{n % 3}.conv{n}" for block in range(4) for n in range(13)]
    decoder += ["decoder.conv_norm_out", "decoder.conv_out"]
    rise = [
        6 + min(11.4 if over else 6.0, index * 0.21) - max(0, index - 62) * 1.2 + 0.7 * chance.random() for index in range(70)
    ]
    add("vae", decoder, "Conv2d", rise)
    return tuple(made)


def _finding(layer: LayerPeak, code: str) -> Finding:
    return msgspec.convert(
        {
            "code": code,
            "component": layer.component,
            "module": layer.module,
            "dtype": "float16",
            "peak": layer.peak,
            "limit": 65504.0,
        },
        Finding,
    )


def report(model: ModelFacts = MODEL, device: DeviceFacts = GPU, **changes: object) -> CheckReport:
    """A fixable report with three overflows, one tight layer and four cures."""
    measured = layers()
    peaks = sorted((layer for layer in measured if layer.component == "vae"), key=lambda layer: -layer.peak)
    tight = max((layer for layer in measured if layer.component == "unet"), key=lambda layer: layer.peak)
    worst = [peaks[0], peaks[4], peaks[9]]
    total = 3_500_000_000
    dtypes: dict[str, DType] = dict.fromkeys(("text_encoder", "text_encoder_2", "unet", "vae"), "float16")
    blocks = ("decoder.up_blocks.1", "decoder.up_blocks.2", "decoder.up_blocks.3")
    rescale = Plan(
        dtypes=dtypes,
        rescale={"vae": {f"{layer.module}.weight": -4 for layer in measured if layer.component == "vae"}},
        deviation={},
        total_parameters=total,
        error=0.0021,
        verified=True,
    )
    upcast = Plan(
        dtypes=rescale.dtypes,
        upcast={"vae": blocks},
        upcast_parameters=77_000_000,
        total_parameters=total,
        error=0.0018,
        verified=True,
    )
    whole = Plan(
        dtypes={**dtypes, "vae": "float32"},
        upcast_parameters=84_000_000,
        total_parameters=total,
        error=0.0016,
        verified=True,
    )
    all_of_it = Plan(
        dtypes={"text_encoder": "float32", "text_encoder_2": "float32", "unet": "float32", "vae": "float32"},
        upcast_parameters=total,
        total_parameters=total,
        verified=True,
    )
    cures = (
        Cure(kind="rescale", plan=rescale, time_ratio=1.0, memory_bytes=0, disk_bytes=0, psnr=58.2, suggested=True),
        Cure(kind="upcast-region", plan=upcast, time_ratio=1.011, memory_bytes=84_000_000, disk_bytes=0, psnr=61.0),
        Cure(kind="float32-component", plan=whole, time_ratio=1.061, memory_bytes=412_000_000, disk_bytes=0, psnr=62.5),
        Cure(
            kind="float32-all",
            plan=all_of_it,
            time_ratio=2.34,
            memory_bytes=6_500_000_000,
            disk_bytes=0,
            refusal=Words("It gives NaN or infinity as well."),
        ),
    )
    shown = tuple(
        msgspec.structs.replace(layer, peak_after=layer.peak / 16 if layer.component == "vae" else layer.peak)
        for layer in measured
    )
    known: dict[str, object] = {
        "model": model,
        "device": device,
        "precision": "float16",
        "depth": "quick",
        "verdict": "fixable",
        "findings": (*(_finding(layer, "activation-overflow") for layer in worst), _finding(tight, "tight")),
        "plan": rescale,
        "cures": cures,
        "components": {
            "vae": ComponentFacts(parameters=84_000_000, peak=worst[0].peak, headroom_bits=-1.7, seconds=0.4, modules=70)
        },
        "layers": shown,
        "numerics": Numerics(),
        "checked_at": "2026-05-12T14:32:00+02:00",
        "seconds": 52.0,
    }
    return CheckReport(**(known | changes))  # pyright: ignore[reportArgumentType]


def healthy() -> CheckReport:
    plain = Plan(dtypes={"unet": "float16", "vae": "float16"}, total_parameters=10, verified=True)
    return report(verdict="healthy", findings=(), layers=layers(over=False, tight=False), cures=(), plan=plain)


def in_float32(measured: Sequence[LayerPeak] | None = None) -> CheckReport:
    """Of a healthy check in FP32; measured: the peaks, those that FP16 cannot hold among them where none are given."""
    plan = Plan(dtypes={"unet": "float32", "vae": "float32"}, total_parameters=10, verified=True)
    return report(
        precision="float32",
        numerics=Numerics(precision="float32"),
        verdict="healthy",
        findings=(),
        cures=(),
        plan=plan,
        layers=layers() if measured is None else tuple(measured),
    )


OPERATIONS = (
    "attention-backend",
    "matmul",
    "convolution",
    "attention",
    "group-norm",
    "layer-norm",
    "softmax",
    "functions",
    "long-sums",
    "upsampling",
    "near-limit",
    "tiny-values",
    "casting",
    "random-numbers",
    "copies",
    "memory",
)
"""Everything that the self-test measures on a card, in its order."""
_SIZES = {
    "attention-backend": ("math, 64 tokens with a mask", "flash, large scores"),
    "copies": ("4 096 numbers without a wait",),
}
_BACKENDS: dict[str, AttentionBackend] = {"math, 64 tokens with a mask": "math", "flash, large scores": "flash"}


def known_answers(
    bad: Sequence[tuple[str, str]] = (("float16-sums", "long-sums"), ("float16-sums", "near-limit")),
) -> tuple[OperationResult, ...]:
    """Every operation in five modes, most in two sizes; `bad` (mode, operation) went wrong in the last size."""
    made: list[OperationResult] = []
    for mode in ("float32", "tf32", "float16", "float16-sums", "bfloat16"):
        for operation in OPERATIONS:
            sizes = _SIZES.get(operation, ("64 x 64", "4096 x 1024 x 1024"))
            for size in sizes:
                wrong = (mode, operation) in bad and size == sizes[-1]
                made.append(
                    OperationResult(
                        mode=mode,
                        operation=operation,
                        size=Words("{0}", (tuple(map(Words, size.split(", "))),)),
                        backend=_BACKENDS.get(size),
                        outcome="wrong" if wrong else "right",
                        expected=1024.5,
                        got=992.0 if wrong else 1024.25,
                        error=0.0317 if wrong else 0.000244,
                        tolerance=0.002,
                        seconds=0.0021,
                    )
                )
    return tuple(made)


def measured(device: DeviceFacts = GPU, **changes: object) -> SelfTestReport:
    known: dict[str, object] = {
        "device": device,
        "dtypes": (
            DTypeReport(dtype="float32", state="works", reason=Words("All 20 tests right."), speed=1.0),
            DTypeReport(dtype="float16", state="works", reason=Words("All 20 tests right."), speed=2.4),
            DTypeReport(dtype="bfloat16", state="works", reason=Words("All 20 tests right."), speed=2.3),
        ),
        "tests": known_answers(),
        "speeds": tuple(
            SpeedResult(mode=mode, operation=step, tflops=tflops * ratio, seconds=0.01 / ratio, runs=(0.01 / ratio,) * 5)
            for step, tflops in (("unet-step", 10.4), ("transformer-step", 8.8))
            for mode, ratio in (("float32", 1.0), ("tf32", 1.2), ("float16", 2.4), ("float16-sums", 4.1), ("bfloat16", 2.3))
        ),
        "bits": tuple(
            BitsResult(mode=mode, bits_kept=kept, bits=bits, terms=4096)
            for mode, kept, bits in (
                ("float32", 22.4, 24),
                ("tf32", 10.5, 11),
                ("float16", 10.8, 11),
                ("float16-sums", 7.1, 11),
                ("bfloat16", 7.9, 8),
            )
        ),
        "effects": EFFECTS,
        "auto": "float16",
        "auto_reason": Words("FP16 passed every test and is about 2.4 × as fast as FP32 (BF16 2.3 ×)."),
        "measured_at": "2026-05-12T21:14:00+02:00",
        "seconds": 41.0,
    }
    return SelfTestReport(**(known | changes))  # pyright: ignore[reportArgumentType]


EFFECTS = (
    SettingEffect(setting="precision", value="auto", time_ratio=1.0, error_ratio=1.0, closeness_db=57.0),
    SettingEffect(setting="precision", value="float16", time_ratio=1.0, error_ratio=1.0, closeness_db=57.0),
    SettingEffect(setting="precision", value="bfloat16", time_ratio=1.04, error_ratio=8.1, closeness_db=39.0),
    SettingEffect(setting="precision", value="float32", time_ratio=2.4, error_ratio=0.0, closeness_db=150.0),
    SettingEffect(setting="vae_float32", value="always", time_ratio=1.61, error_ratio=0.0, closeness_db=150.0),
    SettingEffect(setting="vae_float32", value="never", note=Words("Costs and saves nothing until a picture decoder overflows.")),
    SettingEffect(setting="upcast_cross_attention", value="always", time_ratio=1.34, error_ratio=0.0, closeness_db=150.0),
    SettingEffect(setting="upcast_sampling", value="false", time_ratio=0.998, closeness_db=58.5),
    SettingEffect(setting="fp16_reduction", value="true", time_ratio=1.0, error_ratio=1.9, closeness_db=53.0),
    SettingEffect(setting="bf16_reduction", value="true", note=Words("Changes nothing on this device.")),
    SettingEffect(setting="fp16_accumulation", value="true", time_ratio=0.61, error_ratio=12.0, closeness_db=35.0),
    SettingEffect(setting="math_attention_reduction", value="true", time_ratio=0.55, error_ratio=1.7, closeness_db=43.5),
    SettingEffect(setting="tf32", value="true", time_ratio=0.86, error_ratio=320.0, closeness_db=64.0),
    SettingEffect(setting="attention_backend", value="flash", time_ratio=1.0, error_ratio=1.0, closeness_db=55.0),
    SettingEffect(setting="attention_backend", value="efficient", time_ratio=1.2, error_ratio=1.0, closeness_db=55.0),
    SettingEffect(setting="attention_backend", value="cudnn", note=Words("Gives wrong results on this device.")),
    SettingEffect(setting="attention_backend", value="math", time_ratio=1.6, error_ratio=0.94, closeness_db=55.5),
    SettingEffect(setting="nan_check", value="at-end", time_ratio=0.997),
    SettingEffect(setting="nan_check", value="off", time_ratio=0.997),
)


def end(link: NotingLink, job: str, outcome: str = "done", report: object = None, error: object = None) -> None:
    link.tell(JobEnded(job=job, outcome=outcome, report=report, error=error))  # pyright: ignore[reportArgumentType]


def examine_of(link: NotingLink) -> Examine:
    command = link.last(Examine)
    assert isinstance(command, Examine)
    return command
