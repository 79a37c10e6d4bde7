#!/bin/sh
# Opens Halftone on macOS: double-click in the Finder (the first time: right-click, Open).
unset PYTHONHOME PYTHONPATH
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
# The Finder starts Terminal with a login shell's PATH, which may miss Homebrew's and python.org's folders.
PATH="$PATH:/opt/homebrew/bin:/usr/local/bin:/Library/Frameworks/Python.framework/Versions/Current/bin"
export PATH
for python in python3.12 python3.11 python3; do
    # Apple's own python3 may be a stub that only offers developer tools; -c tells a real one.
    if command -v "$python" >/dev/null 2>&1 && "$python" -c "" >/dev/null 2>&1; then
        exec "$python" "$here/launch.py" "$@"
    fi
done
echo "Halftone needs Python 3.11 or newer and found none; nothing was changed: install Python 3.12 from python.org and start again." >&2
exit 1
