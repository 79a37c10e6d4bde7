"""The self-test as a file: every number of the Device page."""

from pathlib import Path

import msgspec

from halftone.contract.facts import SelfTestReport
from halftone.gui import reasons
from halftone.gui.i18n import tr
from halftone.settings.atomic import write_atomically


def as_json(report: SelfTestReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def save(report: SelfTestReport, path: Path) -> str:
    """Write the report; returns what went wrong in words, "" if nothing did."""
    try:
        write_atomically(path, as_json(report))
    except OSError as error:
        return tr("The report could not be written: {0}.", reasons.fragment(error.strerror or str(error)))
    return ""
