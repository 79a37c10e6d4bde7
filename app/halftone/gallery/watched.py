"""Lists the pictures in watched folders: of other programs, and of Halftone where its own history does not know them."""

import io
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.gallery.catalogue import Catalogue
from halftone.gallery.facts import Shown
from halftone.library.index.scan import is_old, outermost
from halftone.library.index.walk import is_inside
from halftone.library.index.watching import stamp_of as stamp_of_path
from halftone.metadata.comfy import parameters_of
from halftone.metadata.comfy_graph import NotPlainError
from halftone.metadata.picture import PICTURES
from halftone.metadata.picture_settings import said_in
from halftone.metadata.reading import Found, Parameters, parse_parameters, read_picture
from halftone.settings.picture_files import opened_picture

ENDINGS: Final = PICTURES
THUMBNAIL: Final = 256
"""Pixels of the longer edge."""
_AT_ONCE: Final = 200
log = logging.getLogger(__name__)
_LORA: Final = re.compile(r"<lora:([^:<>]{1,200})[:>]")


class Listed(NamedTuple):
    """What a look through the watched folders came to. read: pictures that were read; places: folder -> its stamp before it was
    listed, which changes when a picture comes or goes; growing: pictures that another program was still writing.
    """

    read: int = 0
    places: Mapping[str, int | None] = {}
    growing: tuple[str, ...] = ()


def list_watched(
    catalogue: Catalogue, folders: Sequence[str], stop: Callable[[], bool], progress: Callable[[int], object] = lambda _done: None
) -> Listed:
    """Bring the list up to date with the pictures below these folders. progress: gets how many were read so far.

    Thumbnails are made when a picture comes into view. Pictures of a folder that is offline or cannot be read
    stay listed. Raises sqlite3.Error.
    """
    roots = outermost(folders)
    known = catalogue.stamps()
    if not roots:
        catalogue.drop(known)
        return Listed()
    own = catalogue.own_paths()
    changed: list[tuple[str, os.stat_result]] = []
    places: dict[str, int | None] = {}
    closed: list[str] = []
    growing: list[str] = []
    for path, facts in (found for root in roots for found in _pictures(root, places, closed)):
        stamp = known.pop(path, None)
        if path not in own and stamp != stamp_of(facts):
            changed.append((path, facts))
            if not is_old(facts.st_mtime):
                growing.append(path)
    catalogue.drop(path for path in known if not any(is_inside(path, place) for place in closed))
    waiting = iter(changed)
    done = 0
    while (part := list(islice(waiting, _AT_ONCE))) and not stop():
        catalogue.add(read_shown(path, facts) for path, facts in part)
        progress(done := done + len(part))
    return Listed(done, places, tuple(growing))


def stamp_of(facts: os.stat_result) -> int:
    return (facts.st_mtime_ns * 31 + facts.st_size) & (2**63 - 1)


def read_shown(path: str, facts: os.stat_result) -> Shown:
    """What a picture says about itself, in whichever program's words. One that says nothing is listed by its name."""
    name = os.path.basename(path)
    width, height, said = _said(Path(path))
    seed = said.fields.get("Seed", "")
    loras = tuple(dict.fromkeys(_LORA.findall(said.prompt)))
    model = Path(said.fields.get("Model", "").replace("\\", "/")).name.removesuffix(".safetensors").removesuffix(".ckpt")
    return Shown(
        path=path,
        made=facts.st_mtime,
        width=width,
        height=height,
        model=model,
        loras=loras,
        text="\n".join((said.prompt, said.negative, model, *loras, seed, name)),
        recovered=said.fields.get("Numerics") == "recovered",
        cured="Cure" in said.fields,
        own=False,
        stamp=stamp_of(facts),
    )


def thumbnail_of(path: str) -> bytes:
    """A small PNG of a picture. Raises HalftoneError image-unreadable."""
    with opened_picture(Path(path)) as image:
        image.draft("RGB", (THUMBNAIL, THUMBNAIL))
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        kept = io.BytesIO()
        (image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGB")).save(kept, "PNG")
        return kept.getvalue()


def _said(path: Path) -> tuple[int, int, Parameters]:
    """(width, height, parameters), 0 and nothing where the file cannot be read."""
    try:
        with opened_picture(path, decoded=False) as image:
            width, height = image.size
        found = read_picture(path)
    except HalftoneError:
        return 0, 0, Parameters()
    except Exception:  # whatever one picture fails of, the others are listed
        log.warning("%s cannot be read", path, exc_info=True)
        return 0, 0, Parameters()
    try:
        return width, height, _said_in(found)
    except NotPlainError:
        return width, height, Parameters()
    except Exception:  # as above
        log.warning("the settings of %s cannot be read", path, exc_info=True)
        return width, height, Parameters()


def _said_in(found: Found) -> Parameters:
    """Raises NotPlainError."""
    if (said := said_in(found)) is not None:
        return said
    if found.parameters:
        return parse_parameters(found.parameters)
    return parameters_of(found.graph, found.size) if found.graph else Parameters()


def _pictures(root: str, places: dict[str, int | None], closed: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the pictures in a folder and below it, except in hidden folders; links to folders are not followed. places: gets the
    stamp of each folder; closed: gets the folders and files that could not be read.
    """
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        places[folder] = stamp_of_path(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            if not entry.name.startswith("."):
                                waiting.append(entry.path)
                        elif entry.name.lower().endswith(ENDINGS) and entry.is_file():
                            yield entry.path, entry.stat()
                    except FileNotFoundError:  # gone since the folder was listed
                        continue
                    except OSError:
                        closed.append(entry.path)
        except OSError:
            closed.append(folder)
