"""What the tests of packages share."""

import shutil
from pathlib import Path

import pytest
from installer.packaging.payload import Release

FIRST, SECOND = Release("0.1.0", 1_700_000_000, "a" * 40), Release("0.2.0", 1_700_086_400, "b" * 40)


def needs(*tools: str) -> pytest.MarkDecorator:
    lacking = [tool for tool in tools if not shutil.which(tool)]
    return pytest.mark.skipif(bool(lacking), reason=f"needs {', '.join(lacking)}")


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
