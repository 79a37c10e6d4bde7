"""By what a model is recognised on another machine: the hashes of its files."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import HalftoneError
from halftone.contract.request import LANCZOS, LATENT, PictureRequest, file_name
from halftone.contract.vocabulary import POCKET
from halftone.contract.wording import Words
from halftone.library.files.folder import INDEX
from halftone.library.files.model_hash import model_hash
from halftone.library.models import describe
from halftone.settings.folders import is_unfinished
from halftone.settings.places import resources
from halftone.settings.store import Settings

_WHOLE: Final = 64
"""Digits of a whole SHA-256."""
_KEPT: Final = 10
"""A listing counts for so many times the time that it took."""


class FilePrint(msgspec.Struct, frozen=True, kw_only=True):
    """name: inside the model's folder, with / between folders; "" of a model that is a file. digest: SHA-256."""

    name: str
    size: int
    digest: str


class ModelPrint(msgspec.Struct, frozen=True, kw_only=True):
    """path: as the head's requests name it; name: its last part, for sentences."""

    path: str
    name: str
    files: tuple[FilePrint, ...]

    @property
    def is_folder(self) -> bool:
        return self.files[0].name != ""


def print_of(path: str) -> ModelPrint:
    """Read all files of a model, or of what is used with one, and hash them. Raises HalftoneError model-missing, and
    farm-refused for a model that lies in several files beside each other, or that cannot be read.
    """
    root = resources() / POCKET if path == POCKET else Path(path).expanduser().absolute()
    if not root.exists():
        raise HalftoneError("model-missing", path=str(root))
    if root.is_file() and _has_parts(str(root)):
        raise HalftoneError("farm-refused", name=root.name, why=Words("its parts lie in files of their own beside it"))
    files = tuple(_file_print(root, file) for file in sorted(_files(root)))
    if not files:
        raise HalftoneError("model-empty-folder", path=str(root))
    return ModelPrint(path=path, name=file_name(str(root)), files=files)


def _has_parts(path: str) -> bool:
    try:
        return bool(describe(path).parts)
    except HalftoneError:
        return False  # a LoRA, or another file beside a model


def _files(root: Path) -> Iterable[Path]:
    """The files of a model: of a folder its index and all that its parts hold; folders beside the parts are not the model."""
    if root.is_file():
        return [root]
    parts = [root / INDEX] if (root / INDEX).is_file() else []
    if not parts:
        return [file for file in root.rglob("*") if file.is_file()]
    names = msgspec.json.decode((root / INDEX).read_bytes(), type=dict[str, object])
    folders = [root / name for name, value in names.items() if isinstance(value, list) and (root / name).is_dir()]
    return parts + [file for folder in folders for file in folder.rglob("*") if file.is_file()]


def _file_print(root: Path, file: Path) -> FilePrint:
    digest = model_hash(str(file), _WHOLE, lambda: False)
    if not digest:
        raise HalftoneError("farm-refused", name=str(file), why=Words("it cannot be read"))
    name = "" if file == root else file.relative_to(root).as_posix()
    return FilePrint(name=name, size=file.stat().st_size, digest=digest)


def models_of(request: PictureRequest) -> tuple[str, ...]:
    """The files and folders that a request names as models, each once."""
    return tuple(dict.fromkeys(path for path in request.models if path not in (LATENT, LANCZOS)))


def with_paths(request: PictureRequest, places: Mapping[str, str]) -> PictureRequest:
    """The request with other paths for its models. places: path -> path."""

    def there(path: str) -> str:
        return places.get(path, path)

    hires, refiner = request.hires, request.refiner
    return replace(
        request,
        model=there(request.model),
        refiner=None if refiner is None else replace(refiner, path=there(refiner.path)),
        hires=None if hires is None else replace(hires, upscaler=there(hires.upscaler)),
        vae=None if request.vae is None else there(request.vae),
        transformer=None if request.transformer is None else there(request.transformer),
        inversions=tuple(map(there, request.inversions)),
        loras=tuple(replace(one, path=there(one.path)) for one in request.loras),
        controls=tuple(replace(one, path=there(one.path)) for one in request.controls),
        ip_adapters=tuple(replace(one, path=there(one.path)) for one in request.ip_adapters),
    )


def own_folders(settings: Settings) -> tuple[str, ...]:
    """Where a node looks for models, and for what is used with them."""
    return (*settings.model_folders, *settings.lora_folders, *settings.embedding_folders, *settings.upscaler_folders)


class Listing:
    """What lies in folders, walked once, when it is first asked for, and hashed no further than it must be. For one thread."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = folders
        self._good_until = float("inf")
        self._sizes: dict[int, list[str]] | None = None
        self._names: dict[str, list[str]] = {}
        self._hashed: dict[tuple[str, int], dict[str, list[str]]] = {}
        """(name of a file in a model, size) -> its digest -> the models whose file has it, as far as they were hashed."""
        self._unhashed: dict[tuple[str, int], Iterator[str]] = {}

    @property
    def is_old(self) -> bool:
        """Whether it is time to walk again: walks take a tenth of the time at most."""
        return time.monotonic() > self._good_until

    def models_like(self, wanted: ModelPrint) -> Iterator[str]:
        """The models whose largest file has the same contents; files are hashed until the caller has seen enough."""
        mark = max(wanted.files, key=lambda one: one.size)
        key = mark.name, mark.size
        known = self._hashed.setdefault(key, {})
        yield from tuple(known.get(mark.digest, ()))
        for model in self._unhashed.setdefault(key, self._of_size(mark)):
            digest = model_hash(_file(model, mark), _WHOLE, lambda: False)
            known.setdefault(digest, []).append(model)
            if digest == mark.digest:
                yield model

    def namesakes(self, wanted: ModelPrint) -> list[str]:
        self._walked()
        first = wanted.files[0]
        return [path for path in self._names.get(wanted.name, ()) if os.path.isfile(_file(path, first))]

    def _of_size(self, file: FilePrint) -> Iterator[str]:
        """Models that have a file of this name and size, each once."""
        end = os.sep + file.name.replace("/", os.sep) if file.name else ""
        return iter([path.removesuffix(end) for path in self._walked().get(file.size, ()) if path.endswith(end)])

    def _walked(self) -> dict[int, list[str]]:
        """Size -> files."""
        if self._sizes is None:
            began, self._sizes, seen = time.monotonic(), {}, set[str]()
            for root in dict.fromkeys(map(os.path.expanduser, self._folders)):
                for folder, folders, names in os.walk(root, followlinks=True):
                    if (real := os.path.realpath(folder)) in seen:  # links may lead back, or to each other
                        folders.clear()
                        continue
                    seen.add(real)
                    folders[:] = sorted(name for name in folders if not is_unfinished(name))
                    self._names.setdefault(file_name(folder), []).append(folder)
                    for path in (os.path.join(folder, name) for name in sorted(names)):
                        self._names.setdefault(file_name(path), []).append(path)
                        self._sizes.setdefault(_size(path), []).append(path)
            now = time.monotonic()
            self._good_until = now + _KEPT * (now - began)
        return self._sizes


class OwnModels:
    """The models of a node, found by the hashes of their files. folders: asked for at each search."""

    def __init__(self, folders: Callable[[], Iterable[str]]) -> None:
        self._folders = folders
        self._found: dict[tuple[FilePrint, ...], str] = {}

    def listing(self) -> Listing:
        """What the folders hold now, for several searches."""
        return Listing(self._folders())

    def find(self, wanted: ModelPrint, listing: Listing | None = None) -> str:
        """The path of this very model here. Raises HalftoneError farm-model: it is missing, or another one has its name."""
        known = POCKET if wanted.path == POCKET else self._found.get(wanted.files)
        if known is not None and _is(known, wanted):
            return known
        listing = listing or self.listing()
        here = next((path for path in listing.models_like(wanted) if _is(path, wanted)), None)
        if here is not None:
            self._found[wanted.files] = here
            return here
        if namesakes := [known] if known == POCKET else listing.namesakes(wanted):
            why = Words("the model of this name at {0} is another one: its contents differ", (namesakes[-1],))
        else:
            why = Words("no model folder of this node has a file with its contents")
        raise HalftoneError("farm-model", name=wanted.name, why=why)


def _is(path: str, wanted: ModelPrint) -> bool:
    """Whether every file is there with the same contents; sizes are compared first, as hashing takes long."""
    files = [(_file(path, one), one) for one in wanted.files]
    if any(_size(file) != one.size for file, one in files):
        return False
    return all(model_hash(file, _WHOLE, lambda: False) == one.digest for file, one in files)


def _file(path: str, file: FilePrint) -> str:
    root = str(resources() / POCKET) if path == POCKET else path
    return os.path.join(root, *file.name.split("/")) if file.name else root


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
