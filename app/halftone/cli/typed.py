"""Commands as the person can type them here: the launcher tells how it was called, because it puts nothing on PATH."""

import os
import shlex
import subprocess
import sys


def command_line(*words: str) -> str:
    """`halftone <words>`, quoted for the system's shell, or the same through the launcher when that is how it was started."""
    quoted = subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)
    return f"{os.environ.get('HALFTONE_COMMAND', 'halftone')} {quoted}".strip()
