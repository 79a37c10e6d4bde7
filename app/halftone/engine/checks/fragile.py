"""Fragile Pocket: Pocket with two streams scaled up by exact powers of two, so that float16 overflows and nothing else."""

import json
import math
import shutil
from pathlib import Path
from typing import Any, Final, cast

import torch
from diffusers import DiffusionPipeline
from diffusers.utils.logging import disable_progress_bar
from torch import nn

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import is_input
from halftone.contract.vocabulary import FLOAT_LIMITS
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.checks.rewrite import rewrite
from halftone.engine.rescaling.rescale import rescale_groups
from halftone.engine.weights.precision import split_rows
from halftone.health.planning.rescaling import RescaleGroup
from halftone.measure.probe import Probe
from halftone.metadata.picture import output_error
from halftone.settings.disk import no_folder
from halftone.settings.folders import new_folder

BEYOND: Final = 2
"""Bits by which the largest activation passes the float16 limit at least: four times, so that every picture overflows."""
ROOM: Final = 2
"""Bits that stored weights keep below the float16 limit."""
_NOTE: Final = "halftone.json"
_PROMPT: Final = "a red sun over green hills"


def exponents_up(group: RescaleGroup, k: int) -> dict[str, int]:
    """Exponents that make a group 2**k times as large: the inverse of what cures it."""
    found = dict.fromkeys((name for name in group.shrink if not is_input(name)), k)
    found.update(dict.fromkeys(group.grow, -k))
    return found


def scale_parameters(module: nn.Module, exponents: dict[str, int]) -> None:
    """Multiply parameters by powers of two in place; exact while nothing leaves the range of their dtype."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, k in exponents.items():
            base, rows = split_rows(name)
            part = parameters[base].data[rows]
            part.copy_(torch.ldexp(part.float(), torch.tensor(k)))


def make_fragile(pocket: Path, output: Path) -> Path:
    """Write the fragile twin of `pocket` into the new folder `output`: the same picture in float32, overflow in float16.

    Deterministic: the exponents follow from the peaks of one fixed picture. Raises output-exists, output-folder-missing,
    model-load-failed.
    """
    if output.exists() and any(output.iterdir()):
        raise HalftoneError("output-exists", path=str(output))
    if not output.parent.is_dir():
        raise no_folder(output.parent)
    disable_progress_bar()
    pipe = DiffusionPipeline.from_pretrained(pocket, dtype=torch.float32, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    changes = _choose(pipe)
    try:
        with new_folder(output) as part:
            _copy(pocket, part)
            for component, exponents in changes.items():
                for file in (part / component).glob("*.safetensors"):
                    rewrite(file, file, exponents, "scaled up by powers of two, so that float16 overflows")
            _rename_note(part / _NOTE)
    except OSError as error:
        raise output_error(error, output, sum(path.stat().st_size for path in _files(pocket))) from error
    return output


def _files(pocket: Path) -> list[Path]:
    """All but how it was trained."""
    return [path for path in pocket.rglob("*") if path.is_file() and path.relative_to(pocket).parts[0] != "training"]


def _copy(pocket: Path, target: Path) -> None:
    for path in _files(pocket):
        copy = target / path.relative_to(pocket)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _choose(pipe: Any) -> dict[str, dict[str, int]]:
    """The decoder's whole stream, and the first half of the residual block of the UNet that has the most room to grow."""
    vae_peaks, unet_peaks = _peaks(pipe)
    decoder = next(group for group in rescale_groups("vae", pipe.vae) if group.name.endswith("decoder"))
    block = next(group for group in rescale_groups("unet", pipe.unet) if group.name.startswith("first half of mid_block"))
    return {
        "vae": exponents_up(decoder, _shift(pipe.vae, decoder, vae_peaks)),
        "unet": exponents_up(block, _shift(pipe.unet, block, unet_peaks)),
    }


def _peaks(pipe: Any) -> tuple[dict[str, float], dict[str, float]]:
    with torch.no_grad(), quiet_libraries(), Probe(pipe.vae, "vae") as vae, Probe(pipe.unet, "unet") as unet:
        pipe(_PROMPT, num_inference_steps=4, generator=torch.Generator("cpu").manual_seed(0), output_type="pt")
    return _by_module(vae), _by_module(unet)


def _by_module(probe: Probe) -> dict[str, float]:
    return {reading.module: reading.peak for reading in probe.readings()}


def _shift(module: nn.Module, group: RescaleGroup, peaks: dict[str, float]) -> int:
    """Smallest k that carries the group's largest peak BEYOND the limit, unless its weights would come too close to it."""
    limit = math.log2(FLOAT_LIMITS["float16"])
    wanted = math.ceil(limit + BEYOND - math.log2(max(peaks[name] for name in group.modules if name in peaks)))
    parameters = dict(module.named_parameters())
    largest = max(float(parameters[name].detach().abs().max()) for name in group.shrink)
    return min(wanted, math.floor(limit - ROOM - math.log2(largest)))


def _rename_note(path: Path) -> None:
    if path.is_file():
        note = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
        note["name"] = f"Fragile {note.get('name', 'Pocket')}"
        path.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
