"""The token without which nobody joins a farm: made once, in a file that others cannot read."""

import os
import secrets
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir
from halftone.settings.private import make_private, private_folder

_BYTES: Final = 32
_SHORTEST: Final = 16


def token_file() -> Path:
    """The head's own token, made when it is first needed. Raises OSError."""
    path = private_folder(data_dir() / "farm") / "token"
    if not _read(path):
        make_private(path)
        write_atomically(path, f"{secrets.token_urlsafe(_BYTES)}\n".encode("ascii"), private=True)
    return path


def given_token(file: str | None) -> Path:
    """The file with the token that the user names. Raises HalftoneError farm-token where it holds none."""
    path = Path(file).expanduser().absolute() if file else private_folder(data_dir() / "farm") / "token"
    if len(_read(path)) < _SHORTEST:
        raise HalftoneError("farm-token", path=str(path))
    return path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def environment(token: Path, *, loopback: bool) -> dict[str, str]:
    """The environment in which Ray demands this token, and keeps to the loopback interface if it is to.

    Ray replaces 127.0.0.1 by the machine's own address, but where it is told that clusters of several machines are not wanted.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers see every card
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # whoever ends a node need not wait half a minute
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0" if loopback else "1",
    }
    return kept | own
