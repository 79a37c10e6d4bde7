"""Facts as a worker would tell them, for tests that need some and do not care which."""

import struct
import zlib

from halftone.contract.facts import (
    CheckReport,
    ComponentFacts,
    DeviceFacts,
    DTypeReport,
    Finding,
    GuardEvent,
    LayerPeak,
    MemoryFacts,
    ModelFacts,
    OperationResult,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.messages import AnyEvent, TrainBegins, TrainCaught, TrainSaved, TrainStep
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Numerics
from halftone.contract.training import Caught, TrainConfig, TrainPicture, TrainReport
from halftone.contract.vocabulary import FLOAT_LIMITS, ReceiptState
from halftone.contract.wording import Words
from halftone.library.samplers import SAMPLERS

CPU = DeviceFacts(id="cpu", backend="cpu", name="A processor", memory_total=8 * 2**30, torch_version="2.13.0", threads=2)
MEMORY = MemoryFacts(total=8 * 2**30, own=2**29, others=2**30)
POCKET = ModelFacts(
    id="pocket",
    name="Pocket",
    path="resources/pocket",
    family="sd",
    format="diffusers",
    stored_dtype="float16",
    size_bytes=5_000_000,
    fingerprint="0123456789abcdef",
    native_width=64,
    native_height=64,
    default_steps=12,
    default_guidance=3.0,
    components=("text_encoder", "unet", "vae"),
    samplers=SAMPLERS,
)
PLAIN = Plan(dtypes={"text_encoder": "float16", "unet": "float16", "vae": "float16"}, total_parameters=2_500_000, verified=True)
RESCALED = Plan(
    dtypes=PLAIN.dtypes,
    rescale={"vae": {"decoder.conv_in.weight": -4, "decoder.conv_in.bias": -4}},
    deviation={},
    total_parameters=2_500_000,
    error=0.0021,
    verified=True,
    reasons=(Words("rescaled by 2 to the power of minus 4: exact, and without a price"),),
)
LAYERS = tuple(
    LayerPeak(component="vae", module=f"decoder.up_blocks.{number}", kind="UpDecoderBlock2D", peak=peak, peak_after=peak / 16)
    for number, peak in enumerate((900.0, 14_000.0, 212_000.0, 80_000.0))
)
OVERFLOW = Finding(
    code="activation-overflow",
    component="vae",
    module="decoder.up_blocks.2",
    dtype="float16",
    peak=212_000.0,
    limit=FLOAT_LIMITS["float16"],
)
GUARDED = GuardEvent(
    step=None,
    component="vae",
    module="decoder.up_blocks.2",
    kind="nonfinite",
    action="decoded-again",
    cure="rescale",
    peak=212_000.0,
    limit=FLOAT_LIMITS["float16"],
    seconds=0.4,
    plan=RESCALED,
    layers=LAYERS,
)


def operation(mode: str = "float16", outcome: str = "right") -> OperationResult:
    return OperationResult(
        mode=mode,
        operation="matmul",
        size=Words("512 x 512"),
        outcome=outcome,
        expected=1.0,
        got=1.0,
        error=1e-4,
        tolerance=1e-2,
        seconds=0.001,
    )


def self_test_report() -> SelfTestReport:
    return SelfTestReport(
        device=CPU,
        dtypes=(
            DTypeReport(dtype="float32", state="works", reason=Words("the reference"), speed=1.0),
            DTypeReport(dtype="float16", state="slow", reason=Words("right, but slower than FP32 here"), speed=0.4),
            DTypeReport(dtype="bfloat16", state="works", reason=Words("right, and faster than FP32"), speed=1.8),
        ),
        tests=(operation(), operation("bfloat16")),
        speeds=(),
        bits=(),
        effects=(),
        auto="float32",
        auto_reason=Words("FP16 is slower than FP32 on this processor."),
        measured_at="2026-01-01T00:00:00+00:00",
        seconds=1.0,
    )


def check_report(model: ModelFacts = POCKET, *, fragile: bool = False) -> CheckReport:
    plan = RESCALED if fragile else PLAIN
    return CheckReport(
        model=model,
        device=CPU,
        precision="float16",
        depth="quick",
        verdict="fixable" if fragile else "healthy",
        findings=(OVERFLOW,) if fragile else (),
        plan=plan,
        cures=(Cure(kind="rescale" if fragile else "none", plan=plan, suggested=True),),
        components={"vae": ComponentFacts(parameters=700_000, peak=212_000.0, headroom_bits=-1.7, seconds=0.1, modules=4)},
        layers=LAYERS if fragile else LAYERS[:2],
        numerics=Numerics(),
        checked_at="2026-01-01T00:00:00+00:00",
        seconds=3.0,
    )


def repair_report(path: str) -> RepairReport:
    return RepairReport(path=path, changed_tensors=12, float32_error=0.0, float16_finite=True, seconds=1.5)


def picture_facts(path: str, state: ReceiptState = "clean", seed: int = 7) -> PictureFacts:
    return PictureFacts(
        path=path,
        seed=seed,
        index=0,
        width=64,
        height=64,
        state=state,
        dtypes=PLAIN.dtypes,
        black=state == "not-recovered",
        finite=state != "not-recovered",
        dark=False,
        room_bits=9.5,
        seconds=1.25,
        steps=4,
        events=(GUARDED,) if state == "recovered" else (),
    )


def png(width: int = 8, height: int = 8, colour: tuple[int, int, int] = (200, 80, 40)) -> bytes:
    """A picture of one colour. PNG specification, third edition: signature, IHDR, IDAT, IEND."""
    rows = (b"\x00" + bytes(colour) * width) * height
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


TRAIN = TrainConfig(model="pocket", pictures="pictures", output="loras", name="paper-cut", steps=20, test_every=10, save_every=10)


def caught(step: int = 7) -> Caught:
    return Caught(
        step=step,
        cause="activation-overflow",
        watched="activations",
        name="mid_block.attentions.0",
        did="repeated",
        kind="Attention",
        dtype="float16",
        peak=91300.0,
        limit=65504.0,
        cure="float32-module",
        tries=1,
        seconds=0.4,
        time_ratio=1.006,
        memory=12 * 2**20,
        items=("IMG_0193.png",),
    )


def training(config: TrainConfig = TRAIN, *, bad: int | None = 7) -> tuple[AnyEvent, ...]:
    """The events of a training in which one bad number was stopped, in the order in which they come."""
    pictures = tuple(
        TrainPicture(name=f"IMG_{n:04}.png", width=64, height=64, caption="a hill", shape=(64, 64)) for n in range(4)
    )
    events: list[AnyEvent] = [
        TrainBegins(config=config, pictures=pictures, omens=(), dtype="float16", folder="loras/paper-cut", parameters=12_000)
    ]
    for step in range(1, config.steps + 1):
        if step == bad:
            events.append(TrainCaught(caught=caught(step)))
        loss, norm = 0.16 / step**0.3, 0.3 if step != bad else 7.5
        events.append(TrainStep(step=step, steps=config.steps, loss=loss, norm=norm, rate=1e-4, scale=32768.0, seconds=0.5))
        if config.save_every and step % config.save_every == 0:
            events.append(TrainSaved(step=step, path=f"loras/paper-cut/step-{step}.safetensors"))
    return tuple(events)


def train_report(config: TrainConfig = TRAIN) -> TrainReport:
    return TrainReport(
        name=config.name,
        path=f"loras/{config.name}.safetensors",
        folder=f"loras/{config.name}",
        steps=config.steps,
        steps_wanted=config.steps,
        loss=0.09,
        seconds=10.0,
        caught=(caught(),),
        cures=("float32-module",),
        dtype="float16",
    )
