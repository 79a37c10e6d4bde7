#!/bin/sh
# Sets Halftone up where that can be watched, then opens its window.
bundle=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
"$bundle/Contents/MacOS/Halftone" ready && open "$bundle"
