"""Pictures and captions read once by the VAE and the text encoders, checked, and kept on disk by what they were made of."""

import hashlib
import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from halftone.contract.errors import HalftoneError
from halftone.contract.training import TrainConfig, TrainPicture
from halftone.contract.wording import Words
from halftone.engine.basics.tensors import map_tensors
from halftone.engine.basics.wrapping import replaced
from halftone.engine.loading.load import Loaded
from halftone.engine.loading.plans import apply_state
from halftone.engine.weights.offload import place
from halftone.engine.weights.parts import role
from halftone.engine.weights.precision import ComponentState, invoke
from halftone.library.training_data.training_pictures import brought_to, caption_of, left_out
from halftone.settings.atomic import write_atomically
from halftone.settings.private import close_to_others, private_folder
from halftone.settings.regular_files import open_regular
from halftone.training.lora.bases import Base, Tensors

_NO_WORDS: Final = ""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """All in float32 on the CPU. pictures: all that were read, unusable ones with the reason; latents: (name, flipped) -> (1,
    ...); words: of each caption, "" among them; captions: of each picture.
    """

    pictures: tuple[TrainPicture, ...]
    latents: Mapping[tuple[str, bool], torch.Tensor]
    words: Mapping[str, Tensors]
    captions: Mapping[str, str]


def encode_all(
    loaded: Loaded,
    base: Base,
    config: TrainConfig,
    pictures: Sequence[TrainPicture],
    folder: Path,
    tick: Callable[[int, int], None],
) -> Encoded:
    """pictures: usable ones; folder: of the cache; tick: called with (done, total). Raises HalftoneError model-broken."""
    cache = _Cache(folder, loaded.facts.fingerprint)
    captions = {picture.name: caption_of(picture, config.word) for picture in pictures}
    texts: list[str] = sorted({*captions.values(), *([_NO_WORDS] if config.caption_dropout else [])})
    sides = (False, True) if config.flip else (False,)
    total, done = len(texts) + len(pictures) * len(sides), 0
    latents: dict[tuple[str, bool], torch.Tensor] = {}
    words: dict[str, Tensors] = {}
    told: list[TrainPicture] = []
    with _casting(loaded), torch.no_grad():
        for text in texts:
            tick(done, total)
            words[text] = _words(loaded, base, text, cache)
            done += 1
        for picture in pictures:
            tick(done, total)
            try:
                made = {(picture.name, side): _latents(loaded, base, config, picture, cache, flip=side) for side in sides}
            except _Unusable as unusable:
                told.append(left_out(picture, unusable.problem))
            else:
                latents |= made
                told.append(picture)
            done += len(sides)
    tick(total, total)
    return Encoded(tuple(told), latents, words, captions)


class _Unusable(Exception):  # noqa: N818 - it is left out, and told why
    """problem: as `TrainPicture` calls it."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def _words(loaded: Loaded, base: Base, text: str, cache: "_Cache") -> Tensors:
    found = cache.get("words", text)
    if found is None:
        found = _finite(loaded, "encode", lambda: base.read_words(loaded.pipe, text, loaded.device))
        if found is None:
            name = next(name for name, module in loaded.modules.items() if role(name, module) == "encode")
            raise HalftoneError(
                "model-broken", model=loaded.facts.name, detail=Words("{0} gives NaN or infinity for “{1}”", (name, text))
            )
        cache.put("words", text, found)
    return found


def _latents(
    loaded: Loaded, base: Base, config: TrainConfig, picture: TrainPicture, cache: "_Cache", *, flip: bool
) -> torch.Tensor:
    """Raises _Unusable where they are not finite in float32 either, or the file is gone since it was read."""
    path = Path(config.pictures).expanduser() / picture.name
    try:
        key = f"{content_hash(path)} {picture.shape} {flip}"
        found = cache.get("latents", key)
        pixels = _pixels(path, picture.shape, flip=flip) if found is None else None
    except (OSError, HalftoneError) as error:
        log.info("%s cannot be read any more", path, exc_info=True)
        raise _Unusable("unreadable") from error
    if pixels is not None:
        there = pixels.to(loaded.device)
        found = _finite(loaded, "decode", lambda: {"latents": base.read_picture(loaded.pipe, there)})
    if found is None:
        raise _Unusable("latents")
    cache.put("latents", key, found)
    return found["latents"]


def content_hash(path: Path) -> str:
    """Hash of a file's bytes. Raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _pixels(path: Path, shape: tuple[int, int], *, flip: bool) -> torch.Tensor:
    """(1, 3, height, width), -1 to 1."""
    values = np.asarray(brought_to(path, shape, flip=flip), dtype=np.float32)
    return torch.from_numpy(values / 127.5 - 1).permute(2, 0, 1)[None]


def _finite(loaded: Loaded, kind: str, make: Callable[[], Tensors]) -> Tensors | None:
    """The result, with the components of that role in float32 from the first bad number on; None where that does not help."""
    made = _on_cpu(make())
    if _sound(made.values()):
        return made
    narrow = [name for name, module in loaded.modules.items() if role(name, module) == kind]
    if all(loaded.states[name] == ComponentState(dtype="float32") for name in narrow):
        return None
    log.warning("%s gave bad numbers and runs in float32 now", ", ".join(narrow))
    for name in narrow:
        apply_state(loaded, name, ComponentState(dtype="float32"))
        place(loaded.modules[name])
    made = _on_cpu(make())
    return made if _sound(made.values()) else None


def _on_cpu(made: Tensors) -> Tensors:
    floating = map_tensors(made, lambda tensor: tensor.detach().cpu().float() if tensor.is_floating_point() else tensor.cpu())
    return {name: tensor.contiguous() for name, tensor in floating.items()}


def _sound(tensors: Iterable[torch.Tensor]) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@contextmanager
def _casting(loaded: Loaded) -> Generator[None]:
    """Encoders and VAE run where they lie, in their own type, called as their pipeline calls them."""
    with ExitStack() as stack:
        for name, module in loaded.modules.items():
            if (method := {"encode": "forward", "decode": "encode"}.get(role(name, module))) is not None:
                stack.enter_context(replaced(module, method, partial(_invoking, loaded, name, module)))
        yield


def _invoking(loaded: Loaded, name: str, module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: invoke(module, original, loaded.states[name].dtype, args, kwargs)


class _Cache:
    """Small safetensors files, readable by their owner alone. One that cannot be read or written is made again."""

    def __init__(self, folder: Path, model: str) -> None:
        close_to_others((folder,))  # an older version let others read it
        self._folder = folder
        self._model = model

    def get(self, kind: str, key: str) -> Tensors | None:
        try:
            found = load(self._path(kind, key).read_bytes())
        except (OSError, SafetensorError):
            return None
        return found if _sound(found.values()) else None

    def put(self, kind: str, key: str, tensors: Tensors) -> None:
        path = self._path(kind, key)
        if path.exists():
            return
        try:
            private_folder(self._folder)
            private_folder(path.parent)
            write_atomically(path, save(tensors), private=True)
        except OSError:
            log.info("%s could not be kept", path, exc_info=True)

    def _path(self, kind: str, key: str) -> Path:
        digest = hashlib.sha256(f"{self._model}\0{kind}\0{key}".encode()).hexdigest()
        return self._folder / kind / f"{digest[:32]}.safetensors"
