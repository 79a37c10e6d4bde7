"""Pictures of one job with different LoRAs: each made as a job of its own, reported as one."""

import secrets
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from halftone.contract.engine import Emit
from halftone.contract.facts import GenerateReport
from halftone.contract.messages import AnyEvent, JobStarted, PictureReady, PictureSaving, StepDone
from halftone.contract.parameters import seed_after
from halftone.contract.request import Lora, PictureRequest
from halftone.health.pictures.run_reasons import first_times
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library.prompts.drawn_prompts import drawn_loras
from halftone.metadata.picture import absolute, numbered

Make = Callable[[PictureRequest, tuple[Lora, ...], Emit], GenerateReport]


def pictures_of(request: PictureRequest) -> list[tuple[PictureRequest, tuple[Lora, ...]]]:
    """Each picture's own request, with the LoRAs that its words name among the others, and those. Raises as `drawn_loras`."""
    seed = secrets.randbelow(2**32) if request.seed is None else request.seed
    varies, other = request.variation_strength > 0, request.variation_seed
    if varies and other is None:
        other = secrets.randbelow(2**32)
    seeds = [seed_after(seed, 0 if varies else index) for index in range(request.batch)]
    found: list[tuple[PictureRequest, tuple[Lora, ...]]] = []
    for index, (own, loras) in enumerate(zip(seeds, drawn_loras(request, seeds), strict=True)):
        one = replace(
            request,
            seed=own,
            variation_seed=seed_after(other, index) if varies and other is not None else other,
            batch=1,
            output=_output(request.output, index),
            loras=(*request.loras, *loras),
            lora_folders=None,
        )
        found.append((one, loras))
    return found


def _output(output: str | None, index: int) -> str | None:
    return output if output is None or absolute(output).is_dir() else str(numbered(Path(output), index))


def drawn_before(request: PictureRequest) -> tuple[Lora, ...]:
    """The LoRAs that the prompt of a kept picture named. request: as written. Raises latents-*."""
    if request.lora_folders is None or request.resume_latents is None:
        return ()
    return tuple(lora for lora in read_kept(Path(request.resume_latents)).request.loras if lora not in request.loras)


def make_one_by_one(pictures: list[tuple[PictureRequest, tuple[Lora, ...]]], make: Make, emit: Emit) -> GenerateReport:
    """All of them, until one does not fit into the memory. Raises as `make`."""
    reports: list[GenerateReport] = []
    for index, (request, loras) in enumerate(pictures):
        report = make(request, loras, _told(emit, index))
        reports.append(replace(report, images=tuple(replace(facts, index=index) for facts in report.images)))
        if any(shortage.then == "stopped" for facts in report.images for shortage in facts.shortages):
            break
    plan = reports[-1].plan
    return replace(
        reports[-1],
        plan=replace(plan, reasons=first_times(reports[0].plan.reasons, plan.reasons)),
        images=tuple(facts for report in reports for facts in report.images),
        events=tuple(event for report in reports for event in report.events),
        seconds=sum(report.seconds for report in reports),
        seconds_per_step=next((one.seconds_per_step for one in reports if one.seconds_per_step is not None), None),
    )


def _told(emit: Emit, index: int) -> Emit:
    """Events of one picture as those of the one job."""

    def tell(event: AnyEvent, blob: bytes = b"") -> None:
        if isinstance(event, JobStarted) and index:
            return
        if isinstance(event, PictureReady | PictureSaving):
            event = replace(event, facts=replace(event.facts, index=index))
        if isinstance(event, StepDone):
            event = replace(event, picture=index + 1)
        emit(event, blob)

    return tell
