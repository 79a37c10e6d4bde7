"""Commands as the person can type them here: the launcher tells how it was called, because it puts nothing on PATH."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable

from halftone.contract.request import Lora


def lora_words(loras: Iterable[Lora]) -> list[str]:
    """The options that name these LoRAs."""
    return [word for lora in loras for word in ("--lora", f"{lora.path}:{lora.weight:g}")]


def command_line(*words: str) -> str:
    """`halftone <words>`, quoted for the system's shell, or the same through the launcher when that is how it was started."""
    quoted = subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
    return f"{os.environ.get('HALFTONE_COMMAND', 'halftone')} {quoted}".strip()
