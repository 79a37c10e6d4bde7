"""Latents on disk: kept when a picture could not be finished, decoded or saved, and read back to continue."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from halftone.contract.errors import HalftoneError
from halftone.engine.sampling.handover import HANDED
from halftone.engine.sampling.unfinished import LOOP, Loop, packed_loop
from halftone.health.pictures.unfinished_pictures import RECORD, Kept
from halftone.settings.atomic import create_atomically
from halftone.settings.places import latents_dir

log = logging.getLogger(__name__)

LIMIT: Final = 2**30
"""Bytes that the folder may hold; about a thousand of the largest latents in use. Beyond it the oldest go."""
NOTHING_HANDED: Final[Mapping[str, torch.Tensor]] = {}
_TENSOR: Final = "latents"


def keep_latents(
    state: torch.Tensor | Loop | None, kept: Kept, limit: int = LIMIT, handed: Mapping[str, torch.Tensor] = NOTHING_HANDED
) -> Path:
    """Write what is left to decode, or what the remaining steps need, and its picture, atomically into the folder of kept
    latents. state: the decoder's input, or the loop, None before the first step; handed: from the pass before.

    Raises OSError, or NotKeptError for a loop that cannot be written; then nothing of it is left.
    """
    folder = latents_dir()
    texts = {RECORD: msgspec.json.encode(kept).decode()}
    if isinstance(state, Loop):
        tensors, texts[LOOP] = packed_loop(state, handed)
    else:
        tensors = {**handed, **({} if state is None else {_TENSOR: state.detach().cpu().contiguous()})}
    content = save(tensors, texts)
    number = 0
    while True:
        path = folder / f"{kept.picture.seed}-{number}.safetensors"
        try:
            create_atomically(path, content)
        except FileExistsError:
            number += 1
        else:
            _forget_oldest(folder, path, limit)
            return path


def keep_if_possible(
    state: torch.Tensor | Loop | None, kept: Kept, handed: Mapping[str, torch.Tensor] = NOTHING_HANDED
) -> Path | None:
    """`keep_latents`; None, with a line in the log, where it cannot be written either. Raises NotKeptError."""
    try:
        return keep_latents(state, kept, handed=handed)
    except OSError:
        log.exception("the latents of seed %d could not be kept", kept.picture.seed)
        return None


def read_latents(path: Path) -> torch.Tensor:
    """What `keep_latents` wrote. Raises latents-unreadable."""
    try:
        with safe_open(path, "pt") as opened:
            return opened.get_tensor(_TENSOR)
    except (OSError, SafetensorError) as error:
        raise HalftoneError("latents-unreadable", str(error), path=str(path)) from error


def read_handed(path: Path) -> dict[str, torch.Tensor]:
    """What a kept pass was handed; {} for the first, and for a picture in one pass. Raises latents-unreadable."""
    try:
        with safe_open(path, "pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys() if name.startswith(HANDED)}  # noqa: SIM118 - a handle
    except (OSError, SafetensorError) as error:
        raise HalftoneError("latents-unreadable", str(error), path=str(path)) from error


def forget_latents(path: Path) -> None:
    """Remove what was kept, once its picture is saved; a copy that somebody made elsewhere stays."""
    if path.resolve().parent != latents_dir().resolve():
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.info("the kept latents %s could not be removed: %s", path, error)


def _forget_oldest(folder: Path, newest: Path, limit: int) -> None:
    files = [path for path in folder.glob("*.safetensors") if path != newest]
    sizes = {path: path.stat() for path in files}
    room = limit - newest.stat().st_size
    for path in sorted(files, key=lambda path: (sizes[path].st_mtime_ns, path.name), reverse=True):
        room -= sizes[path].st_size
        if room < 0:
            log.info("kept latents are too many: %s goes", path)
            forget_latents(path)
