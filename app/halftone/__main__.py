"""`python -m halftone` is the command `halftone`."""

import sys

from halftone.cli import main

if __name__ == "__main__":
    sys.exit(main())
