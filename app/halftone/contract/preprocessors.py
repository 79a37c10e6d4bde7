"""What is drawn of a picture before a ControlNet reads it, by the names of A1111's extension; each is declared once, here."""

from typing import Final, NamedTuple

from halftone.contract.wording import Words

NONE: Final = "none"
DEPTH: Final = "depth"
NORMAL: Final = "normal"
POSE: Final = "pose"
RESOLUTIONS: Final = (64, 2048)
"""The shorter edge that a preprocessor works at."""


class Threshold(NamedTuple):
    """A number of a preprocessor: its name, what it is by itself, and its range."""

    name: Words
    usual: float
    low: float
    high: float


class Preprocessor(NamedTuple):
    """title: as the window calls it. thresholds: none to two. scaled: whether the picture is first brought to a resolution.
    has_model: whether it runs a model, from a folder of the user's.
    """

    title: Words
    thresholds: tuple[Threshold, ...] = ()
    scaled: bool = True
    has_model: bool = False


_GAMMA: Final = (Threshold(Words("Gamma"), 1.0, 0.1, 2.0),)
PREPROCESSORS: Final[dict[str, Preprocessor]] = {
    NONE: Preprocessor(Words("None"), scaled=False),
    "canny": Preprocessor(
        Words("Canny edges"),
        (Threshold(Words("Low threshold"), 100, 1, 255), Threshold(Words("High threshold"), 200, 1, 255)),
    ),
    "lineart_standard": Preprocessor(Words("Line art")),
    "scribble_xdog": Preprocessor(Words("Scribble"), (Threshold(Words("Threshold"), 32, 1, 64),)),
    "tile_resample": Preprocessor(Words("Tile"), (Threshold(Words("Downsampling"), 1.0, 1.0, 8.0),), scaled=False),
    "blur_gaussian": Preprocessor(Words("Blur"), (Threshold(Words("Radius"), 9.0, 0.01, 64.0),)),
    "invert": Preprocessor(Words("Invert"), scaled=False),
    "threshold": Preprocessor(Words("Black and white"), (Threshold(Words("Threshold"), 127, 0, 255),)),
    "recolor_luminance": Preprocessor(Words("Luminance"), _GAMMA, scaled=False),
    "recolor_intensity": Preprocessor(Words("Intensity"), _GAMMA, scaled=False),
    DEPTH: Preprocessor(Words("Depth map"), has_model=True),
    NORMAL: Preprocessor(Words("Normal map"), (Threshold(Words("Background"), 0.4, 0.0, 1.0),), has_model=True),
    POSE: Preprocessor(Words("Pose"), (Threshold(Words("Threshold"), 0.3, 0.0, 1.0),), has_model=True),
}
"""Numbers and ranges are those of A1111's extension (Mikubill/sd-webui-controlnet), which has none for a pose: that one is the
score that a joint has to exceed.
"""
