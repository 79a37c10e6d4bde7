"""The words of the system in errors."""

import errno
import os

import pytest

from halftone.settings.disk import system_words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Not enough space on the disk"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
        (OSError(), "OSError"),
    ],
)
def test_a_full_disk_is_said_in_one_way(error: OSError, said: str) -> None:
    assert system_words(error) == said


def test_something_is_said_where_the_system_says_nothing() -> None:
    assert system_words(OSError(), "it cannot be written") == "it cannot be written"
