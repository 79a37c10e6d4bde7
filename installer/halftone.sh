#!/bin/sh
# Opens Halftone on Linux: double-click, or `halftone.sh generate "…"` in a terminal.
# A PYTHONHOME from elsewhere would stop Python before the launcher could ignore it.
unset PYTHONHOME PYTHONPATH
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
if ! command -v python3 >/dev/null 2>&1; then
    message="Halftone needs Python 3.11 or newer and found none; nothing was changed: install it (for example: sudo apt install python3) and start again."
    echo "$message" >&2
    command -v notify-send >/dev/null 2>&1 && notify-send Halftone "$message"
    exit 1
fi
exec python3 "$here/launch.py" "$@"
