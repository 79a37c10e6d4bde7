"""Sizes that some pipelines compute whatever is asked for: the nearest of a table that the model was trained on.

Sana and PixArt scale and crop the result to the wanted size; HunyuanDiT leaves that to its caller. `use_resolution_binning` turns
it off. The tables are those of diffusers:
https://github.com/huggingface/diffusers/blob/main/src/diffusers/pipelines/pixart_alpha/pipeline_pixart_sigma.py
https://github.com/huggingface/diffusers/blob/main/src/diffusers/pipelines/hunyuandit/pipeline_hunyuandit.py
"""

from collections.abc import Mapping
from typing import Final

from halftone.contract.facts import ModelFacts
from halftone.contract.request import OptionValue

BINNING: Final = "use_resolution_binning"
_LATENT: Final = {"PixArt": 8, "Sana": 32}
"""Pixels of a latent cell, by how the pipeline's name begins."""
_HUNYUAN: Final = "HunyuanDiT"
_KONTEXT: Final = "FluxKontext"
_EDITS: Final = "QwenImageEdit"
_FLUX2: Final = "Flux2"
_MEGAPIXEL: Final = 1024 * 1024
_TRAINED: Final = (
    (672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104), (1024, 1024),
    (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688), (1568, 672),
)  # fmt: skip
"""(width, height) of the input pictures that FLUX.1 Kontext was trained on."""
_EDGES: Final = (256, 512, 1024, 2048, 4096)
_SIXTEENTHS: Final[dict[float, tuple[int, int]]] = {
    0.25: (8, 32), 0.28: (8, 29), 0.32: (9, 28), 0.33: (9, 27), 0.35: (9, 26), 0.4: (10, 25), 0.42: (10, 24), 0.48: (11, 23),
    0.5: (11, 22), 0.52: (11, 21), 0.57: (12, 21), 0.6: (12, 20), 0.68: (13, 19), 0.72: (13, 18), 0.78: (14, 18),
    0.82: (14, 17), 0.88: (15, 17), 0.94: (15, 16), 1.0: (16, 16), 1.07: (16, 15), 1.13: (17, 15), 1.21: (17, 14),
    1.29: (18, 14), 1.38: (18, 13), 1.46: (19, 13), 1.67: (20, 12), 1.75: (21, 12), 2.0: (22, 11), 2.09: (23, 11),
    2.4: (24, 10), 2.5: (25, 10), 3.0: (27, 9), 4.0: (32, 8),
}  # fmt: skip
"""Height / width -> (height, width) in sixteenths of the edge of the square."""
_LARGE: Final[dict[float, tuple[int, int]]] = {
    0.26: (8, 31), 0.27: (8, 30), 2.89: (26, 9), 3.11: (28, 9), 3.62: (29, 8), 3.75: (30, 8), 3.88: (31, 8),
}  # fmt: skip
"""More ratios from an edge of 2048 on."""
_LARGE_EDGE: Final = 2048
_SHAPES: Final = (
    (1.0, ((1024, 1024), (1280, 1280))),
    (4 / 3, ((1024, 768), (1152, 864), (1280, 960))),
    (3 / 4, ((768, 1024), (864, 1152), (960, 1280))),
    (16 / 9, ((1280, 768),)),
    (9 / 16, ((768, 1280),)),
)
"""HunyuanDiT's: width / height, and the sizes (width, height)."""


def bin_edge(pipeline: str, sample: object) -> int:
    """Edge in pixels of the square among a pipeline's own sizes; 0 where it computes any size. sample: the transformer's
    `sample_size`, in latent cells.
    """
    if pipeline.startswith(_HUNYUAN):
        return _SHAPES[0][1][0][0]
    cell = next((cell for name, cell in _LATENT.items() if pipeline.startswith(name)), 0)
    edge = sample * cell if type(sample) is int else 0
    return edge if edge in _EDGES else 0


def computed_size(model: ModelFacts, size: tuple[int, int], options: Mapping[str, OptionValue]) -> tuple[int, int]:
    """(width, height) in pixels that is computed for `size`."""
    width, height = size
    if model.pipeline.startswith(_KONTEXT) and min(size) >= 1:
        area = options.get("max_area", _MEGAPIXEL)
        area, ratio = area if type(area) is int else _MEGAPIXEL, width / height
        return _whole(round((area * ratio) ** 0.5), round((area / ratio) ** 0.5))
    if not model.bin_edge or options.get(BINNING, True) is False or min(size) < 1:
        return size
    if model.pipeline.startswith(_HUNYUAN):
        width, height = _whole(width, height)
        if any((height, width) in sizes for _, sizes in _SHAPES):
            return width, height
        _, sizes = min(_SHAPES, key=lambda shape: abs(shape[0] - width / height))
        return min(sizes, key=lambda one: abs(one[0] * one[1] - width * height))
    table = _SIXTEENTHS | (_LARGE if model.bin_edge >= _LARGE_EDGE else {})
    high, wide = table[min(sorted(table), key=lambda ratio: abs(ratio - height / width))]
    return wide * model.bin_edge // 16, high * model.bin_edge // 16


def joined_size(model: ModelFacts, size: tuple[int, int], options: Mapping[str, OptionValue]) -> tuple[int, int] | None:
    """(width, height) of an input picture of this size whose tokens run beside the result's; None where they do not."""
    width, height = size
    if min(size) < 1:
        return None
    if model.pipeline.startswith(_EDITS):
        wide = (_MEGAPIXEL * width / height) ** 0.5
        return round(wide / 32) * 32, round(wide * height / width / 32) * 32
    if model.pipeline.startswith(_KONTEXT):
        if options.get("_auto_resize", True):
            return min(_TRAINED, key=lambda one: (abs(width / height - one[0] / one[1]), one))
        return _whole(width, height)
    if model.pipeline.startswith(_FLUX2):
        factor = min(1.0, (_MEGAPIXEL / (width * height)) ** 0.5)
        return _whole(int(width * factor), int(height * factor))
    return None


def _whole(width: int, height: int) -> tuple[int, int]:
    """(width, height) in whole tokens of 16 pixels."""
    return max(16, width // 16 * 16), max(16, height // 16 * 16)
