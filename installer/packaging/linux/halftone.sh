#!/bin/sh
# Starts Halftone from its package. The program's folder is never written to: the environment and Python's caches lie in the
# folder that HALFTONE_HOME names, which stays the same when the package is updated or mounted elsewhere.
unset PYTHONHOME PYTHONPATH
program=@PROGRAM@
: "${HALFTONE_HOME:=${XDG_DATA_HOME:-$HOME/.local/share}/halftone-launcher/package}"
HALFTONE_STARTER=@STARTER@
PYTHONPYCACHEPREFIX=$HALFTONE_HOME/cache/bytecode
export HALFTONE_HOME HALFTONE_STARTER PYTHONPYCACHEPREFIX
for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$python" >/dev/null 2>&1 && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" "$program/installer/launch.py" "$@"
    fi
done
message="Halftone needs Python 3.11 or newer and found none; nothing was changed: install it with your system's package manager and start again."
echo "$message" >&2
command -v notify-send >/dev/null 2>&1 && notify-send Halftone "$message"
exit 1
