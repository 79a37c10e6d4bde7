"""`python -m halftone.worker`."""

from halftone.worker.loop import main

if __name__ == "__main__":
    raise SystemExit(main())
