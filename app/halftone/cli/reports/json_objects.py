"""The objects that --json prints: stable names, finite numbers or null."""

import json
import math
import sys
from typing import Any

import msgspec

from halftone.cli.reports.chosen_precision import ChosenPrecision
from halftone.cli.reports.guard_events import cure_command
from halftone.cli.reports.remedies import finding_remedy, remedy_here
from halftone.contract.errors import ErrorFacts, sentence
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    Finding,
    GenerateReport,
    GuardEvent,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.parameters import PARAMETERS
from halftone.contract.plan import Cure, Plan, rescaled_modules
from halftone.contract.request import Lora, PictureRequest
from halftone.contract.wording import spelled_out
from halftone.health.explain import finding_words
from halftone.health.troubles import known_on, known_on_device, trouble_object

SCHEMA = 1


def put(content: dict[str, Any]) -> None:
    """One object on stdout, in ASCII, so that no terminal's encoding can break it."""
    sys.stdout.write(json.dumps(finite(spelled_out(content)), allow_nan=False, indent=2) + "\n")


def finite(value: Any) -> Any:
    """The same without NaN and infinities: they become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def check_object(report: CheckReport, precision: ChosenPrecision, *, layers: bool) -> dict[str, Any]:
    """layers: also every module's peak."""
    model, device = report.model, report.device
    known = known_on(model, device, report.precision, report.numerics)
    found = [_finding_object(one) for one in report.findings]
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "model": {"path": model.path, "family": model.family, "format": model.format},
        "device": {"name": device.name, "backend": device.backend},
        "precision": report.precision,
        "precision_reason": precision.reason,
        "verdict": report.verdict,
        "findings": found,
        "known": [trouble_object(trouble) for trouble in known],
        "plan": plan_object(report.plan),
        "cures": [_cure_object(report, cure) for cure in report.cures if cure.kind != "none"],
        "components": {name: msgspec.to_builtins(facts) for name, facts in report.components.items()},
        "seconds": report.seconds,
        "made_up_inputs": list(report.made_up),
        "ran": [{"width": width, "height": height, "frames": frames} for width, height, frames in report.sizes],
    }
    if report.loras:
        content["loras"] = [_lora(lora) for lora in report.loras]
    if report.vae is not None:
        content["vae"] = report.vae
    if report.transformer is not None:
        content["transformer"] = report.transformer
    if report.controls:
        content["controls"] = [msgspec.to_builtins(control) for control in report.controls]
    if report.ip_adapters:
        content["ip_adapters"] = [msgspec.to_builtins(one) for one in report.ip_adapters]
    if report.inversions:
        content["embeddings"] = list(report.inversions)
    if layers:
        names = ("component", "module", "kind", "peak", "peak_after")
        content["layers"] = [{name: getattr(layer, name) for name in names} for layer in report.layers]
    return content


def _finding_object(finding: Finding) -> dict[str, Any]:
    names = ("code", "component", "module", "dtype", "peak", "limit", "step")
    words = {"message": finding_words(finding)[0], "remedy": finding_remedy(finding)}
    further = [msgspec.to_builtins(one) for one in finding.further]
    return {name: getattr(finding, name) for name in names} | words | {"further": further}


def _cure_object(report: CheckReport, cure: Cure) -> dict[str, Any]:
    """command: which applies it, None where only the suggested one can be had."""
    names = ("kind", "suggested", "time_ratio", "time_spread", "memory_bytes", "disk_bytes", "psnr", "refusal")
    return {**{name: getattr(cure, name) for name in names}, "command": cure_command(report, cure)}


def generate_object(report: GenerateReport, precision: ChosenPrecision, notes: tuple[str, ...]) -> dict[str, Any]:
    """precision: what the pictures were to run in; the plan says what each component did. notes: what else the user
    should know.
    """
    names = ("step", "component", "module", "kind", "action")
    return {
        "images": [_image_object(image) for image in report.images],
        "precision": precision.dtype,
        "precision_reason": precision.reason,
        "plan": plan_object(report.plan),
        "notes": list(notes),
        "events": [{name: getattr(event, name) for name in names} | _more_object(event) for event in report.events],
        "seconds": report.seconds,
        "seconds_per_step": report.seconds_per_step,
    }


def asked_object(request: PictureRequest) -> dict[str, int | float]:
    """The numbers that were asked for, each under the name of its option in the terminal."""
    numbers = ((one.flags[0].lstrip("-").replace("-", "_"), one.number(request)) for one in PARAMETERS)
    return {name: number for name, number in numbers if number is not None}


def start_object(request: PictureRequest) -> dict[str, Any]:
    """What the pictures were made of, as it was asked for; nothing where they were made by the model of words alone."""
    made: dict[str, Any] = {} if request.refiner is None else {"refiner": msgspec.to_builtins(request.refiner)}
    if request.ip_adapters:
        made["ip_adapters"] = [msgspec.to_builtins(one) for one in request.ip_adapters]
    if request.image is None:
        return made
    return made | {"start": {"image": request.image, "mask": request.mask, **msgspec.structs.asdict(request.start)}}


def _more_object(event: GuardEvent) -> dict[str, Any]:
    """The LoRAs that are the cause, and the pass of several."""
    cause = {} if event.lora is None else {"loras": list(event.lora.names)}
    return cause | ({"in_pass": event.in_pass} if event.in_pass else {})


def _image_object(image: PictureFacts) -> dict[str, Any]:
    """latents: the file of an unfinished picture, for --latents; kept_step: the step after which it was saved."""
    names = ("seed", "width", "height", "state", "dtypes", "cures", "black", "finite", "latents", "kept_step", "peak_memory")
    drawn = [name for name in ("variation_seed", "prompt", "negative") if getattr(image, name)]
    film = ("frames", "fps", "flat_frames", "broken_frames") if image.frames > 1 else ()
    loras = {"loras": [_lora(lora) for lora in image.loras]} if image.loras else {}
    made = {"passes": [msgspec.to_builtins(one) for one in image.passes]} if image.passes else {}
    own = {name: getattr(image, name) for name in (*names, *drawn, *film)}
    return {"path": image.path or None, **own, **loras, **made, **_cut_object(image.cut_short)}


def _cut_object(why: ErrorFacts | None) -> dict[str, Any]:
    """Why the second pass could not be made."""
    if why is None:
        return {}
    return {"cut_short": {"code": why.code, "message": sentence(why), "remedy": remedy_here(why), "facts": why.facts}}


def repair_object(report: RepairReport) -> dict[str, Any]:
    names = ("path", "changed_tensors", "float32_error", "float16_finite")
    limits = {"without_add_ons": report.without_add_ons} if report.without_add_ons else {}
    return {**{name: getattr(report, name) for name in names}, **limits}


def devices_object(devices: tuple[DeviceFacts, ...], report: SelfTestReport) -> dict[str, Any]:
    """The self-test, and beside it what else there is to compute on."""
    return {
        "schema": SCHEMA,
        "devices": [msgspec.to_builtins(device) for device in devices],
        "known": [trouble_object(trouble) for trouble in known_on_device(report.device)],
        **_without(msgspec.to_builtins(report), "type"),
    }


def plan_object(plan: Plan) -> dict[str, Any]:
    return {
        "dtypes": plan.dtypes,
        "rescale": {component: rescaled_modules(tensors) for component, tensors in plan.rescale.items()},
        "rescale_deviation": plan.deviation if plan.rescale else {},
        "upcast": {component: list(whole) for component in plan.upcast if (whole := plan.wide_modules(component))},
        "results_in_float32": {component: list(only) for component in plan.upcast if (only := plan.wide_results(component))},
        "scaled_inputs": {component: scaled for component in plan.upcast if (scaled := plan.scaled_layers(component))},
        "settings": plan.settings,
        "upcast_parameters": plan.upcast_parameters,
        "total_parameters": plan.total_parameters,
        "error": plan.error,
        "verified": plan.verified,
        "reasons": list(map(str, plan.reasons)),
    }


def _without(content: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != name}


def _lora(lora: Lora) -> dict[str, Any]:
    encoder = {} if lora.encoder_weight is None else {"encoder_weight": lora.encoder_weight}
    return {"path": lora.path, "weight": lora.weight, **encoder}
