import math

import numpy as np
import pytest

from halftone.measure.pictures import flat_tiles, is_dark, is_flat, psnr


def drawn() -> np.random.Generator:
    """Always the same numbers, in whatever order the tests run."""
    return np.random.default_rng(3)


def picture(height: int = 128, width: int = 128) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    return drawn().integers(0, 256, (height, width, 3), dtype=np.uint8)


def latents(height: int = 16, width: int = 16) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
    return drawn().normal(size=(4, height, width)).astype(np.float32)


@pytest.mark.parametrize("colour", [(0, 0, 0), (128, 128, 128), (10, 200, 30)])
def test_one_colour_is_flat_whatever_the_colour(colour: tuple[int, int, int]) -> None:
    flat = np.full((32, 32, 3), colour, np.uint8)
    assert is_flat(flat)
    flat[3, 4] = np.clip(np.add(colour, 4), 0, 255)
    assert is_flat(flat)
    flat[3, 4] = np.add(colour, 5)
    assert not is_flat(flat)


def test_channels_are_looked_at_each() -> None:
    half = np.zeros((8, 8, 3), np.uint8)
    half[:4, :, 2] = 9
    assert not is_flat(half)


def test_an_empty_picture_is_flat() -> None:
    assert is_flat(np.zeros((0, 0, 3), np.uint8))


def test_a_black_tile_over_lively_latents_is_found() -> None:
    shown = picture()
    shown[64:128, 0:64] = 0
    assert flat_tiles(shown, latents()) == [(1, 0)]


def test_a_clear_sky_is_no_finding() -> None:
    shown, calm = picture(), latents()
    shown[:64] = (200, 220, 255)
    calm[:, :8] = 0.1 * calm[:, :8] + 1.0
    assert flat_tiles(shown, calm) == []


def test_a_sound_picture_has_no_flat_tiles() -> None:
    assert flat_tiles(picture(), latents()) == []


def test_bad_latents_count_as_lively() -> None:
    shown, bad = picture(), latents()
    shown[:64, :64] = 0
    bad[:, :8, :8] = math.nan
    assert flat_tiles(shown, bad) == [(0, 0)]


def test_sizes_that_do_not_divide() -> None:
    shown = picture(104, 96)
    shown[64:, 64:] = 7
    assert flat_tiles(shown, latents(13, 12)) == [(1, 1)]


def test_dark_is_not_flat() -> None:
    dark = drawn().integers(0, 8, (64, 64, 3), dtype=np.uint8)
    assert is_dark(dark)
    assert not is_flat(dark)
    assert not is_dark(picture())


def test_psnr() -> None:
    a = np.zeros((4, 4, 3), np.uint8)
    assert psnr(a, a) == math.inf
    assert psnr(a, a + 255) == pytest.approx(0.0)
    assert psnr(a / 1.0, a + 0.01) == pytest.approx(40.0)
    assert psnr(a / 1.0, a + math.nan) == -math.inf
    with pytest.raises(ValueError, match="differ in kind"):
        psnr(a, a[:2])
