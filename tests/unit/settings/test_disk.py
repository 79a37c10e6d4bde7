"""The words of the system in errors."""

import errno
import os

import pytest

from halftone.contract.errors import sentence
from halftone.settings.disk import full_disk, system_words, unread_words
from halftone.settings.regular_files import NotRegularError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "not enough space on the disk"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk quota exceeded"),
        (OSError(errno.EACCES, "Permission denied"), "permission denied"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links"), "too many levels of symbolic links"),
        (OSError(errno.EREMOTEIO, "RPC failed"), "RPC failed"),
        (NotRegularError("/a", None), "it is not a file"),
        (ValueError("embedded null byte"), "it cannot be read"),
        (OSError(), "OSError"),
    ],
)
def test_what_the_system_says_ends_a_sentence(error: OSError | ValueError, said: str) -> None:
    assert str(unread_words(error)) == said
    assert isinstance(error, ValueError) or unread_words(error) == system_words(error)


def test_only_a_full_disk_is_called_one() -> None:
    full = full_disk(OSError(errno.ENOSPC, "No space left on device", "/a/b"))
    assert full is not None
    assert sentence(full) == "/a/b could not be saved: not enough space on the disk."
    quota = full_disk(OSError(errno.EDQUOT, "Disk quota exceeded", "/a/b"))
    assert quota is not None
    assert sentence(quota) == "/a/b could not be saved: disk quota exceeded."
    assert full_disk(OSError(errno.EIO, "Input/output error")) is None
    assert full_disk(ValueError("No space left on device")) is None
