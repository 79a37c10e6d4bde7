"""Draws the paper-cut landscapes that Pocket learns from.

Every picture is made of flat sheets laid on each other: a sky, rings of paler
sky around the sun or the moon, four sheets of hills or waves, and a few cut-out
objects.  Each sheet throws a soft shadow on the ones below it.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Array = NDArray[np.float32]
Point = tuple[float, float]

SIZE = 128
OVERSAMPLE = 4

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (206, 54, 50),
    "orange": (240, 138, 46),
    "yellow": (248, 206, 72),
    "white": (252, 248, 238),
    "pink": (240, 144, 172),
    "green": (96, 160, 92),
    "blue": (56, 112, 186),
    "purple": (128, 84, 166),
    "teal": (40, 150, 148),
    "brown": (142, 98, 68),
}
LIGHT_COLOURS: dict[str, tuple[str, ...]] = {
    "sun": ("red", "orange", "yellow", "white", "pink"),
    "moon": ("white", "yellow", "orange", "red"),
}
GROUND_COLOURS: dict[str, tuple[str, ...]] = {
    "hills": ("green", "orange", "purple", "blue", "teal", "brown", "pink", "red", "yellow"),
    "sea": ("blue", "teal", "purple", "green", "pink"),
}
TIMES = ("day", "dusk", "night")
HOUSE_COLOURS = ("white", "red", "yellow", "blue")
BOAT_COLOURS = ("white", "red", "yellow")

SKIES: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]] = {
    # top, horizon, the tint of the rings round the light
    "day": ((118, 186, 214), (206, 230, 226), (240, 244, 230)),
    "dusk": ((104, 84, 148), (246, 176, 138), (255, 206, 160)),
    "night": ((18, 26, 60), (54, 68, 118), (98, 114, 164)),
}
TINTS: dict[str, tuple[float, float, float]] = {
    # what the hour does to everything that does not shine
    "day": (1.0, 1.0, 1.0),
    "dusk": (0.97, 0.88, 0.9),
    "night": (0.72, 0.71, 0.82),
}
TIME_ODDS: dict[str, tuple[float, float, float]] = {
    "sun": (0.5, 0.38, 0.12),
    "moon": (0.16, 0.22, 0.62),
}
# Things have their places, as on a stage: a small network then learns quickly what a word puts there.
HILL_TREES: dict[int, tuple[float, ...]] = {0: (), 1: (38.0,), 2: (26.0, 52.0), 3: (18.0, 41.0, 64.0)}
HILL_HOUSE = 97.0
BOAT = 102.0
PINE = (34, 82, 68)
TRUNK = (92, 64, 48)
SAND = (206, 170, 122)
ROOFS: dict[str, tuple[int, int, int]] = {
    "white": (188, 84, 62),
    "red": (92, 56, 50),
    "yellow": (146, 76, 56),
    "blue": (48, 58, 84),
}


@dataclass(frozen=True)
class Scene:
    """What a picture shows; the empty string stands for "none"."""

    light: str
    light_colour: str
    ground: str
    ground_colour: str
    time: str
    trees: int
    house: str
    boat: str


def held_out(scene: Scene) -> bool:
    """One combination in ten is never drawn for training."""
    text = "|".join(str(part) for part in astuple(scene))
    return hashlib.sha256(text.encode()).digest()[0] % 10 == 0


def random_scene(rng: np.random.Generator) -> Scene:
    """Any scene that can be drawn, likelier ones more often."""
    light = "sun" if rng.random() < 0.6 else "moon"
    ground = "hills" if rng.random() < 0.58 else "sea"
    trees = int(rng.choice(4, p=(0.46, 0.18, 0.18, 0.18)))
    house = str(rng.choice(HOUSE_COLOURS)) if rng.random() < 0.3 else ""
    boat = str(rng.choice(BOAT_COLOURS)) if ground == "sea" and rng.random() < 0.5 else ""
    if boat and trees == 3:
        # Three trees and a house would leave the boat no water.
        house = ""
    return Scene(
        light=light,
        light_colour=str(rng.choice(LIGHT_COLOURS[light])),
        ground=ground,
        ground_colour=str(rng.choice(GROUND_COLOURS[ground])),
        time=str(rng.choice(TIMES, p=TIME_ODDS[light])),
        trees=trees,
        house=house,
        boat=boat,
    )


def training_scene(rng: np.random.Generator) -> Scene:
    """A random scene that is not held out."""
    while held_out(scene := random_scene(rng)):
        pass
    return scene


def test_scene(rng: np.random.Generator) -> Scene:
    """A random scene out of the held-out ones."""
    while not held_out(scene := random_scene(rng)):
        pass
    return scene


def rgb(colour: tuple[int, int, int]) -> Array:
    return np.asarray(colour, np.float32) / 255


def mix(first: Array, second: Array, share: float) -> Array:
    return first * (1 - share) + second * share


def grid() -> tuple[Array, Array]:
    """Columns and rows of the picture, in pixels."""
    line = np.arange(SIZE, dtype=np.float32) + 0.5
    return line[None, :], line[:, None]


def gradient(top: Array, bottom: Array, start: float = 0, end: float = SIZE) -> Array:
    """A sheet that runs from one colour to another between two rows."""
    _, rows = grid()
    share = np.clip((rows - start) / (end - start), 0, 1)[..., None]
    return np.broadcast_to(top * (1 - share) + bottom * share, (SIZE, SIZE, 3))


def shift(mask: Array, right: int, down: int) -> Array:
    """The mask moved, its edge rows and columns repeated."""
    pad = np.pad(mask, max(abs(right), abs(down)), mode="edge")
    inset = max(abs(right), abs(down))
    return pad[inset - down : inset - down + SIZE, inset - right : inset - right + SIZE]


def blurred(mask: Array, radius: float) -> Array:
    margin = int(radius * 3)
    padded = np.pad(mask, margin, mode="edge")
    image = Image.fromarray((padded * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(radius))
    inner = np.asarray(image, np.float32)[margin:-margin, margin:-margin]
    return inner / 255


def lay(canvas: Array, mask: Array, fill: Array, shadow: float, radius: float) -> Array:
    """Lay a cut sheet on the canvas: its shadow, its face and its lit upper edge."""
    dark = blurred(shift(mask, 1, -1), radius) * shadow
    edge = np.clip(mask - shift(mask, 0, 1), 0, 1)[..., None] * 0.35
    face = fill + (1 - fill) * edge
    below = canvas * (1 - dark[..., None])
    return below * (1 - mask[..., None]) + face * mask[..., None]


def disc(x: float, y: float, radius: float) -> Array:
    columns, rows = grid()
    distance = np.hypot(columns - x, rows - y)
    return np.clip(radius - distance + 0.5, 0, 1).astype(np.float32)


def below_line(ridge: Array) -> Array:
    _, rows = grid()
    return np.clip(rows - ridge[None, :] + 0.5, 0, 1).astype(np.float32)


def polygons(*shapes: list[Point]) -> Array:
    """A smooth-edged mask of filled polygons."""
    image = Image.new("L", (SIZE * OVERSAMPLE, SIZE * OVERSAMPLE), 0)
    pen = ImageDraw.Draw(image)
    for shape in shapes:
        pen.polygon([(x * OVERSAMPLE, y * OVERSAMPLE) for x, y in shape], fill=255)
    return np.asarray(image.reduce(OVERSAMPLE), np.float32) / 255


def arc(x: float, y: float, width: float, height: float, start: float, end: float) -> list[Point]:
    """Points on an ellipse, the angles in turns, clockwise from the right."""
    angles = np.linspace(start, end, 24) * math.tau
    return [(x + width / 2 * math.cos(a), y + height / 2 * math.sin(a)) for a in angles.tolist()]


def sky(scene: Scene, rng: np.random.Generator) -> Array:
    """The sky with its stars or clouds and the light in its rings."""
    top, horizon, ring = (rgb(c) for c in SKIES[scene.time])
    canvas = gradient(top, horizon, 0, 84).copy()
    x, y = rng.uniform(58, 70), rng.uniform(31, 37)
    radius = rng.uniform(14.5, 16)
    if scene.time == "night":
        canvas = stars(canvas, rng)
    for share, extra in ((0.16, 42), (0.34, 26), (0.54, 12)):
        mask = disc(x, y, radius + extra + float(rng.uniform(-1.5, 1.5)))
        canvas = lay(canvas, mask, mix(canvas, ring, share), 0.16, 3)
    if scene.time != "night":
        canvas = clouds(canvas, ring, rng)
    colour = rgb(COLOURS[scene.light_colour])
    fill = gradient(mix(colour, np.ones(3, np.float32), 0.12), colour * 0.96, y - radius, y + radius)
    mask = disc(x, y, radius)
    if scene.light == "moon":
        bite = disc(x + radius * 0.46, y - radius * 0.22, radius * 0.86)
        mask = mask * (1 - bite)
    return lay(canvas, mask, fill, 0.3, 2.5)


def stars(canvas: Array, rng: np.random.Generator) -> Array:
    for _ in range(int(rng.integers(8, 15))):
        x, y = rng.uniform(3, SIZE - 3), rng.uniform(3, 58)
        mask = disc(float(x), float(y), float(rng.uniform(0.5, 1.1)))[..., None]
        canvas = canvas * (1 - mask) + rgb((250, 240, 210)) * mask
    return canvas


def clouds(canvas: Array, ring: Array, rng: np.random.Generator) -> Array:
    """Up to two long clouds, cut in the tint of the rings, clear of the middle."""
    for side in rng.permutation(2)[: int(rng.integers(0, 3))]:
        x = rng.uniform(2, 26) + 100 * int(side)
        y, width = rng.uniform(16, 46), rng.uniform(30, 44)
        mask = polygons(
            arc(x, y, width, 9, 0.5, 1.0),
            arc(x - width * 0.12, y - 2, width * 0.4, 13, 0.5, 1.0),
            arc(x + width * 0.16, y - 1, width * 0.34, 10, 0.5, 1.0),
        )
        canvas = lay(canvas, mask, mix(canvas, ring, 0.75), 0.14, 2)
    return canvas


def hill_ridges(rng: np.random.Generator) -> list[Array]:
    """Four overlapping ridges, the far one first."""
    columns = grid()[0][0]
    ridges: list[Array] = []
    for base, swing in ((66, 8), (80, 6.5), (97, 4.5), (113, 4)):
        first, second = rng.uniform(0, 1, 2)
        line = np.sin((columns / rng.uniform(95, 140) + first) * math.tau)
        line = line + 0.4 * np.sin((columns / rng.uniform(48, 66) + second) * math.tau)
        ridges.append((base + float(rng.uniform(-2, 2)) + swing * line).astype(np.float32))
    return ridges


def wave_ridges(rng: np.random.Generator) -> list[Array]:
    """A straight horizon and three rows of scalloped waves."""
    columns = grid()[0][0]
    ridges: list[Array] = [np.full(SIZE, float(rng.uniform(66, 72)), np.float32)]
    for base, height, length in ((83, 5, 22), (99, 6, 26), (115, 7, 30)):
        start, wide = rng.uniform(0, 1), length * rng.uniform(0.9, 1.1)
        line = np.abs(np.sin((columns / wide + start) * math.pi))
        ridges.append((base + float(rng.uniform(-1, 1)) - height * line).astype(np.float32))
    return ridges


def shore_ridge(width: float) -> Array:
    """A sandy foreland in the left corner, wide enough for what stands on it."""
    columns = grid()[0][0]
    rise = 1 / (1 + np.exp((columns - width) / 5))
    return (140 - 36 * rise + 0.06 * columns).astype(np.float32)


def sheet_fill(scene: Scene, index: int, ridge: Array) -> Array:
    """The colour of one of the four sheets: paler far away, deeper near by."""
    tint = np.asarray(TINTS[scene.time], np.float32)
    haze = rgb(SKIES[scene.time][1])
    colour = rgb(COLOURS[scene.ground_colour]) * tint
    colour = mix(colour, haze, (0.3, 0.16, 0.05, 0.0)[index]) * (1.04, 1.0, 0.92, 0.78)[index]
    start = float(ridge.min())
    light = mix(colour, np.ones(3, np.float32), 0.1)
    return gradient(light, colour * 0.86, start, start + 40)


def tree(canvas: Array, x: float, foot: float, scene: Scene, rng: np.random.Generator) -> Array:
    """A cut-out tree, round or pointed, with its right half in shade."""
    tint = np.asarray(TINTS[scene.time], np.float32)
    tall, wide = float(rng.uniform(25, 30)), float(rng.uniform(15, 17))
    top = foot - tall
    trunk = polygons([(x - 1.4, foot - 10), (x + 1.4, foot - 10), (x + 1.8, foot), (x - 1.8, foot)])
    canvas = lay(canvas, trunk, gradient(rgb(TRUNK) * tint, rgb(TRUNK) * tint), 0.25, 1.5)
    if rng.random() < 0.5:
        crown = arc(x, top + tall * 0.38, wide, tall * 0.76, 0, 1)
    else:
        crown = [(x, top), (x + wide / 2, foot - 5), (x - wide / 2, foot - 5)]
    mask = polygons(crown)
    leaf = rgb(PINE) * tint
    fill = gradient(mix(leaf, rgb((150, 200, 130)), 0.32), leaf, top, foot - 4)
    canvas = lay(canvas, mask, fill, 0.35, 2)
    columns, _ = grid()
    half = (mask * np.clip(columns - x + 0.5, 0, 1) * 0.2)[..., None]
    return canvas * (1 - half)


def house(canvas: Array, x: float, foot: float, scene: Scene) -> Array:
    """A small house with a pitched roof, a door and a window."""
    tint = np.asarray(TINTS[scene.time], np.float32) ** 0.6
    wall = rgb(COLOURS[scene.house]) * tint
    roof = rgb(ROOFS[scene.house]) * tint
    body = polygons([(x - 10, foot - 15), (x + 10, foot - 15), (x + 10, foot), (x - 10, foot)])
    canvas = lay(canvas, body, gradient(wall, wall * 0.88, foot - 15, foot), 0.35, 2)
    gable = polygons([(x - 13, foot - 14), (x - 6, foot - 25), (x + 6, foot - 25), (x + 13, foot - 14)])
    canvas = lay(canvas, gable, gradient(roof * 1.1, roof, foot - 25, foot - 14), 0.3, 1.5)
    glow = rgb((70, 78, 96)) if scene.time == "day" else rgb((255, 220, 120))
    window = polygons([(x + 2, foot - 11), (x + 7, foot - 11), (x + 7, foot - 6), (x + 2, foot - 6)])
    door = polygons([(x - 7, foot - 10), (x - 2, foot - 10), (x - 2, foot), (x - 7, foot)])
    canvas = canvas * (1 - window[..., None]) + glow * window[..., None]
    return canvas * (1 - door[..., None]) + roof * 0.8 * door[..., None]


def boat(canvas: Array, x: float, foot: float, scene: Scene) -> Array:
    """A sailing boat; the hull is a deep shade of the sails' colour."""
    tint = np.asarray(TINTS[scene.time], np.float32) ** 0.6
    sail = rgb(COLOURS[scene.boat]) * tint
    hull = mix(sail, rgb(TRUNK) * tint, 0.55)
    jib = [(x - 2, foot - 33), (x - 2, foot - 9), (x - 14, foot - 9)]
    main = [(x + 1, foot - 36), (x + 9, foot - 22), (x + 15, foot - 9), (x + 1, foot - 9)]
    fill = gradient(mix(sail, np.ones(3, np.float32), 0.1), sail * 0.92, foot - 34, foot - 8)
    canvas = lay(canvas, polygons(jib, main), fill, 0.3, 2)
    body = polygons([(x - 18, foot - 7), (x + 18, foot - 7), (x + 11, foot + 2), (x - 12, foot + 2)])
    return lay(canvas, body, gradient(hull, hull * 0.85, foot - 8, foot + 2), 0.35, 2)


def stand(canvas: Array, scene: Scene, ridge: Array, places: list[float], rng: np.random.Generator) -> Array:
    """Put the trees and the house behind a ridge; the house takes the last place."""
    shifted = [x + float(rng.uniform(-2.5, 2.5)) for x in places]
    for x in shifted[: scene.trees]:
        canvas = tree(canvas, x, float(ridge[int(x)]) + 3, scene, rng)
    if scene.house:
        x = shifted[-1]
        foot = float(ridge[max(0, int(x) - 9) : int(x) + 10].max())
        canvas = house(canvas, x, foot + 2, scene)
    return canvas


def draw_hills(canvas: Array, scene: Scene, rng: np.random.Generator) -> Array:
    ridges = hill_ridges(rng)
    for index, ridge in enumerate(ridges):
        if index == 2:
            places = [*HILL_TREES[scene.trees], HILL_HOUSE]
            canvas = stand(canvas, scene, ridge, places, rng)
        canvas = lay(canvas, below_line(ridge), sheet_fill(scene, index, ridge), 0.42, 3.5)
    return canvas


def draw_sea(canvas: Array, scene: Scene, rng: np.random.Generator) -> Array:
    """Waves, the boat between them, and a shore for whatever needs land."""
    count = scene.trees + bool(scene.house)
    ridges = wave_ridges(rng)
    for index, ridge in enumerate(ridges):
        if index == 2 and scene.boat:
            x, foot = BOAT + float(rng.uniform(-3, 3)), 94 + float(rng.uniform(-2, 1))
            canvas = boat(canvas, x, foot, scene)
        canvas = lay(canvas, below_line(ridge), sheet_fill(scene, index, ridge), 0.36, 3)
    if not count:
        return canvas
    ridge = shore_ridge(count * 23.0 + 8)
    # The house stands at the edge of the picture and the trees between it and the water.
    first = 18 if scene.house else 13
    trees = [first + 22.0 * (i + bool(scene.house)) for i in range(scene.trees)]
    canvas = stand(canvas, scene, ridge, [*trees, first], rng)
    sand = rgb(SAND) * np.asarray(TINTS[scene.time], np.float32)
    return lay(canvas, below_line(ridge), gradient(sand, sand * 0.82, 100, SIZE), 0.4, 3)


def draw(scene: Scene, seed: int) -> Image.Image:
    """The picture of a scene; the same seed always gives the same picture."""
    rng = np.random.default_rng(seed)
    canvas = sky(scene, rng)
    paint = draw_hills if scene.ground == "hills" else draw_sea
    canvas = paint(canvas, scene, rng)
    return Image.fromarray((np.clip(canvas, 0, 1) * 255 + 0.5).astype(np.uint8))


def contact_sheet(images: list[Image.Image], columns: int, scale: int = 1) -> Image.Image:
    """Pictures side by side with a thin white margin."""
    side = images[0].width * scale
    rows = math.ceil(len(images) / columns)
    sheet = Image.new("RGB", (columns * (side + 4) + 4, rows * (side + 4) + 4), "white")
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        big = image.resize((side, side), Image.Resampling.BICUBIC)
        sheet.paste(big, (4 + column * (side + 4), 4 + row * (side + 4)))
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="where to save a sheet of drawings")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    images = [draw(random_scene(rng), args.seed + i) for i in range(args.count)]
    contact_sheet(images, 6, 2).save(args.out)


if __name__ == "__main__":
    main()
