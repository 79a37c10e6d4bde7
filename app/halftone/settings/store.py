"""The settings file: TOML, only what differs from the defaults, never a reason to crash."""

import difflib
import logging
import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from halftone.contract.echoes import echo
from halftone.contract.request import Numerics, Saving
from halftone.contract.vocabulary import POCKET, PictureFormat
from halftone.contract.wording import Words
from halftone.settings.atomic import write_atomically
from halftone.settings.declared import DECLARED
from halftone.settings.disk import system_words
from halftone.settings.file_names import pattern_problem
from halftone.settings.glance import Motion
from halftone.settings.places import settings_file
from halftone.settings.regular_files import read_text

log = logging.getLogger(__name__)

_STAYS: Final = "The settings file {0} is damaged ({1}). It could not be set aside ({2}). The defaults are used."
_ASIDE: Final = "The settings file {0} is damaged ({1}). It was set aside as {2}, and the defaults are used."


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is remembered between two starts. Change it with `msgspec.structs.replace`."""

    numerics: Numerics = Numerics()
    theme: Literal["system", "dark", "light"] = "system"
    language: Literal["system", "en", "zh_CN"] = "system"
    text_size: int = 100
    motion: Motion = "system"
    pictures_folder: str | None = None
    file_names: str = Saving().file_names
    picture_format: PictureFormat = "png"
    picture_quality: int = Saving().picture_quality
    save_metadata: bool = True
    ai_label: bool = True
    notify: bool = True
    serve: bool = False
    notify_after: int = 30
    taskbar_progress: bool = True
    device: str = "auto"
    all_cards: bool = False
    last_model: str = POCKET
    model_folders: tuple[str, ...] = ()
    lora_folders: tuple[str, ...] = ()
    embedding_folders: tuple[str, ...] = ()
    upscaler_folders: tuple[str, ...] = ()
    gallery_folders: tuple[str, ...] = ()
    styles_file: str = ""
    tags_file: str = ""
    wildcard_folders: tuple[str, ...] = ()
    update_source: str = ""
    first_run_done: bool = False
    library_asked: bool = False
    """Whether the user answered if the model folders of other programs are to be watched."""
    splitters: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    geometry: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    form: str = ""
    """The draft of Create when the window was closed, as `session.draft.kept` writes it."""
    train: str = ""
    """The same of Train: a TrainConfig as JSON."""
    shortcuts: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Keys that the user gave to actions and pages, by name: several with a comma and a space between them, "" for none."""

    @property
    def saving(self) -> Saving:
        return Saving(**{name: getattr(self, name) for name in Saving.__struct_fields__})


class Loaded(msgspec.Struct, frozen=True):
    """Settings and what was wrong with the file, one plain sentence each."""

    settings: Settings
    problems: tuple[Words, ...] = ()


_FIELDS: Final[dict[str, str]] = {
    **{setting.name: setting.field for setting in DECLARED},
    "general.last_model": "last_model",
    "general.first_run_done": "first_run_done",
    "general.library_asked": "library_asked",
    "window.splitters": "splitters",
    "window.geometry": "geometry",
    "window.form": "form",
    "window.train": "train",
    "shortcuts.keys": "shortcuts",
}
"""Name in the file -> field of Numerics or Settings."""

_SETTINGS: Final = {setting.name: setting for setting in DECLARED}
_NUMERICS_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(Numerics)}
_TYPES: Final = {field.name: field.type for field in msgspec.structs.fields(Settings)}


def load(path: Path | None = None) -> Settings:
    """The settings; what cannot be used is logged and its default taken. Never raises."""
    loaded = load_with_problems(path)
    for problem in loaded.problems:
        log.warning("%s", problem)
    return loaded.settings


def load_with_problems(path: Path | None = None) -> Loaded:
    """The settings and what was wrong with the file. A file that is not TOML is set aside under another name. Never raises."""
    try:
        path = path or settings_file()
    except OSError as error:
        return Loaded(
            Settings(), (Words("The settings folder cannot be made ({0}). The defaults are used.", (system_words(error),)),)
        )
    try:
        content = tomllib.loads(read_text(path))
    except FileNotFoundError:
        return Loaded(Settings())
    except OSError as error:
        unread = Words("The settings file {0} cannot be read ({1}). The defaults are used.", (str(path), system_words(error)))
        return Loaded(Settings(), (unread,))
    except (ValueError, RecursionError) as error:
        try:
            return Loaded(Settings(), (_set_aside(path, error),))
        except OSError as failed:
            return Loaded(Settings(), (Words(_STAYS, (str(path), _why(error), system_words(failed))),))
    return _from_content(content)


def save(settings: Settings, path: Path | None = None, *, since: Settings | None = None) -> None:
    """Write what differs from the defaults. Comments stay, as does what was not understood. Raises OSError.

    since: what this process last loaded or saved; only what changed since then is written, and the rest stays as another
    process may have written it. All is written where it is None, or where there is no file that can be read.
    """
    import tomlkit

    path = path or settings_file()
    try:
        document = tomlkit.parse(read_text(path))
    except FileNotFoundError:
        document, since = tomlkit.document(), None
    except (ValueError, RecursionError) as error:
        log.warning("%s", _set_aside(path, error))
        document, since = tomlkit.document(), None
    before = _flat(document.unwrap())
    known = {} if since is None else _values(since)
    for name, (value, default) in _values(settings).items():
        if known.get(name) == (value, default):
            continue
        table, _, key = name.partition(".")
        if value == default:
            if isinstance(found := document.get(table), dict):
                with suppress(KeyError, msgspec.ValidationError):  # what is not understood stays in the file
                    _understood(name, before[name])
                    found.pop(key)
                if not found:
                    document.pop(table)
            continue
        if not isinstance(document.get(table), dict):
            document[table] = tomlkit.table()
        document[table][key] = value
    write_atomically(path, tomlkit.dumps(document).encode(), private=True)


def _from_content(content: dict[str, Any]) -> Loaded:
    problems: list[Words] = []
    numerics: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in _flat(content).items():
        field = _FIELDS.get(name)
        if field is None:
            problems.append(_unknown(name))
            continue
        into = numerics if name.startswith("numerics.") else others
        try:
            into[field] = _understood(name, value)
        except msgspec.ValidationError:
            problems.append(Words("The setting {0} cannot be {1}. Its default is used.", (echo(name), _shown(value))))
    return Loaded(Settings(numerics=Numerics(**numerics), **others), tuple(problems))


def _understood(name: str, value: Any) -> Any:
    """The value in its field's type, within its limits. Raises msgspec.ValidationError."""
    types = _NUMERICS_TYPES if name.startswith("numerics.") else _TYPES
    if _FIELDS[name].endswith("_folders"):
        folders = msgspec.convert([value] if isinstance(value, str) else value, tuple[str, ...])
        return tuple(map(os.path.expanduser, folders))
    found = msgspec.convert(value, types[_FIELDS[name]])
    setting = _SETTINGS.get(name)
    if setting is not None and setting.kind == "number" and not setting.limits[0] <= found <= setting.limits[1]:
        raise msgspec.ValidationError
    if setting is not None and setting.kind == "pattern" and pattern_problem(found) is not None:
        raise msgspec.ValidationError
    return found


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}: one level, as the file has."""
    flat: dict[str, Any] = {}
    for table, value in content.items():
        if isinstance(value, dict):
            flat |= {f"{table}.{key}": item for key, item in value.items()}
        else:
            flat[table] = value
    return flat


def _values(settings: Settings) -> dict[str, tuple[Any, Any]]:
    """Name in the file -> (value, default), as TOML can hold them."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, field in _FIELDS.items():
        now, usual = (settings.numerics, Numerics()) if name.startswith("numerics.") else (settings, Settings())
        found[name] = msgspec.to_builtins(getattr(now, field)), msgspec.to_builtins(getattr(usual, field))
    return found


def _unknown(name: str) -> Words:
    nearest = difflib.get_close_matches(name, _FIELDS, n=1, cutoff=0.4)
    if nearest:
        return Words("There is no setting {0}; it is ignored. Did you mean {1}?", (echo(name), nearest[0]))
    return Words("There is no setting {0}; it is ignored.", (echo(name),))


def _shown(value: Any) -> Words | str:
    try:
        return echo(repr(value))
    except ValueError:  # more digits than Python writes
        return Words("a number of so many digits")


def _why(error: Exception) -> Words:
    """The parser's reason, as the end of a sentence."""
    if isinstance(error, RecursionError):
        return Words("it is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return Words("it is not UTF-8 text")
    if type(error) is ValueError:  # of a number; the parsers raise kinds of it
        return Words("it holds a number of too many digits")
    return Words("{0}", (echo(str(error).partition("\n")[0]),))


def _set_aside(path: Path, error: Exception) -> Words:
    """Keep the broken file under a free name, so that nothing is lost when the settings are saved again. Raises OSError."""
    number = 1
    while (aside := path.with_name(f"{path.stem}-damaged-{number}{path.suffix}")).exists():
        number += 1
    path.rename(aside)
    return Words(_ASIDE, (str(path), _why(error), aside.name))
