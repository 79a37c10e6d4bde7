"""Pictures made larger by an upscale model: in tiles, in half precision where the device computes it right, each tile checked.

spandrel recognises and builds the models. Two of its architectures, neither an upscaler, need torchvision, whose builds are tied
to PyTorch's: it is imported without. Only safetensors are read; a pickle never is.
"""

import copy
import dataclasses
import logging
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GuardEvent
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import DTYPES
from halftone.engine.inputs.memory import free_after
from halftone.health.faults import first_line, is_out_of_memory
from halftone.library.add_ons.upscalers import check_upscaler
from halftone.measure.pictures import is_flat

log = logging.getLogger(__name__)

COMPONENT: Final = "upscaler"
TILE: Final = 256
"""Pixels of a tile's side, before it is made larger."""
MARGIN: Final = 24
"""Pixels around a tile that are computed with it and cut off: what its edges are made of lies there."""
_SMALLEST: Final = 32
_NO_TORCHVISION: Final = Words("this kind of model needs torchvision")
_LACKING: Final = ("torchvision", "torchvision.transforms", "torchvision.transforms.functional")


@dataclass(frozen=True)
class Upscaler:
    """net: (1, 3, height, width) in [0, 1] -> the same, `scale` times larger; half: whether it may run in float16."""

    name: str
    scale: int
    net: Any
    half: bool


@dataclass(frozen=True)
class Enlarged:
    """dtype: in which the last tile ran. events: what had to be done again."""

    image: Image.Image
    dtype: DType
    events: tuple[GuardEvent, ...]


def load_upscaler(path: str, device: torch.device) -> Upscaler:
    """The model in float32 on the device. Raises upscaler-missing, upscaler-not-one, model-truncated, model-bad-header."""
    check_upscaler(path)
    with _without_torchvision():
        import spandrel
    try:
        found = spandrel.ModelLoader().load_from_state_dict(load_file(path))
    except spandrel.UnsupportedModelError as error:
        detail = Words("its weights fit no known kind of upscale model")
        raise HalftoneError("upscaler-not-one", str(error), path=path, detail=detail) from error
    except _NoTorchvisionError as error:
        raise HalftoneError("upscaler-not-one", path=path, detail=_NO_TORCHVISION) from error
    except (RuntimeError, ValueError, KeyError) as error:
        if is_out_of_memory(error):
            raise
        raise HalftoneError("upscaler-not-one", str(error), path=path, detail=first_line(error).rstrip(".")) from error
    if not isinstance(found, spandrel.ImageModelDescriptor) or (found.input_channels, found.output_channels) != (3, 3):
        raise HalftoneError(
            "upscaler-not-one", path=path, detail=Words("it does not turn a colour picture into a colour picture")
        )
    return Upscaler(Path(path).stem, int(found.scale), found.to(device).eval(), bool(found.supports_half))


@contextmanager
def on_device(upscaler: Upscaler, device: torch.device) -> Generator[None]:
    """Brings it there, and takes it away again: between two pictures the room is the model's."""
    before = next(upscaler.net.model.parameters()).device
    try:
        upscaler.net.to(device)
        yield
    finally:
        upscaler.net.to(before)


def enlarge(
    image: Image.Image,
    upscaler: Upscaler,
    dtype: DType,
    check: Callable[[], None] = lambda: None,
    told: Callable[[int, int], None] = lambda _done, _total: None,
    tile: int = TILE,
) -> Enlarged:
    """The picture, `upscaler.scale` times larger. check: called before each tile, may raise; told: (tiles done, of all).

    A tile that is not finite, or of one colour though its source is not, is computed again in float32, as are those after it. Too
    little memory: smaller tiles. Raises upscaler-broken, out-of-memory.
    """
    run: DType = "float16" if dtype == "float16" and upscaler.half else "float32"
    while True:
        try:
            return _in_tiles(image, upscaler, run, check, told, tile)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if tile // 2 < _SMALLEST:
                raise HalftoneError("out-of-memory", detail=first_line(error)) from error
            free_after(error)
            tile //= 2
            log.info("too little memory: tiles of %d pixels", tile)


def _in_tiles(
    image: Image.Image,
    upscaler: Upscaler,
    run: DType,
    check: Callable[[], None],
    told: Callable[[int, int], None],
    tile: int,
) -> Enlarged:
    pixels = np.asarray(image.convert("RGB"))
    height, width = pixels.shape[:2]
    scale = upscaler.scale
    made = np.empty((height * scale, width * scale, 3), np.uint8)
    events: list[GuardEvent] = []
    narrow = upscaler  # else a copy: what FP32 computes with is never rounded
    if run != "float32":
        narrow = dataclasses.replace(upscaler, net=copy.deepcopy(upscaler.net).to(DTYPES[run]))
    places = [(top, left) for top in range(0, height, tile) for left in range(0, width, tile)]
    for done, (top, left) in enumerate(places, 1):
        check()
        bottom, right = min(top + tile, height), min(left + tile, width)
        above, before = max(0, top - MARGIN), max(0, left - MARGIN)
        given = pixels[above : min(bottom + MARGIN, height), before : min(right + MARGIN, width)]
        result, event = _tile(given, upscaler, narrow, run)
        if event is not None:
            events.append(event)
            run, narrow = "float32", upscaler
        rows = slice((top - above) * scale, (bottom - above) * scale)
        columns = slice((left - before) * scale, (right - before) * scale)
        made[top * scale : bottom * scale, left * scale : right * scale] = result[rows, columns]
        told(done, len(places))
    return Enlarged(Image.fromarray(made), run, tuple(events))


def _tile(given: Any, upscaler: Upscaler, narrow: Upscaler, run: DType) -> tuple[Any, GuardEvent | None]:
    """(height, width, 3) bytes of a tile made larger, and what had to be done again."""
    result = _run(given, narrow)
    kind = _fault(given, result)
    if kind is None:
        return _bytes(result), None
    started = time.perf_counter()
    if run != "float32":
        again = _run(given, upscaler)
        if _fault(given, again) is None:
            seconds = time.perf_counter() - started
            return _bytes(again), GuardEvent(
                step=None,
                component=COMPONENT,
                module="",
                kind=kind,
                action="enlarged-again",
                cure="float32-component",
                limit=FLOAT_LIMITS[run],
                seconds=seconds,
                sound_in_float32=True,
            )
        result = again
    if not bool(torch.isfinite(result).all()):
        raise HalftoneError("upscaler-broken", name=upscaler.name)
    return _bytes(result), None  # of one colour in float32 too: what the model makes of it


def _run(given: Any, upscaler: Upscaler) -> torch.Tensor:
    """(3, height, width) floats."""
    weights = next(upscaler.net.model.parameters())
    tensor = torch.from_numpy(np.array(given)).to(weights.device).permute(2, 0, 1)[None].to(weights.dtype) / 255
    with torch.inference_mode():
        return cast("torch.Tensor", upscaler.net(tensor))[0].float().cpu()


def _fault(given: Any, result: torch.Tensor) -> str | None:
    """What is wrong with a tile: its numbers, or one colour where it shows more than one."""
    if not bool(torch.isfinite(result).all()):
        return "nonfinite"
    return "flat" if is_flat(_bytes(result)) and not is_flat(given) else None


def _bytes(result: torch.Tensor) -> Any:
    return (result.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


@contextmanager
def _without_torchvision() -> Generator[None]:
    """Stand in for the names that LaMa and RestoreFormer import where torchvision is missing; removed afterwards."""
    from importlib.util import find_spec

    if "spandrel" in sys.modules or find_spec("torchvision") is not None:
        yield
        return
    stand_ins = [ModuleType(name) for name in _LACKING]
    for name in ("InterpolationMode", "rotate", "normalize"):
        setattr(stand_ins[-1], name, _lacking)
    sys.modules.update(zip(_LACKING, stand_ins, strict=True))
    try:
        yield
    finally:
        for name in _LACKING:
            sys.modules.pop(name, None)


def _lacking(*_args: Any, **_kwargs: Any) -> Any:
    raise _NoTorchvisionError(_NO_TORCHVISION.text())


class _NoTorchvisionError(RuntimeError):
    """A kind of model runs with a package that is not there."""
