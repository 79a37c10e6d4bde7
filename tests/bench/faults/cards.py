"""Cards that lie: for each fault of a real card what the self-test finds, what Auto does, what the check says, and the picture.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.faults.cards [--only WORD ...] [--steps N] [--hard]

Every row is a card in software with one fault. Pictures are the bundled model's, with --hard those of a tiny model that the fault
must spoil; dB are against the picture of the sound card in FP32: "bare" without any of Halftone's measures, "Auto" after the
self-test, "cure" in the faulty type with the check's cure.
"""

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, EulerAncestralDiscreteScheduler
from numpy.typing import NDArray
from PIL import Image
from tests.accelerator import card, faults
from tests.bench.faults.hard import HARD, save_hard
from tests.helpers.engine_runs import OPTIONS
from tests.helpers.silence import Going, silent

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport, SelfTestReport
from halftone.contract.messages import Examine, Generate, SelfTest
from halftone.contract.request import CheckInputs, Numerics, OptionValue, PictureRequest
from halftone.contract.vocabulary import DTYPE_NAMES, DType, Precision
from halftone.engine.service import DiffusersEngine
from halftone.health.device_faults import OPERATIONS, avoided_backends
from halftone.health.explain import finding_words
from halftone.health.precision import state_of
from halftone.library.records import set_applied
from halftone.measure.pictures import psnr

DEVICE = "card:0"
PROMPT = "a red sun over green hills"
SIZE = 128
SAME = 30.0
PACE = {torch.float32: 6.0, torch.bfloat16: 3.5}
"""As on cards with units for 16-bit types: what runs in FP32 takes several times as long. (A processor may have units for BF16
alone, so that takes longer too.)
"""
SETTINGS: dict[str, dict[str, bool]] = {
    "FP16 partial sums, unless the setting is off": {"fp16_reduction": True},
    "TF32 in matrix products, unless the setting is off": {"tf32": True},
    "TF32 in convolutions, unless the setting is off": {"tf32": True},
}
"""Faults that a setting of torch turns on, as torch has it at first."""


@dataclass(frozen=True)
class Row:
    fault: str
    found: str
    auto: str
    check: str
    mended: str
    bare: float
    automatic: float
    cured: float

    @property
    def met(self) -> bool:
        return bool(self.found) and min(self.automatic, self.cured) >= SAME


def dtype_of(name: str) -> DType:
    """The type that a fault is in."""
    return "bfloat16" if "BF16" in name else "float32" if "TF32" in name else "float16"


def findings(report: SelfTestReport, sound: SelfTestReport) -> str:
    """What the self-test found, with the operation named."""
    bad = [one for one in report.tests if one.outcome not in ("right", "missing")]
    named = dict.fromkeys(f"{_mode(one.mode)} {OPERATIONS.get(one.operation, one.operation)}: {one.size}" for one in bad)
    slow = [f"{DTYPE_NAMES[one.dtype]} slow" for one in report.dtypes if one.state == "slow"]
    usual = [f"{DTYPE_NAMES[one.dtype]} slow" for one in sound.dtypes if one.state == "slow"]
    return "; ".join([*list(named)[:2], *(word for word in slow if word not in usual), *_by_setting(report)])


def _mode(mode: str) -> str:
    return {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "tf32": "TF32"}[mode]


def _by_setting(report: SelfTestReport) -> list[str]:
    """Settings that make results of this device worse, and the operations that lose bits by it."""
    exact = {(one.operation, one.size): one.error or 0.0 for one in report.tests if one.mode == "float32"}
    loose = {
        OPERATIONS.get(one.operation, one.operation)
        for one in report.tests
        if one.mode == "tf32" and (one.error or 0.0) > 1e-4 > exact[one.operation, one.size]
    }
    found = [f"TF32 keeps fewer bits: {', '.join(sorted(loose))}"] if loose else []
    worse = [one for one in report.effects if one.setting == "fp16_reduction" and (one.error_ratio or 1.0) > 1.5]
    return found + [f"FP16 reduction makes products {one.error_ratio:.0f} × worse" for one in worse]


@dataclass(frozen=True)
class Subject:
    """What is drawn. settings: of its pictures, beside their precision; options: that its pipeline needs; drawn_there: bare, its
    noise is drawn on the card; auto: what is taken for Auto, where the model is sound in one type alone.
    """

    model: str
    size: int = SIZE
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    drawn_there: bool = False
    steps: int = 6
    auto: Precision = "auto"


class Bench:
    """One model, drawn on the sound card once. sound: the self-test of that card, where it was made before."""

    def __init__(self, folder: Path, subject: Subject, sound: SelfTestReport | None = None) -> None:
        self._folder, self._subject = folder, subject
        self.sound = sound or self._fresh().self_test(SelfTest(job="s", device=DEVICE), silent, Going())
        self._reference = self._picture(self._fresh(), self._numerics("float32"))
        self._plain_reference = self._plain() if subject.drawn_there else None

    def row(self, lie: faults.Lie) -> Row:
        dtype = dtype_of(lie.name)
        changed: Any = SETTINGS.get(lie.name, {})
        pace = PACE | self._paces(lie)
        with faults.lying(lie, pace):
            if self._plain_reference is None:
                bare = self._closeness(self._fresh(), self._numerics(dtype, nan_check="off", **changed))
            else:
                bare = psnr(self._plain_reference, self._plain())
        with faults.lying(lie, pace):
            engine = self._fresh()
            report = engine.self_test(SelfTest(job="s", device=DEVICE), silent, Going())
        with faults.lying(lie, pace):
            automatic = self._closeness(engine, self._numerics(self._subject.auto))
        with faults.lying(lie, pace):
            checked = self._check(engine, dtype)
            if checked.plan.verified:
                set_applied(checked, True)
        with faults.lying(lie, pace):
            cured = self._closeness(engine, self._numerics(dtype))
        words = [str(finding_words(finding)[0]) for finding in checked.findings if finding.code != "tight"]
        ways = [reason for reason in map(str, checked.plan.reasons) if "self-test" in reason and "your setting" not in reason]
        cure = next((one.kind for one in checked.cures if one.suggested), "")
        return Row(
            lie.name, findings(report, self.sound), self._auto(report), " ".join(words or ways) or "–",
            _mended(report, lie, cure), bare, automatic, cured,
        )  # fmt: skip

    def _paces(self, lie: faults.Lie) -> dict[torch.dtype, float]:
        """What makes a type as slow as the fault says, by what it takes on the sound card."""
        speeds = {getattr(torch, one.dtype): one.speed or 1.0 for one in self.sound.dtypes}
        return {dtype: times * speeds[dtype] * PACE.get(dtype, 1.0) for dtype, times in lie.slow.items()}

    def _numerics(self, precision: Precision, **changed: Any) -> Numerics:
        return Numerics(precision=precision, **{**self._subject.settings, **changed})

    def _plain(self) -> NDArray[np.uint8]:
        """A picture of diffusers itself whose noise the card draws."""
        pipe: Any = DiffusionPipeline.from_pretrained(self._subject.model, local_files_only=True)
        pipe.scheduler = EulerAncestralDiscreteScheduler.from_config(pipe.scheduler.config)
        pipe.set_progress_bar_config(disable=True)
        size, generator = self._subject.size, torch.Generator(DEVICE).manual_seed(3)
        drawn = pipe.to(DEVICE)(PROMPT, num_inference_steps=self._subject.steps, width=size, height=size, generator=generator)
        return np.asarray(drawn.images[0])

    def _auto(self, report: SelfTestReport) -> str:
        avoided = ", ".join(sorted(avoided_backends(report)))
        return DTYPE_NAMES[report.auto] + (f", not {avoided}" if avoided else "")

    def _fresh(self) -> DiffusersEngine:
        """An engine that knows of no self-test and no check."""
        os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(dir=self._folder)
        return DiffusersEngine()

    def _picture(self, engine: DiffusersEngine, numerics: Numerics) -> NDArray[np.uint8]:
        output = Path(tempfile.mkdtemp(dir=self._folder)) / "picture.png"
        request = PictureRequest(
            prompt=PROMPT, model=self._subject.model, device=DEVICE, seed=3, steps=self._subject.steps, width=self._subject.size,
            height=self._subject.size, sampler=None if self._subject.options else "Euler a", output=str(output),
            numerics=numerics, options=dict(self._subject.options),
        )  # fmt: skip
        report = engine.generate(Generate(job="g", request=request), silent, Going())
        return np.asarray(Image.open(report.images[0].path))

    def _closeness(self, engine: DiffusersEngine, numerics: Numerics) -> float:
        """dB of a picture against the sound one; 0 where none could be made."""
        with suppress(HalftoneError):
            return psnr(self._reference, self._picture(engine, numerics))
        return 0.0

    def _check(self, engine: DiffusersEngine, dtype: DType) -> CheckReport:
        size, options = self._subject.size, dict(self._subject.options)
        inputs = CheckInputs(prompt=PROMPT, width=size, height=size, steps=self._subject.steps, seed=3, options=options)
        command = Examine(job="c", model=self._subject.model, device=DEVICE, numerics=self._numerics(dtype), inputs=inputs)
        return engine.examine(command, silent, Going())


def _mended(report: SelfTestReport, lie: faults.Lie, cure: str) -> str:
    if cure:
        return f"cure {cure}"
    if state_of(report, dtype_of(lie.name)) in ("wrong", "slow"):
        return f"Auto takes {DTYPE_NAMES[report.auto]}"
    if avoided_backends(report):
        return "another attention backend"
    return "setting off" if lie.name in SETTINGS else "goes around it"


def table(rows: Sequence[Row]) -> str:
    heads = ("fault", "found by the self-test as", "Auto", "check", "mended by", "bare dB", "Auto dB", "cure dB")
    lines = [" | ".join(heads), " | ".join("---" for _ in heads)]
    for row in rows:
        figures = (f"{one:.1f}" for one in (row.bare, row.automatic, row.cured))
        lines.append(" | ".join((row.fault, row.found or "NOT FOUND", row.auto, row.check, row.mended, *figures)))
    return "\n".join(f"| {line} |" for line in lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--hard", action="store_true")
    chosen = parser.parse_args(words)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    card.install()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="halftone-cards-") as folder, faults.lying(faults.SOUND, PACE):
        bench = Bench(Path(folder), Subject(chosen.model, steps=chosen.steps))
        sound = findings(bench.sound, bench.sound)
        sys.stderr.write(f"sound card: {sound or 'nothing found'}; Auto: {bench.sound.auto_reason}\n")
        for lie in faults.LIES:
            if any(word in lie.name for word in chosen.only):
                own = bench if not chosen.hard else Bench(Path(folder), spoiled_by(lie, Path(folder)), bench.sound)
                rows.append(own.row(lie))
                sys.stderr.write(f"{table(rows[-1:]).splitlines()[-1]}\n")
    print(table(rows))
    return (
        0
        if not sound and all(row.met and (row.bare < SAME or not chosen.hard or faults.BY_NAME[row.fault].slow) for row in rows)
        else 1
    )


def spoiled_by(lie: faults.Lie, folder: Path) -> Subject:
    """A model in which the fault matters."""
    hard = HARD[lie.name]
    model = save_hard(lie.name, Path(tempfile.mkdtemp(dir=folder)) / hard.family)
    wide: Precision = "float32" if "TF32" in lie.name else "auto"  # what 11 bits spoil, FP16 spoils too
    return Subject(str(model), hard.size, hard.settings, OPTIONS[hard.family], "noise" in lie.name, hard.steps, wide)


if __name__ == "__main__":
    sys.exit(main())
