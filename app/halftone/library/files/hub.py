"""Names the models of a Hugging Face cache: models--ORG--NAME/snapshots/COMMIT holds one revision of a repository."""

import os
from typing import Final

from halftone.contract.request import repository

_SHORT: Final = 7
"""Digits of a commit that tell it from others."""


def revisions(folder: str) -> list[str]:
    """The revisions in the cache of the repository that a folder is one of; none where it is none."""
    if repository(folder) is None:
        return []
    try:
        return sorted(name for name in os.listdir(os.path.dirname(folder)) if name[0] != ".")
    except OSError:
        return []


def revision_name(folder: str) -> str | None:
    """The repository, with the commit where the cache has several revisions. None for a folder that is no revision."""
    name = repository(folder)
    return f"{name}@{os.path.basename(folder)[:_SHORT]}" if name is not None and len(revisions(folder)) > 1 else name
