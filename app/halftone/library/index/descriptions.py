"""What others wrote about a model file: title, trigger words, base, preview and notes, from files beside it and from its header.

Read are the files of A1111 (`model.json`), Civitai Helper (`model.civitai.info`), StabilityMatrix (`model.cm-info.json`), LoRA
Manager (`model.metadata.json`) and SwarmUI (`model.swarm.json`), and in the header Stability's model specification
(https://github.com/Stability-AI/ModelSpec) and kohya's notes (https://github.com/kohya-ss/sd-scripts). Nothing
in them is trusted.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from halftone.settings.regular_files import read_regular

_MOST: Final = 4 * 2**20
"""Bytes of a file that is read; longer ones hold something else."""
_LONGEST: Final = 2000
"""Characters of a note that are kept."""
_MOST_WORDS: Final = 40
_PREVIEWS: Final = (
    ".preview.png",
    ".preview.webp",
    ".preview.jpg",
    ".preview.jpeg",
    ".png",
    ".webp",
    ".jpg",
    ".jpeg",
    ".preview.gif",
)
_TAG: Final = re.compile(r"<[^>]*>")
_BREAK: Final = re.compile(r"<\s*(?:br|/p|/li|/h\d)\s*/?>", re.IGNORECASE)


class Description(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All as it was written. base: the base model that it names. preview: path of a picture. weight: of a LoRA, 0 where none is
    recommended. sha256: of the file, as a download noted it.
    """

    title: str = ""
    triggers: tuple[str, ...] = ()
    base: str = ""
    preview: str = ""
    notes: str = ""
    weight: float = 0.0
    sha256: str = ""


NOTHING: Final = Description()
_FIELDS: Final = ("title", "triggers", "base", "preview", "notes", "weight", "sha256")


def described(folder: str, beside: Iterable[str], metadata: Mapping[str, str]) -> Description:
    """Join what is written beside a file and in its header; what the user's own programs wrote counts first.

    beside: names of files in the folder.
    """
    names = tuple(beside)
    sources = [_READERS[end](found) for end in _READERS for name in names if (found := _read(folder, name, end)) is not None]
    preview = next((name for end in _PREVIEWS for name in names if name.lower().endswith(end)), "")
    sources += [Description(preview=str(Path(folder) / preview) if preview else ""), _embedded(metadata)]
    return Description(
        **{field: next(filter(None, (getattr(one, field) for one in sources)), getattr(NOTHING, field)) for field in _FIELDS}
    )


def _read(folder: str, name: str, end: str) -> Mapping[str, Any] | None:
    """The object in a file whose name ends so and no longer end of the table does."""
    if not name.lower().endswith(end) or end != max((other for other in _READERS if name.lower().endswith(other)), key=len):
        return None
    try:
        found = json.loads(read_regular(Path(folder) / name, _MOST).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return _object(found)


def _webui(note: Mapping[str, Any]) -> Description:
    return Description(
        triggers=_split(note.get("activation text")),
        base=_text(note.get("sd version")),
        notes=_note(note.get("notes")) or _note(note.get("description")),
        weight=_number(note.get("preferred weight")),
    )


def _civitai(version: Mapping[str, Any]) -> Description:
    """A version of a model as Civitai's interface describes it."""
    model = _object(version.get("model"))
    files = (_object(_object(file).get("hashes")) for file in _list(version.get("files")))
    return Description(
        title=" ".join(filter(None, (_text(model.get("name")), _text(version.get("name"))))),
        triggers=_words(version.get("trainedWords")),
        base=_text(version.get("baseModel")),
        notes=_note(version.get("description")) or _note(model.get("description")),
        sha256=next((found for hashes in files if (found := _sha256(hashes.get("SHA256")))), ""),
    )


def _matrix(note: Mapping[str, Any]) -> Description:
    return Description(
        title=_text(note.get("UserTitle"))
        or " ".join(filter(None, (_text(note.get("ModelName")), _text(note.get("VersionName"))))),
        triggers=_words(note.get("TrainedWords")),
        base=_text(note.get("BaseModel")),
        notes=_note(note.get("VersionDescription")) or _note(note.get("ModelDescription")),
        sha256=_sha256(_object(note.get("Hashes")).get("SHA256")),
    )


def _manager(note: Mapping[str, Any]) -> Description:
    version = _civitai(_object(note.get("civitai")))
    return Description(
        title=_text(note.get("model_name")) or version.title,
        triggers=version.triggers,
        base=_text(note.get("base_model")) or version.base,
        notes=_note(note.get("notes")) or _note(note.get("modelDescription")),
        sha256=_sha256(note.get("sha256")),
    )


def _specified(note: Mapping[str, Any]) -> Description:
    """Stability's specification, in a header or in SwarmUI's file."""

    def value(name: str) -> Any:
        return note.get(f"modelspec.{name}")

    return Description(
        title=_text(value("title")),
        triggers=_split(value("trigger_phrase")),
        notes=_note(value("usage_hint")) or _note(value("description")),
        sha256=_sha256(str(value("hash_sha256") or "").removeprefix("0x")),
    )


_READERS: Final = {
    ".json": _webui,
    ".metadata.json": _manager,
    ".cm-info.json": _matrix,
    ".civitai.info": _civitai,
    ".swarm.json": _specified,
}
"""How the name ends -> how it is read; first what a user typed."""


def _embedded(metadata: Mapping[str, str]) -> Description:
    found = _specified(metadata)
    return msgspec.structs.replace(
        found,
        title=found.title or _text(metadata.get("ss_output_name")),
        triggers=found.triggers or _trained_tag(metadata.get("ss_tag_frequency", "")),
        base=_text(metadata.get("ss_base_model_version")) or _text(metadata.get("modelspec.architecture")),
    )


def _trained_tag(counts: str) -> tuple[str, ...]:
    """The tag that every picture of a training had: it became the trigger word. Empty where several share the first place."""
    try:
        folders = _object(json.loads(counts)) if counts else {}
    except (ValueError, RecursionError):
        return ()
    total: dict[str, int] = {}
    for tags in folders.values():
        for tag, count in _object(tags).items():
            total[tag] = total.get(tag, 0) + (count if isinstance(count, int) else 0)
    most = max(total.values(), default=0)
    first = [tag for tag, count in total.items() if count == most]
    return (_text(first[0]),) if len(first) == 1 and len(total) > 1 else ()


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    """One line, without what no eye sees."""
    return "".join(letter if letter.isprintable() else " " for letter in value[:200]).strip() if isinstance(value, str) else ""


def _note(value: object) -> str:
    """Plain text of what may be HTML."""
    if not isinstance(value, str):
        return ""
    text = html.unescape(_TAG.sub("", _BREAK.sub("\n", value[: 4 * _LONGEST])))
    lines = (_text(line) for line in text.splitlines())
    return "\n".join(line for line in lines if line)[:_LONGEST]


def _words(value: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for entry in _list(value)[:_MOST_WORDS] if (word := _text(entry).strip(" ,"))))


def _split(value: object) -> tuple[str, ...]:
    return _words(value.split(",")) if isinstance(value, str) else ()


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value <= 10 else 0.0


def _sha256(value: object) -> str:
    text = value.lower() if isinstance(value, str) else ""
    return text if re.fullmatch(r"[0-9a-f]{64}", text) else ""
