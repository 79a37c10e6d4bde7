"""Fetches small files from the hub that Hugging Face (or HF_ENDPOINT) runs, and only when a user asked for exactly that.

Resumed where a try before ended, and kept only when the whole file is what it is meant to be.
"""

import os
import shutil
from pathlib import Path

from halftone.contract.errors import HalftoneError
from halftone.library.small_files import SmallFile, unfit
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import need_room

_HUB = "https://huggingface.co"


def hub() -> str:
    """Where files are fetched from."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or _HUB


def fetch(file: SmallFile) -> Path:
    """Its place, once it is there. Raises HalftoneError fetch-refused, fetch-missing, fetch-failed, disk-full."""
    folder = file.place.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        need_room(file.place, folder, 2 * file.size)
        data = _downloaded(file, folder / "part").read_bytes()
        if why := unfit(data):
            raise _failed(file, f"what came {why}")
        write_atomically(file.place, data)
    except OSError as error:
        raise _failed(file, error.strerror or str(error).splitlines()[0]) from error
    shutil.rmtree(folder / "part", ignore_errors=True)
    return file.place


def _downloaded(file: SmallFile, folder: Path) -> Path:
    from huggingface_hub import constants, errors, hf_hub_download

    if constants.HF_HUB_OFFLINE:
        raise _failed(file, "HF_HUB_OFFLINE is set")
    try:
        return Path(hf_hub_download(file.repository, file.path, local_dir=folder, endpoint=hub()))
    except (errors.GatedRepoError, errors.RepositoryNotFoundError) as error:  # a repository that is not shown to all, too
        raise HalftoneError("fetch-refused", file=file.path, source=f"{hub()}/{file.repository}") from error
    except (errors.EntryNotFoundError, errors.RevisionNotFoundError) as error:
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _failed(file, "the server does not answer") from error
        raise HalftoneError("fetch-missing", file=file.path, source=f"{hub()}/{file.repository}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise HalftoneError("fetch-refused", file=file.path, source=f"{hub()}/{file.repository}") from error
        raise _failed(file, f"the server answered {status}") from error


def _failed(file: SmallFile, detail: str) -> HalftoneError:
    return HalftoneError("fetch-failed", file=file.path, source=f"{hub()}/{file.repository}", detail=detail)
