"""Runs one case through the engine that the command line uses, and compares what it says with the truth."""

import math
import time
from typing import Any

import diffusers
import numpy as np
import torch
from PIL import Image
from tests.bench.faults import truth
from tests.bench.faults.families import PROMPT, SEED, STEPS, Sound
from tests.bench.faults.inject import Case
from tests.bench.faults.kinds import CONTROLS
from tests.helpers.silence import Going, silent

from halftone.contract.facts import CheckReport, Finding
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import CheckInputs, Lora, Numerics, PictureRequest, Start
from halftone.contract.vocabulary import Precision
from halftone.engine.service import DiffusersEngine
from halftone.library.records import set_applied

CURED: float = 30.0
"""dB against the float32 picture from which a cured picture counts as the same."""


def measure(engine: DiffusersEngine, sound: Sound, case: Case) -> dict[str, Any]:
    """What was said, and whether it was right."""
    started = time.perf_counter()
    report = _check(engine, sound, case)
    row = _judged(case, report) | {"check_seconds": time.perf_counter() - started}
    if case.kind not in CONTROLS and case.verdicts == ("fixable",):
        row |= _cured(engine, sound, case, report)
    return row | {"seconds": time.perf_counter() - started}


def _check(engine: DiffusersEngine, sound: Sound, case: Case) -> CheckReport:
    edge = case.size or sound.family.size
    inputs = CheckInputs(
        prompt=PROMPT,
        width=edge,
        height=edge,
        steps=STEPS,
        guidance=sound.family.guidance,
        seed=SEED,
        num_frames=sound.family.frames,
        options=sound.family.options,
        loras=_loras(case),
    )
    command = Examine(job="c", model=str(case.folder), numerics=Numerics(precision="float16"), inputs=inputs)
    return engine.examine(command, silent, Going())


def _loras(case: Case) -> tuple[Lora, ...]:
    return () if case.lora is None else (Lora(path=str(case.lora)),)


def _judged(case: Case, report: CheckReport) -> dict[str, Any]:
    serious = [finding for finding in report.findings if finding.code != "tight" and finding.facts.get("read", True)]
    unread = [finding for finding in report.findings if finding.facts.get("read", True) is False]
    first = serious[0] if serious else None
    named = first is not None and first.component == case.component
    truth_module = case.modules[0] if case.modules else ""
    row = {
        "truth": f"{case.component}:{'|'.join(dict.fromkeys(case.modules))}" + ("" if case.step is None else f"@{case.step}"),
        "codes": list(case.codes),
        "verdict": report.verdict,
        "findings": [_named(finding) for finding in report.findings if finding.code != "tight"],
        "first": None if first is None else _named(first),
        "code": None if first is None else first.code,
        "right": report.verdict in case.verdicts,
    }
    if case.kind in CONTROLS:
        return row | {"false": bool(serious), "unread": bool(unread) or case.kind != "nan-unread"}
    return row | {
        "found": bool(serious),
        "exact": named and first is not None and first.module in case.modules,
        "block": named and first is not None and any(_block(first.module) == _block(module) for module in case.modules),
        "coded": first is not None and first.code in case.codes and ("lora" in first.facts) == (case.lora is not None),
        "stepped": case.step is None or (first is not None and first.step == case.step),
        "all": all(any((f.component, f.module) == other for f in serious) for other in case.others),
        "deep": truth_module,
    }


def _named(finding: Finding) -> str:
    return f"{finding.code} {finding.component}:{finding.module}" + ("" if finding.step is None else f"@{finding.step}")


def _block(module: str) -> str:
    """The residual block, transformer block or attention that a module stands in: up to the last number of a list of blocks."""
    parts = module.split(".")
    lists = [i for i, part in enumerate(parts) if part.isdigit() and parts[i - 1] not in ("to_out", "net", "layer")]
    return ".".join(parts[: lists[-1] + 1]) if lists else module.rpartition(".")[0]


def _cured(engine: DiffusersEngine, sound: Sound, case: Case, report: CheckReport) -> dict[str, Any]:
    """A picture under the cure, next to the one that plain diffusers made in float32."""
    suggested = next((cure.kind for cure in report.cures if cure.suggested), None)
    plan = report.plan
    row: dict[str, Any] = {
        "cure": suggested,
        "refused": [f"{cure.kind}: {cure.refusal}" for cure in report.cures if cure.refusal is not None],
        "share": plan.upcast_parameters / max(1, plan.total_parameters),
        "upcast": {name: list(modules) for name, modules in plan.upcast.items()},
        "rescaled": {name: len(tensors) for name, tensors in plan.rescale.items()},
        "error": plan.error,
    }
    if suggested is None:
        return row | {"cured": False, "psnr": None}
    set_applied(report, True)
    reference = case.picture
    if case.encode:
        if not _takes_picture(sound):
            return row | {"cured": plan.verified, "psnr": None, "made_state": "not drawn: the pipeline takes no picture"}
        reference = _picture(engine, sound, case, "float32")[0]
    picture, state = _picture(engine, sound, case, "float16")
    if picture is None or reference is None:
        return row | {"cured": False, "psnr": None, "made_state": state}
    eight_bits = (reference * 255).round() / 255
    found = truth.psnr(picture, eight_bits)
    return (
        row
        | {"cured": found >= CURED, "psnr": min(round(found, 1), 120.0) if math.isfinite(found) or found > 0 else None}
        | {"made_state": state}
    )


def _picture(engine: DiffusersEngine, sound: Sound, case: Case, precision: Precision) -> tuple[torch.Tensor | None, str]:
    """The first picture, (height, width, 3) in [0, 1], and the state its receipt gives."""
    edge = case.size or sound.family.size
    request = PictureRequest(
        prompt=PROMPT,
        model=str(case.folder),
        width=edge,
        height=edge,
        steps=STEPS,
        guidance=sound.family.guidance,
        seed=SEED,
        num_frames=sound.family.frames,
        image=_drawing(case, edge) if case.encode else None,
        options=sound.family.options,
        start=Start(strength=0.9 if case.encode else None),
        loras=_loras(case),
        output=str(case.folder.parent / "made.png"),  # of a video the first frame
        overwrite=True,
        numerics=Numerics(precision=precision),
    )
    made = engine.generate(Generate(job="g", request=request), silent, Going()).images[0]
    if not made.path:
        return None, made.state
    with Image.open(made.path) as image:
        return torch.from_numpy(np.asarray(image.convert("RGB")).copy()).double() / 255, made.state


def _takes_picture(sound: Sound) -> bool:
    try:
        diffusers.AutoPipelineForImage2Image.from_pipe(sound.pipe)
    except (ValueError, TypeError):
        return False
    return True


def _drawing(case: Case, edge: int) -> str:
    """An input picture with something in it."""
    path = case.folder.parent / f"drawing-{edge}.png"
    if not path.is_file():
        rows, columns = np.mgrid[0:edge, 0:edge] / edge
        content = np.stack([rows, columns, (np.sin(9 * rows * columns) + 1) / 2], axis=-1)
        Image.fromarray((content * 255).astype(np.uint8)).save(path)
    return str(path)
