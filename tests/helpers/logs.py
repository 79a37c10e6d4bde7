"""Halftone's log in tests: noise is a failure."""

import logging
import re
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class LogWatch(logging.Handler):
    """Collects warnings and worse from `halftone` while it is entered."""

    def __init__(self, expected: Sequence[str]) -> None:
        super().__init__(logging.WARNING)
        self._expected = [re.compile(pattern) for pattern in expected]
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(f"{record.levelname} {record.name}: {record.getMessage()}")

    def __enter__(self) -> Self:
        logging.getLogger("halftone").addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        logging.getLogger("halftone").removeHandler(self)

    def complaints(self) -> list[str]:
        """What came unexpected, and what was expected and did not come."""
        stray = [message for message in self._messages if not any(pattern.search(message) for pattern in self._expected)]
        missing = [pattern for pattern in self._expected if not any(pattern.search(message) for message in self._messages)]
        return [
            *(f"unexpected in the log (expect it with @pytest.mark.logs): {message}" for message in stray),
            *(f"expected in the log, but it did not come: {pattern.pattern}" for pattern in missing),
        ]
