"""The sizes that binning pipelines compute, held against diffusers' own tables and functions."""

import random
from collections.abc import Iterator

import pytest
from diffusers.image_processor import PixArtImageProcessor
from diffusers.pipelines.flux.pipeline_flux_kontext import PREFERRED_KONTEXT_RESOLUTIONS
from diffusers.pipelines.flux2.image_processor import Flux2ImageProcessor
from diffusers.pipelines.hunyuandit import pipeline_hunyuandit as hunyuan
from diffusers.pipelines.pixart_alpha import pipeline_pixart_alpha as alpha
from diffusers.pipelines.pixart_alpha import pipeline_pixart_sigma as sigma
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit as edit
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_inpaint as edit_inpaint
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus as edit_plus
from diffusers.pipelines.sana import pipeline_sana as sana
from msgspec.structs import replace
from PIL import Image
from tests.helpers.reports import MODEL

from halftone.library.resolution_bins import BINNING, bin_edge, computed_size, joined_size

TABLES = {
    ("PixArtAlphaPipeline", 32): alpha.ASPECT_RATIO_256_BIN,
    ("PixArtAlphaPipeline", 64): alpha.ASPECT_RATIO_512_BIN,
    ("PixArtSigmaPipeline", 128): sigma.ASPECT_RATIO_1024_BIN,
    ("PixArtSigmaPipeline", 256): sigma.ASPECT_RATIO_2048_BIN,
    ("SanaPipeline", 16): sana.ASPECT_RATIO_512_BIN,
    ("SanaPipeline", 32): sana.ASPECT_RATIO_1024_BIN,
    ("SanaSprintPipeline", 32): sana.ASPECT_RATIO_1024_BIN,
    ("SanaPipeline", 128): sana.ASPECT_RATIO_4096_BIN,
}
FREE = "StableDiffusionPipeline"


EDITS = {"QwenImageEditPipeline": edit, "QwenImageEditInpaintPipeline": edit_inpaint, "QwenImageEditPlusPipeline": edit_plus}
WIDE = 1920, 1080


def sizes() -> Iterator[tuple[int, int]]:
    draw = random.Random(0)
    yield from ((64, 64), (1024, 1024), (64, 4096), (4096, 64), (1152, 864), (1280, 960))
    for _ in range(400):
        yield draw.randrange(8, 520) * 8, draw.randrange(8, 520) * 8


@pytest.mark.parametrize(("pipeline", "sample"), TABLES, ids=str)
def test_a_size_comes_from_the_table_of_the_pipeline(pipeline: str, sample: int) -> None:
    model = replace(MODEL, pipeline=pipeline, bin_edge=bin_edge(pipeline, sample))
    for width, height in sizes():
        theirs = PixArtImageProcessor.classify_height_width_bin(height, width, ratios=TABLES[pipeline, sample])
        assert computed_size(model, (width, height), {}) == (theirs[1], theirs[0])


def test_hunyuandit_has_sizes_of_its_own() -> None:
    model = replace(MODEL, pipeline="HunyuanDiTPipeline", bin_edge=bin_edge("HunyuanDiTPipeline", 128))
    for width, height in sizes():
        whole = width // 16 * 16, height // 16 * 16
        supported = (whole[1], whole[0]) in hunyuan.SUPPORTED_SHAPE
        theirs = whole if supported else hunyuan.map_to_standard_shapes(*whole)
        assert computed_size(model, (width, height), {}) == theirs


@pytest.mark.parametrize(
    ("pipeline", "sample"), [(FREE, 64), ("SanaPipeline", 7), ("SanaPipeline", None), ("PixArtSigmaPipeline", [32, 32])]
)
def test_without_a_table_what_is_asked_for_is_computed(pipeline: str, sample: object) -> None:
    model = replace(MODEL, pipeline=pipeline, bin_edge=bin_edge(pipeline, sample))
    assert computed_size(model, (64, 96), {}) == (64, 96)


def test_binning_that_is_turned_off_computes_what_is_asked_for() -> None:
    model = replace(MODEL, pipeline="SanaPipeline", bin_edge=1024)
    assert computed_size(model, (64, 64), {BINNING: False}) == (64, 64)
    assert computed_size(model, (64, 64), {BINNING: True}) == (1024, 1024)


@pytest.mark.parametrize("pipeline", EDITS)
def test_a_picture_that_is_edited_is_brought_to_the_nearest_size_of_its_shape(pipeline: str) -> None:
    model = replace(MODEL, pipeline=pipeline)
    assert joined_size(model, WIDE, {}) == (1376, 768)
    for width, height in sizes():
        theirs = EDITS[pipeline].calculate_dimensions(1024 * 1024, width / height)
        assert joined_size(model, (width, height), {}) == theirs[:2]


def test_kontext_brings_a_given_picture_to_a_size_that_it_was_trained_on() -> None:
    model = replace(MODEL, pipeline="FluxKontextPipeline")
    for width, height in sizes():
        _, *theirs = min((abs(width / height - wide / high), wide, high) for wide, high in PREFERRED_KONTEXT_RESOLUTIONS)
        assert joined_size(model, (width, height), {}) == tuple(theirs)
    assert joined_size(model, WIDE, {"_auto_resize": False}) == (1920, 1072)


def test_flux_2_makes_a_given_picture_smaller_where_it_is_larger_than_a_megapixel() -> None:
    model = replace(MODEL, pipeline="Flux2Pipeline")
    assert joined_size(model, (1000, 504), {}) == (992, 496)
    for width, height in (WIDE, (1152, 1152), (2048, 1024), (1032, 4096)):
        theirs = Flux2ImageProcessor._resize_to_target_area(Image.new("L", (width, height)), 1024 * 1024).size
        assert joined_size(model, (width, height), {}) == tuple(edge // 16 * 16 for edge in theirs)
