"""Draws one control picture in a process of its own: a request as JSON on stdin; a PNG on stdout, or an error as a line of
JSON on stderr.
"""

import io
import sys
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Drawing

FAILED: Final = 3
"""The exit status where stderr holds an error."""


def main() -> int:
    """Read, draw, write."""
    from halftone.engine.inputs.control_pictures import prepared
    from halftone.library.add_ons.preprocessors import check_preprocessors
    from halftone.metadata.start_images import read_picture

    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Drawing)
    try:
        check_preprocessors([asked.control])
        made = prepared(read_picture(asked.control.image), asked.control, asked.size)
    except HalftoneError as error:
        sys.stderr.buffer.write(b"\n" + msgspec.json.encode(error.as_facts()) + b"\n")
        return FAILED
    file = io.BytesIO()
    made.convert("RGB").save(file, "PNG")
    sys.stdout.buffer.write(file.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
