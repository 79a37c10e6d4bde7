"""The check as files, in the language in force: a page to read, and JSON beside it."""

import contextlib
import itertools
from pathlib import Path

from halftone.contract.facts import CheckReport, SelfTestReport
from halftone.gui.i18n import catalogue, language
from halftone.health.reports.report_page import Language, as_html, as_json
from halftone.settings.atomic import create_atomically, write_atomically


def save(report: CheckReport, tested: SelfTestReport | None, path: Path) -> tuple[Path, Path]:
    """Write the page and the JSON next to each other; returns both. Runs on another thread. Raises OSError.

    Only `path` itself, about which the user was asked, may be replaced; the other file takes a name that is free.
    """
    stem = path.with_suffix("") if path.suffix.lower() in (".html", ".htm", ".json") else path
    page = path if path.suffix.lower() in (".html", ".htm") else stem.with_name(stem.name + ".html")
    data = path if path.suffix.lower() == ".json" else stem.with_name(stem.name + ".json")
    own = Language(catalogue(), "zh-CN" if language() == "zh_CN" else "en")
    return _write(page, as_html(report, tested, own).encode(), path), _write(data, as_json(report), path)


def _write(wanted: Path, data: bytes, agreed: Path) -> Path:
    """Write to `wanted` if that was agreed, otherwise to the first free name like it."""
    if wanted == agreed:
        write_atomically(wanted, data)
        return wanted
    for number in itertools.count(1):
        place = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        with contextlib.suppress(FileExistsError):
            create_atomically(place, data)
            return place
    raise AssertionError
