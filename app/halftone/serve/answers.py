"""What scripts get, in the form of A1111's answers."""

import base64
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from halftone import __version__
from halftone.contract.facts import GenerateReport, ModelFacts, PictureFacts
from halftone.contract.messages import Generate, Report
from halftone.contract.request import PictureRequest
from halftone.health.explain import note_for
from halftone.library.files.model_hash import model_hash
from halftone.library.index.facts import Hashes
from halftone.metadata.reading import parse_parameters, read_picture
from halftone.session.state import Job

Json = dict[str, Any]
_EXTRA: Final = ("Schedule type", "Hires", "Refiner", "Mask", "Inpaint", "Resize mode", "Denoising")
"""Fields of a picture's text that A1111 lists apart."""

_UPSCALER: Final = "Hires upscaler: "
_SHORT: Final = 10
"""Digits."""


class Preview(NamedTuple):
    """width, height: in pixels; pixels: RGB, rows from the top."""

    width: int
    height: int
    pixels: bytes


def upscaler_item(name: str, path: str | None) -> Json:
    return {"name": name, "model_name": None if path is None else name, "model_path": path, "model_url": None, "scale": None}


def known_hash(path: str, known: Mapping[str, Hashes]) -> str | None:
    """SHA-256 of a file that the index of models has hashed."""
    return known[path].sha256 if path in known else None


def short_hash(path: str | None, known: Mapping[str, Hashes]) -> str | None:
    """The digits by which A1111 names a model's file, computed where they are not known; None for a folder, and for no file."""
    if path is None or not os.path.isfile(path):
        return None
    found = known_hash(path, known) or model_hash(path, _SHORT, lambda: False)
    return found[:_SHORT] or None


def model_item(facts: ModelFacts, sha256: str | None = None) -> Json:
    return {
        "title": facts.name,
        "model_name": facts.name,
        "hash": sha256 and sha256[:_SHORT],
        "sha256": sha256,
        "filename": facts.path,
        "config": None,
    }


def share_done(job: Job | None) -> float:
    """How much of a job is done, from 0 to 1."""
    if job is None or not isinstance(job.command, Generate) or not job.steps:
        return 0.0
    last, batch = job.steps[-1], job.command.request.batch
    return min(1.0, (last.picture - 1 + last.step / max(1, last.steps)) / max(1, batch))


def png_text(preview: Preview) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.frombytes("RGB", (preview.width, preview.height), preview.pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def recoveries(facts: PictureFacts) -> list[str]:
    """Say what happened to a picture, in the words of the window."""
    notes = map(note_for, facts.events)
    lines = [f"{note.title.text()} {note.text.text()}" for note in notes]
    if facts.black and not lines:
        lines.append("This picture is of one colour.")
    return lines


def unused_notes(names: Iterable[str], left: Iterable[str], request: PictureRequest) -> list[str]:
    """Say what of a request was not used, and what was instead. left: "Name: value" as in a picture's text."""
    upscaler = "" if request.hires is None else request.hires.upscaler.capitalize()
    return [
        *(f"Not used: {name}." for name in names),
        *(
            f"There is no upscaler {one.removeprefix(_UPSCALER)} here. {upscaler} was used instead."
            if one.startswith(_UPSCALER) and upscaler
            else f"Not used: {one}."
            for one in left
        ),
    ]


def guidance_notes(report: Report | None) -> list[str]:
    """Say where the guidance acts as another one."""
    return [str(one) for one in report.plan.reasons if one.about == "guidance"] if isinstance(report, GenerateReport) else []


def asked_steps(facts: PictureFacts, request: PictureRequest, said: Mapping[str, str]) -> int:
    """Return the steps of the first pass that were asked for, as A1111 does, or how many were made where it was stopped. All
    passes have more, and some samplers call the model more often. said: the fields of the picture's text.
    """
    if facts.stopped_of is not None:
        return facts.steps
    return int(said.get("Steps") or request.steps or (facts.passes[0].steps if facts.passes else facts.steps))


class Source(NamedTuple):
    """The model of an answer's pictures. hash, vae_hash: short ones."""

    name: str
    hash: str | None = None
    vae_hash: str | None = None


def info_of(request: PictureRequest, source: Source, pictures: list[PictureFacts], warnings: list[str], stamp: str) -> Json:
    """As A1111 describes the pictures of an answer."""
    texts = [read_picture(Path(facts.path)).parameters or "" for facts in pictures]
    read = [parse_parameters(text) for text in texts]  # their prompts have the tags of LoRAs, as A1111's
    said = read[0].fields if read else {}
    first = pictures[0] if pictures else None
    return {
        "prompt": read[0].prompt if read else request.prompt,
        "all_prompts": [one.prompt for one in read],
        "negative_prompt": request.negative,
        "all_negative_prompts": [facts.negative or request.negative for facts in pictures],
        "seed": -1 if first is None else first.seed,
        "all_seeds": [facts.seed for facts in pictures],
        "subseed": -1 if first is None or first.variation_seed is None else first.variation_seed,
        "all_subseeds": [-1 if facts.variation_seed is None else facts.variation_seed for facts in pictures],
        "subseed_strength": request.variation_strength,
        "width": 0 if first is None else first.width,
        "height": 0 if first is None else first.height,
        "sampler_name": said.get("Sampler", ""),
        "scheduler": said.get("Schedule type", "Automatic"),
        "cfg_scale": float(said.get("CFG scale", 0)),
        "steps": 0 if first is None else asked_steps(first, request, said),
        "batch_size": request.batch,
        "sd_model_name": source.name,
        "sd_model_hash": source.hash,
        "sd_vae_name": said.get("VAE"),
        "sd_vae_hash": source.vae_hash,
        "restore_faces": False,
        "face_restoration_model": None,
        "seed_resize_from_w": (request.seed_size or (-1, -1))[0],
        "seed_resize_from_h": (request.seed_size or (-1, -1))[1],
        "denoising_strength": request.start.strength if request.hires is None else request.hires.strength,
        "extra_generation_params": {name: text for name, text in said.items() if name.startswith(_EXTRA)},
        "index_of_first_image": 0,
        "infotexts": texts,
        "styles": [style.name for style in request.styles],
        "job_timestamp": stamp,
        "is_using_inpainting_conditioning": False,
        "clip_skip": int(said.get("Clip skip", 1)),
        "version": f"Halftone {__version__}",
        "warnings": warnings,
    }
