"""The self-test as a file: every number of the Device page."""

from pathlib import Path

import msgspec

from halftone.contract.facts import SelfTestReport
from halftone.settings.atomic import write_atomically


def as_json(report: SelfTestReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def save(report: SelfTestReport, path: Path) -> None:
    """Write the report. Raises OSError."""
    write_atomically(path, as_json(report))
