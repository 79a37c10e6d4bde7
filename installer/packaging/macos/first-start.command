#!/bin/sh
# Sets Halftone up where that can be watched, then opens its window. With a word, the bundle asks for no Terminal again.
bundle=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
"$bundle/Contents/MacOS/Halftone" ready && open "$bundle" --args gui
