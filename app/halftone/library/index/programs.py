"""Finds the model folders of other programs: A1111, Forge, ComfyUI, StabilityMatrix, Fooocus, InvokeAI, SwarmUI, Hugging Face.

Each is recognised by files that it always has. Their settings are read where they move the folders elsewhere. Nothing is changed.
"""

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from halftone.library.index.facts import Install
from halftone.settings.regular_files import read_regular

_MOST: Final = 2**20
"""Bytes of a settings file."""
_DEEP: Final = 2
"""Folders below a usual place that are looked into."""
_USUAL: Final = (
    "",
    "Desktop",
    "Documents",
    "Downloads",
    "AI",
    "ai",
    "apps",
    "programs",
    "sd",
    "SD",
    "stable-diffusion",
    "Pinokio",
)
_MANY: Final = 400
"""Folders in one place that are looked at: a folder of pictures may hold thousands."""


_FLAG: Final = re.compile(r"--([a-z-]+)-dirs?[ =]+(\"[^\"]+\"|'[^']+'|[^\s\"']+)")


def usual_places() -> tuple[Path, ...]:
    """Where people put such programs: their own folder and what lies in it, and on Windows the drives."""
    home = Path.home()
    drives = [Path(f"{letter}:\\") for letter in "CDEFG"] if os.name == "nt" else [Path("/opt")]
    data = [Path(found) for name in ("APPDATA", "LOCALAPPDATA", "XDG_DATA_HOME") if (found := os.environ.get(name))]
    return tuple(place for place in (*(home / name for name in _USUAL), *drives, *data) if place.is_dir())


def find_programs(places: Iterable[Path]) -> tuple[Install, ...]:
    """Every program in these folders and two deep below them, each once, and the Hugging Face cache."""
    installs = (install for place in places for install in _below(place, _DEEP))
    found = {os.path.realpath(install.root): install for install in installs}
    cache = hub_cache()
    if cache.is_dir():
        found.setdefault(os.path.realpath(cache), Install("Hugging Face", str(cache), (str(cache),)))
    return tuple(found.values())


def hub_cache() -> Path:
    """Find it like huggingface_hub: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables."""
    if cache := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(cache).expanduser()
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(home).expanduser() / "hub"


def program_at(folder: Path) -> Install | None:
    """The program whose folder this is; None where it is none that is known. Folders that do not exist are left out."""
    for program, marks, folders in _PROGRAMS:
        if all(any((folder / mark).exists() for mark in either) for either in marks):
            existing = dict.fromkeys(str(path) for path in folders(folder) if path.is_dir())
            return Install(program, str(folder), tuple(existing))
    return None


def _below(folder: Path, depth: int) -> Iterator[Install]:
    """The program in this folder, else those in the folders in it."""
    install = program_at(folder)
    if install is not None and install.folders:
        yield install
    elif depth:
        with suppress(OSError), os.scandir(folder) as entries:
            first = [
                entry.path for entry, _ in zip(entries, range(_MANY), strict=False) if entry.is_dir() and entry.name[0] != "."
            ]
            for path in first:
                yield from _below(Path(path), depth - 1)


# --- where each keeps its models ----------------------------------------------------------------------------------------


def _webui(root: Path) -> Iterator[Path]:
    yield root / "models"
    yield root / "embeddings"
    for name in ("webui-user.bat", "webui-user.sh"):
        yield from _flags(_text(root / name), root)


def _flags(script: str, root: Path) -> Iterator[Path]:
    """Folders that a start script names by --ckpt-dir and the like, also in quotes."""
    for flag, value in _FLAG.findall(script):
        path = root / value.strip("\"'")
        yield from (path / "models", path / "embeddings") if flag == "data" else (path,)


def _comfy(root: Path) -> Iterator[Path]:
    yield root / "models"
    for name in ("extra_model_paths.yaml", "extra_models_config.yaml"):
        yield from extra_model_paths(root / name)


def extra_model_paths(file: Path) -> Iterator[Path]:
    """The folders in ComfyUI's settings of further paths: sections with `base_path` and, for each kind, lines of paths."""
    for section in _mapping(_yaml(file)).values():
        paths = _mapping(section)
        base = file.parent / Path(str(paths.get("base_path") or "")).expanduser()
        for kind, value in paths.items():
            if kind in ("base_path", "is_default", "custom_nodes") or not isinstance(value, str):
                continue
            yield from (base / line.strip() for line in value.splitlines() if line.strip())


def _matrix(root: Path) -> Iterator[Path]:
    yield root / "Models"
    yield root / "Data" / "Models"


def _fooocus(root: Path) -> Iterator[Path]:
    yield root / "models"
    config = _mapping(_json(root / "config.txt"))
    for key, value in config.items():
        if key.startswith("path_") and key != "path_outputs":
            paths = cast("list[object]", value) if isinstance(value, list) else [value]
            yield from (root / path for path in paths if isinstance(path, str) and path)


def _invoke(root: Path) -> Iterator[Path]:
    """Its own folder, and the folders of models that were registered where they lie."""
    models = root / str(_mapping(_yaml(root / "invokeai.yaml")).get("models_dir") or "models")
    yield models
    database = root / "databases" / "invokeai.db"
    if not database.is_file():
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for (path,) in connection.execute("SELECT path FROM models"):
            if isinstance(path, str) and os.path.isabs(path) and not Path(path).is_relative_to(models):
                yield Path(path) if os.path.isdir(path) else Path(path).parent


def _swarm(root: Path) -> Iterator[Path]:
    """Its settings are lines `name: value`; several folders stand behind one another with a semicolon."""
    roots = ["Models"]
    for line in _text(root / "Data" / "Settings.fds").splitlines():
        name, _, value = line.strip().partition(":")
        if name == "ModelRoot" and value.strip():
            roots = value.strip().split(";")
    yield from (root / path.strip() for path in roots if path.strip())


_PROGRAMS: Final = (
    ("Forge", (("webui.py",), ("modules_forge",)), _webui),
    ("A1111", (("webui.py",), ("models/Stable-diffusion", "extensions-builtin")), _webui),
    ("StabilityMatrix", (("Models/StableDiffusion", "Data/Models/StableDiffusion"),), _matrix),
    (
        "Fooocus",
        (("fooocus_version.py", "presets"), ("models/checkpoints", "config.txt"), ("wildcards", "sdxl_styles")),
        _fooocus,
    ),
    ("InvokeAI", (("invokeai.yaml",), ("databases", "models")), _invoke),
    ("SwarmUI", (("Data/Settings.fds", "SwarmUI.sln", "src/SwarmUI.csproj"), ("Models", "Data")), _swarm),
    (
        "ComfyUI",
        (("comfy", "custom_nodes", "extra_models_config.yaml"), ("models/checkpoints", "extra_models_config.yaml")),
        _comfy,
    ),
)
"""Name, files of which one of each group must be there, and what gives its folders; the surest first."""


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MOST).decode("utf-8-sig", "replace")
    except OSError:
        return ""


def _yaml(path: Path) -> object:
    import yaml  # the window knows the type of an install, and reads none

    try:
        return yaml.safe_load(_text(path))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _json(path: Path) -> object:
    try:
        return msgspec.json.decode(_text(path))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
