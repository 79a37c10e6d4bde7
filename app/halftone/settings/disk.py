"""Free space and sizes, in the words of error messages."""

import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int:
    """Bytes that may still be written there; 0 if the disk cannot be asked."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def size_text(count: int) -> str:
    """Bytes as GB or MB (10^9, 10^6)."""
    return f"{count / 1e9:.1f}\u00a0GB" if count >= 1e9 else f"{count / 1e6:.1f}\u00a0MB"
