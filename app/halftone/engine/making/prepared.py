"""A request resolved once: all that is known of its pictures before anything is computed."""

import secrets
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from halftone.contract.facts import DeviceFacts
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics, PictureRequest, ResolvedRequest
from halftone.contract.vocabulary import DType, DTypeState
from halftone.contract.wording import Words
from halftone.engine.basics.torch_settings import without_effect
from halftone.engine.curing.first_plan import first_plan
from halftone.engine.curing.recover import ASSUMED
from halftone.engine.extras.denoiser import told_as_it_is
from halftone.engine.finding.capture import effective
from halftone.engine.inputs.fitting_arguments import with_usable_size
from halftone.engine.inputs.memory import Room, room_of
from halftone.engine.inputs.resolve import bins, drawn_seed, pipeline_arguments, resolve, start_canvas, task_pipeline
from halftone.engine.inputs.start_pictures import Overlay
from halftone.engine.inputs.video_inputs import expected_frames, fps_of
from halftone.engine.inputs.wanted import Inputs, of_request
from halftone.engine.loading.load import Loaded
from halftone.engine.making.job import Job
from halftone.engine.sampling.handover import ALONE, Handover
from halftone.engine.sampling.reading import reads
from halftone.engine.sampling.samplers import check_schedule, make_scheduler, put_scheduler
from halftone.health.device_faults import detours
from halftone.health.pictures.unfinished_pictures import Kept, check_same_model, given_files, read_kept
from halftone.health.precision import granted_to, states
from halftone.library.add_ons.extras import extras_key
from halftone.library.files.header import file_stamp
from halftone.library.prompts.drawn_prompts import says_otherwise
from halftone.library.prompts.prompt_syntax import Rules, rules_of
from halftone.settings.places import data_dir


@dataclass(frozen=True)
class Prepared:
    """A request resolved for the model in memory. loaded: with its task's pipeline; plan: at the beginning; stored: a plan that
    waits as a cure; numerics: the settings with the plan's; kept: a picture to decode or continue; room: memory before anything
    is placed; given: its files; binned: the pipeline computes sizes of its own; notes: for the job; reads: key of what the
    prompts are read with; rules: how they are read.
    """

    loaded: Loaded
    request: PictureRequest
    device: DeviceFacts
    inputs: Inputs
    arguments: Mapping[str, Any]
    overlay: Overlay | None
    expected: int
    fps: int
    dtype: DType
    states: Mapping[DType, DTypeState]
    resolved: ResolvedRequest
    plan: Plan
    stored: Plan | None
    numerics: Numerics
    kept: Kept | None
    given: dict[str, str]
    says_otherwise: bool
    binned: bool
    notes: tuple[Words, ...]
    room: Room
    reads: Hashable
    rules: Rules

    def of(self, request: PictureRequest) -> "Prepared":
        """Resolve a request that differs only in its seeds; a missing seed is drawn again."""
        then = self.resolved
        names = ("seed", "variation_seed") if then.variation_strength else ("seed",)
        drawn = {name: secrets.randbelow(2**32) for name in names if getattr(request, name) is None}
        seeds = {name: getattr(request, name) for name in names} | drawn
        told = {drawn_seed(name, getattr(then, name)): drawn_seed(name, seed) for name, seed in drawn.items()}
        reasons = tuple(told.get(reason, reason) for reason in then.reasons)
        return replace(self, request=request, resolved=msgspec.structs.replace(then, **seeds, reasons=reasons))


Version = tuple[object, ...]


def version_of(request: PictureRequest) -> Version:
    """A key of the request without its seeds, what is used beside the model, and what is known of device and model."""
    seeds = {name: getattr(request, name) and 0 for name in ("seed", "variation_seed")}
    given = (*request.pictures, *(str(data_dir() / name) for name in ("checks", "cures")))
    return msgspec.structs.replace(request, **seeds), extras_key(request.extras), *map(file_stamp, given)


def prepare(loaded: Loaded, job: Job, handover: Handover = ALONE) -> Prepared:
    """Check and resolve a request for the model in memory. Raises HalftoneError for what cannot be done."""
    request, device = job.request, job.device
    inputs = of_request(request, loaded.facts, handover.image)
    pipe = task_pipeline(loaded, inputs)
    inputs = with_usable_size(pipe, inputs, loaded.facts)
    start = start_canvas(pipe, inputs)
    if loaded.native_scheduler is not None:
        scheduled = request.sampler, inputs.options, loaded.facts.family, handover.part
        put_scheduler(pipe, make_scheduler(loaded.native_scheduler, *scheduled))
        check_schedule(pipe.scheduler, inputs.options)
    arguments = pipeline_arguments(pipe, inputs, start)  # it asks how the sampler counts its steps
    expected = expected_frames(pipe, request.num_frames)
    loaded = replace(loaded, pipe=pipe)
    dtype, reason = granted_to(request.numerics, job.tested, device, loaded.facts, loaded.extras)
    ways = detours(job.tested, request.numerics.attention_backend)
    reasons = (reason, *without_effect(request.numerics, loaded.device), *ways)
    kept = None if request.resume_latents is None else read_kept(Path(request.resume_latents))
    if kept is not None:
        check_same_model(kept, handover.model or loaded.facts, request.resume_latents or "")
    if kept is None or kept.asked is not None:
        resolved = resolve(request, loaded, pipe, inputs, dtype, reasons, start)
    else:
        resolved = kept.request
    if kept is not None and kept.asked is not None:  # its words are fixed by now; what they were written as is told on
        then = kept.request
        resolved = msgspec.structs.replace(
            resolved, styles=then.styles, written=then.written, written_negative=then.written_negative
        )
    told = request.fps or (kept.picture.fps if kept is not None and kept.asked is None else None)
    plan, stored = first_plan(loaded, device, dtype, request.numerics)
    return Prepared(
        loaded=loaded,
        request=request,
        device=device,
        inputs=inputs,
        arguments=arguments,
        overlay=None if start is None else start.overlay,
        expected=expected,
        fps=fps_of(pipe, told, request.options, loaded.facts),
        dtype=dtype,
        states=states(job.tested) or ASSUMED,
        resolved=resolved,
        plan=plan,
        stored=stored,
        numerics=effective(request.numerics, plan.settings),
        kept=kept,
        room=room_of(loaded, device, request, resolved, expected, plan.dtypes),
        given=given_files(request),
        says_otherwise=says_otherwise(request),
        binned=bins(pipe, resolved.options),
        notes=told_as_it_is(loaded),
        reads=reads(loaded),
        rules=rules_of(request.options)._replace(passes=handover.steps),
    )
