"""Finds the model folders of other programs: A1111, Forge, ComfyUI, StabilityMatrix, Fooocus, InvokeAI, SwarmUI, Hugging Face.

Each is recognised by files that it always has. Their settings are read where they move the folders elsewhere. Nothing is changed.
"""

import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from halftone.library.index.facts import Install
from halftone.settings.regular_files import read_regular

if TYPE_CHECKING:
    import yaml

_log = logging.getLogger(__name__)

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


_MOST_YAML: Final = 2**16
"""Bytes of a YAML file: it is read slowly, and such settings have some hundred lines at most."""
_DEEPEST_YAML: Final = 50
"""Levels of lists and mappings: such settings have three."""
_NO_MODELS: Final = frozenset({"base_path", "is_default", "custom_nodes", "configs"})
"""Keys of ComfyUI's settings that name no folder of models."""
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


def programs_around(folder: str) -> tuple[Install, ...]:
    """The program whose folder this is, or whose folder of models it is."""
    here = Path(os.path.abspath(os.path.expanduser(folder)))
    found = (program_at(place) for place in (here, here.parent))
    return tuple(install for install in found if install is not None and install.folders)


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
    """The folders of settings with `is_default` come before ComfyUI's own, as in ComfyUI."""
    extra = [extra_model_paths(root / name) for name in ("extra_model_paths.yaml", "extra_models_config.yaml")]
    for defaults, _ in extra:
        yield from defaults
    yield root / "models"
    for _, others in extra:
        yield from others


def extra_model_paths(file: Path) -> tuple[list[Path], list[Path]]:
    """The (default, other) folders in ComfyUI's settings of further paths: sections with `base_path` and, for each kind of model,
    lines of paths. A path without a base is relative to the file.
    """
    defaults: list[Path] = []
    others: list[Path] = []
    for section in _mapping(_yaml(file)).values():
        paths = _mapping(section)
        base = paths.get("base_path")
        start = _place(file.parent, base) if isinstance(base, str) else file.parent
        found = defaults if paths.get("is_default") is True else others
        for kind, value in paths.items():
            if kind not in _NO_MODELS and isinstance(value, str):
                found += (_place(start, line) for line in _lines(value))
    return defaults, others


def _lines(value: str) -> Iterator[str]:
    """The paths in a block of text. ComfyUI's own example has comments in one: they are no part of the path."""
    for line in value.splitlines():
        if path := line.partition(" #")[0].strip():
            yield path


def _place(start: Path, path: str) -> Path:
    """A path with ~ and environment variables, relative to another."""
    return Path(os.path.normpath(start / os.path.expandvars(os.path.expanduser(path))))


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
    """Plain YAML; None where there is none. References are refused: a few lines of them unfold to gigabytes."""
    import yaml  # the window reads one only for a folder that the user adds

    text = _text(path)
    try:
        if len(text) > _MOST_YAML:
            raise ValueError("it is too large")
        _look_through(text)
        return yaml.load(text, _loader())
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError) as error:
        # PyYAML itself raises the last ones, for values that do not fit their tag, such as `!!bool maybe`.
        _log.info("%s was not read: %s", path, error)
        return None


def _loader() -> "type[yaml.SafeLoader | yaml.CSafeLoader]":
    """The one in C where PyYAML was built with it: it is many times faster."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _look_through(text: str) -> None:
    """Raises ValueError for references and deep nesting. The loader in C calls itself for each level, until it crashes."""
    import yaml

    depth = 0
    for event in yaml.parse(text, _loader()):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has references")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST_YAML:
            raise ValueError("it is nested too deeply")


def _json(path: Path) -> object:
    try:
        return msgspec.json.decode(_text(path))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
