"""Where Halftone keeps things: bundled resources, the user's data, cache, logs and pictures.

`HALFTONE_DATA=<folder>` moves data, cache, logs and pictures below that folder.
"""

import os
from pathlib import Path
from typing import Final

from halftone.settings.private import private_folder

OVERRIDE: Final = "HALFTONE_DATA"
_APP: Final = "halftone"


def resources() -> Path:
    """The bundled files: beside the sources in a checkout, inside the package when installed."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_resources"
    return installed if installed.is_dir() else package.parents[1] / "resources"


def is_packaged() -> bool:
    """Whether this is an installed package, which updates can replace. Its note stands beside the launcher; a clone has none."""
    return (resources().parent / "installer" / "package.json").is_file()


def is_own(path: Path) -> bool:
    """Whether it lies in a folder of Halftone's own."""
    moved = os.environ.get(OVERRIDE)
    return (bool(moved) and path.is_relative_to(Path(moved).expanduser().absolute())) or _APP in map(str.casefold, path.parts)


def data_dir() -> Path:
    """Check reports, the self-test and the picture history."""
    return _own("data", "user_data_path")


def cache_dir() -> Path:
    """What can be made again at any time."""
    return _own("cache", "user_cache_path")


def log_dir() -> Path:
    """Logs of the window, the worker and the command line."""
    return _own("logs", "user_log_path")


def pictures_dir() -> Path:
    """Default folder of pictures: `Halftone` in the user's pictures folder."""
    if (moved := _override("pictures")) is not None:
        return _made(moved)
    import platformdirs

    return _made(platformdirs.user_pictures_path() / "Halftone")


def checks_dir() -> Path:
    """Stored check reports and self-tests."""
    return private_folder(data_dir() / "checks")


def latents_dir() -> Path:
    """Latents of pictures that could not be decoded or saved; each is removed with its picture's success."""
    return private_folder(data_dir() / "latents")


def masks_dir() -> Path:
    """Masks that were painted in the window, named by their contents; pictures of the history refer to them."""
    return private_folder(data_dir() / "masks")


def window_mark() -> Path:
    """A file that is there while a window hears later starts."""
    return data_dir() / "window.open"


def small_files_dir() -> Path:
    """Small files of models (tokenizers) that a user fetched or chose, a folder for each kind."""
    return private_folder(data_dir() / "small-files")


def settings_file() -> Path:
    """The settings file; it is missing until something differs from its default."""
    if (moved := _override("")) is not None:  # the user's own folder: its rights stay
        return _made(moved) / "settings.toml"
    return private_folder(_platform("user_config_path")) / "settings.toml"


def _override(name: str) -> Path | None:
    base = os.environ.get(OVERRIDE)
    return Path(base).absolute() / name if base else None


def _platform(kind: str) -> Path:
    import platformdirs

    return getattr(platformdirs, kind)(_APP, appauthor=False)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _own(kind: str, platform: str) -> Path:
    """A folder of Halftone's own, for its owner alone."""
    return private_folder(_override(kind) or _platform(platform))
