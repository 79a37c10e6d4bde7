"""The words of the system in errors."""

import errno
import os

import pytest

from halftone.contract.errors import sentence
from halftone.settings.disk import full_disk, system_words


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


def test_only_a_full_disk_is_called_one() -> None:
    full = full_disk(OSError(errno.ENOSPC, "No space left on device", "/a/b"))
    assert full is not None
    assert sentence(full) == "/a/b could not be saved: not enough space on the disk."
    quota = full_disk(OSError(errno.EDQUOT, "Disk quota exceeded", "/a/b"))
    assert quota is not None
    assert sentence(quota) == "/a/b could not be saved: disk quota exceeded."
    assert full_disk(OSError(errno.EIO, "Input/output error")) is None
    assert full_disk(ValueError("No space left on device")) is None
