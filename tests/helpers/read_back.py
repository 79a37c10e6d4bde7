"""Reads a picture or a video back: what it says about itself."""

from pathlib import Path

from halftone.metadata.reading import Found, Parameters, parse_parameters, read_picture
from halftone.metadata.video import PARAMETERS_TAG, RECEIPT_TAG

__all__ = ["Found", "Parameters", "parse_parameters", "read_picture", "read_video"]


def read_video(path: Path) -> Found:
    """What an MP4 says about itself."""
    import av

    with av.open(path) as container:
        return Found(container.metadata.get(PARAMETERS_TAG), container.metadata.get(RECEIPT_TAG))
