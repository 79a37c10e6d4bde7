"""The sound card under every setting: nothing may be found, and every picture is that of FP32.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.faults.sound [--model M] [--pairs | --each]

The self-test runs under each switch that torch itself has. A model is checked and makes a picture with each value of each setting
of the Numerics page in each precision (--each), and with as few sets of settings as hold any two values together (--pairs). An
alarm is a finding other than "tight", a suggested cure, anything that the guard did, a refusal, or a picture below 30 dB.
"""

import argparse
import itertools
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.accelerator import card, faults
from tests.helpers.silence import Going, silent

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Examine, Generate, SelfTest
from halftone.contract.request import CheckInputs, Numerics, PictureRequest
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.engine.service import DiffusersEngine
from halftone.measure.modes import switched
from halftone.measure.pictures import psnr
from halftone.settings.declared import DECLARED, Setting

Value = str | bool
Values = dict[str, Value]
DEVICE: Final = "card:0"
SAME: Final = 30.0
PRECISION: Final = "precision"
OTHER_PICTURE: Final = ("fp8_storage", "vae_tiling")
"""Settings that change the picture by what they do: it is compared with that of FP32 with the same."""


def values_of(setting: Setting) -> tuple[Value, ...]:
    """Every value that a setting can have, its default first."""
    found: tuple[Value, ...] = (False, True) if setting.kind == "switch" else tuple(one.value for one in setting.choices)
    return tuple(sorted(found, key=lambda value: value != setting.default))


NUMERICS: Final = {one.field: values_of(one) for one in DECLARED if one.page == "Numerics"}


def each() -> Iterator[Values]:
    """Every value of every setting alone, in each precision."""
    for precision in NUMERICS[PRECISION]:
        yield {PRECISION: precision}
        for field, values in NUMERICS.items():
            if field != PRECISION:
                yield from ({PRECISION: precision, field: value} for value in values[1:])


def pairs(fields: Mapping[str, Sequence[Value]] = NUMERICS, seed: int = 0) -> list[Values]:
    """A few sets of values that hold any two values of any two settings together."""
    draw = random.Random(seed)
    missing = {
        frozenset({(one, a), (other, b)})
        for (one, first), (other, second) in itertools.combinations(fields.items(), 2)
        for a in first
        for b in second
    }
    found: list[Values] = []
    while missing:
        start = dict(min(missing, key=lambda pair: sorted(map(str, pair))))
        drawn = [{field: draw.choice(values) for field, values in fields.items()} | start for _ in range(60)]
        best = max(drawn, key=lambda one: len(missing & _pairs_in(one)))
        missing -= _pairs_in(best)
        found.append(best)
    return found


def covering() -> list[Values]:
    """As few sets of values as hold every value."""
    most = max(map(len, NUMERICS.values()))
    return [{field: values[row % len(values)] for field, values in NUMERICS.items()} for row in range(most)]


def _pairs_in(chosen: Values) -> set[frozenset[tuple[str, Value]]]:
    return {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}


@contextmanager
def _deterministic() -> Generator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def _without(backend: str) -> Generator[None]:
    enable = getattr(torch.backends.cuda, f"enable_{backend}_sdp")
    enable(False)
    try:
        yield
    finally:
        enable(True)


def switches() -> Mapping[str, AbstractContextManager[object]]:
    """What a user's surroundings may have set in torch, by a name for each."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    flags = {
        "as torch has it": [],
        "every reduction in 16 bits": [
            (matmul, "allow_fp16_reduced_precision_reduction", True),
            (matmul, "allow_bf16_reduced_precision_reduction", True),
            (matmul, "allow_fp16_accumulation", True),
        ],
        "TF32": [(matmul, "allow_tf32", True), (cudnn, "allow_tf32", True)],
        "cuDNN deterministic": [(cudnn, "deterministic", True)],
        "cuDNN searching": [(cudnn, "benchmark", True)],
        "cuDNN off": [(cudnn, "enabled", False)],
    }
    without = {f"no {backend} attention": _without(backend) for backend in ("flash", "mem_efficient", "math")}
    return {name: switched(list(changes)) for name, changes in flags.items()} | without | {"deterministic": _deterministic()}


class Sound:
    """A model on the sound card."""

    def __init__(self, folder: Path, model: str, size: int, steps: int) -> None:
        self._folder, self._model, self._size, self._steps = folder, model, size, steps
        os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(dir=folder)
        self._engine = DiffusersEngine()
        self._references: dict[Numerics, NDArray[np.uint8]] = {}

    def self_test(self) -> list[str]:
        """What the self-test found, and formats that it judged wrong."""
        report = self._engine.self_test(SelfTest(job="s", device=DEVICE), silent, Going())
        bad = [one for one in report.tests if one.outcome not in ("right", "missing")]
        named = [f"{one.mode} {one.operation}, {one.size}: {one.outcome} ({one.error})" for one in bad]
        return named + [f"{DTYPE_NAMES[one.dtype]} is {one.state}" for one in report.dtypes if one.state in ("wrong", "missing")]

    def alarms(self, chosen: Values) -> list[str]:
        """What a check and a picture with these settings say against a sound model on a sound card."""
        numerics = msgspec.convert(chosen, Numerics)
        try:
            return [*self._checked(numerics), *self._drawn(numerics)]
        except HalftoneError as error:
            return [f"refused: {error}"]

    def _checked(self, numerics: Numerics) -> list[str]:
        inputs = CheckInputs(prompt="a red sun", width=self._size, height=self._size, steps=self._steps, seed=3)
        report = self._engine.examine(
            Examine(job="c", model=self._model, device=DEVICE, numerics=numerics, inputs=inputs), silent, Going()
        )
        found = [f"check: {one.code} at {one.component}.{one.module}" for one in report.findings if one.code != "tight"]
        return found + [f"check suggests {one.kind}" for one in report.cures if one.suggested and one.kind != "none"]

    def _drawn(self, numerics: Numerics) -> list[str]:
        picture, events = self._picture(numerics)
        alike = Numerics(precision="float32", **{field: getattr(numerics, field) for field in OTHER_PICTURE})
        if alike not in self._references:
            self._references[alike] = self._picture(alike)[0]
        close = psnr(self._references[alike], picture)
        return [f"picture: {event}" for event in events] + ([f"picture: {close:.1f} dB"] if close < SAME else [])

    def _picture(self, numerics: Numerics) -> tuple[NDArray[np.uint8], list[str]]:
        output = Path(tempfile.mkdtemp(dir=self._folder)) / "picture.png"
        request = PictureRequest(
            prompt="a red sun", model=self._model, device=DEVICE, seed=3, steps=self._steps, width=self._size, height=self._size,
            output=str(output), numerics=numerics,
        )  # fmt: skip
        report = self._engine.generate(Generate(job="g", request=request), silent, Going())
        with Image.open(report.images[0].path) as image:
            return np.asarray(image), [
                f"{event.kind}, {event.action} at {event.component}.{event.module}" for event in report.events
            ]


def said(chosen: Values) -> str:
    """Settings as a row names them: what is not the default."""
    return ", ".join(f"{field}={value}" for field, value in chosen.items() if value != NUMERICS[field][0]) or "defaults"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="pocket")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pairs", action="store_true")
    which.add_argument("--each", action="store_true")
    given = parser.parse_args(words)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    card.install()
    rows: list[Values] = [*([] if given.pairs else each()), *([] if given.each else pairs())]
    with tempfile.TemporaryDirectory(prefix="halftone-sound-") as folder, faults.lying(faults.SOUND):
        bench = Sound(Path(folder), given.model, given.size, given.steps)
        found: dict[str, list[str]] = {}
        for name, switch in switches().items():
            with switch:
                found[f"self-test, {name}"] = bench.self_test()
            _tell(f"self-test, {name}", found)
        for row in rows:
            found[said(row)] = bench.alarms(row)
            _tell(said(row), found)
    alarms = sum(map(len, found.values()))
    print(f"{len(switches())} self-tests, {len(rows)} sets of settings ({len(found)} lines): {alarms} alarms")
    return 1 if alarms else 0


def _tell(name: str, found: Mapping[str, Sequence[Any]]) -> None:
    print(f"{name}: {'; '.join(found[name]) or 'nothing'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
