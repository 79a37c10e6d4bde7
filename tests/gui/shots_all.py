"""Renders every page in every state: `python -m tests.gui.shots_all FOLDER`.

Each state is rendered in four looks, which hold every pair of theme, language and size; `--every-look` renders all eight.
Some states also come with enlarged text. FOLDER/PAGE gets one PNG for each, FOLDER/sheets puts them together nine by nine.
`--design DESIGNS` adds FOLDER/beside, with each design picture and the page as it is. `--page NAME` (may be repeated) and
`--state PART` render less.
"""

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

from PIL import Image, ImageDraw
from PySide6.QtWidgets import QApplication
from tests.gui import shots, shots_models, shots_pages, shots_train

from halftone.gui import i18n, theme

LARGE: Final = (1440, 900)
SMALL: Final = (1024, 640)
FRAME: Final = 70
"""Pixels of the window's bars, which a page that is rendered alone does not have."""


class Look(NamedTuple):
    theme: theme.ThemeName
    language: Literal["en", "zh_CN"]
    size: tuple[int, int]
    text_size: int = 100

    @property
    def name(self) -> str:
        language = "zh" if self.language == "zh_CN" else "en"
        return f"{self.theme}-{language}-{self.size[0]}" + (f"-text-{self.text_size}" if self.text_size != 100 else "")


FOUR: Final = (
    Look("dark", "en", LARGE),
    Look("light", "zh_CN", LARGE),
    Look("dark", "zh_CN", SMALL),
    Look("light", "en", SMALL),
)
EIGHT: Final = tuple(itertools.starmap(Look, itertools.product(("dark", "light"), ("en", "zh_CN"), (LARGE, SMALL))))
ENLARGED: Final = (Look("dark", "en", SMALL, 150), Look("light", "zh_CN", LARGE, 200))
ENLARGED_STATES: Final = {
    "create": ("done", "generating", "recovered", "receipt", "queued", "groups", "numerics", "hires", "paint"),
    "gallery": ("gallery", "gallery_several"),
    "models": ("full", "table", "drawer"),
    "train": ("filled", "opened", "asks", "done"),
    "health": ("health-overflows", "health-cured", "health-checking"),
    "device": ("device", "device-faulty", "device-first-run"),
    "settings": tuple(name for name, _ in shots_pages.SHOTS if name.startswith("settings")),
}
DESIGNS: Final = {
    "01-create": ("create", "done", FOUR[0]),
    "02-create-generating": ("create", "generating", FOUR[0]),
    "03-create-black-recovered": ("create", "recovered", FOUR[0]),
    "04-model-health": ("health", "health-overflows", FOUR[0]),
    "05-models": ("models", "full", FOUR[0]),
    "06-gallery": ("gallery", "gallery", FOUR[0]),
    "07-settings-numerics": ("settings", "settings-numerics", FOUR[0]),
    "08-device-first-run": ("device", "device-first-run", FOUR[0]),
    "09-train-lora": ("train", "opened", FOUR[0]),
    "10-model-health-light": ("health", "health-overflows", Look("light", "en", LARGE)),
    "11-create-black-recovered-zh": ("create", "recovered_zh", Look("dark", "zh_CN", LARGE)),
    "13-create-first-picture": ("create", "empty", FOUR[0]),
    "14-create-min-1024x640": ("create", "done", Look("dark", "en", SMALL)),
}

Render = Callable[[Look, Path], None]
Item = TypeVar("Item")


def in_window(act: Callable[[shots.Stage], object], *, first: bool = False) -> Render:
    def render(look: Look, file: Path) -> None:
        stage = shots.Stage(theme_name=look.theme, language=look.language, size=look.size, text_size=look.text_size, first=first)
        act(stage)
        stage.shoot(file)

    return render


def alone(make: Callable[[], object]) -> Render:
    def render(look: Look, file: Path) -> None:
        os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(prefix="halftone-shots-")
        width, height = look.size
        shots_pages.shoot(make, file, look.theme, (width, height - FRAME), look.language, look.text_size)  # pyright: ignore[reportArgumentType]

    return render


def states() -> dict[str, dict[str, Render]]:
    """How each state of each page is rendered."""
    found: dict[str, dict[str, Render]] = {"create": {}, "gallery": {}, "models": {}, "train": {}}
    for options, act in shots.SHOTS.values():
        page = "gallery" if act.__name__.startswith("gallery") else "create"
        found[page][act.__name__] = in_window(act, first=bool(options.get("first")))
    for _, act in shots_models.SHOTS.values():
        found["models"][act.__name__] = in_window(act)
    for name, act in shots_train.STATES.items():
        found["train"][name] = in_window(act)
    for name, make in shots_pages.SHOTS:
        found.setdefault(name.partition("-")[0], {})[name] = alone(make)
    return found


def looks_of(page: str, state: str, *, every: bool, designs: bool) -> Iterator[Look]:
    looks = dict.fromkeys(EIGHT if every else FOUR)
    if state in ENLARGED_STATES[page]:
        looks.update(dict.fromkeys(ENLARGED))
    if designs:
        looks.update(dict.fromkeys(look for *where, look in DESIGNS.values() if where == [page, state]))
    yield from looks


def file_of(folder: Path, page: str, state: str, look: Look) -> Path:
    return folder / page / f"{state.replace('_', '-')}--{look.name}.png"


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def grid(pictures: Sequence[tuple[str, Path]], columns: int, width: int, file: Path) -> None:
    """Put pictures into one, each under its name."""
    shown: list[tuple[str, Image.Image]] = []
    for name, path in pictures:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
        shown.append((name, picture.resize((width, round(picture.height * width / picture.width)), Image.Resampling.LANCZOS)))
    rows = list(batched(shown, columns))
    heights = [max(picture.height for _, picture in row) + 24 for row in rows]
    sheet = Image.new("RGB", (columns * (width + 8), sum(heights)), (120, 120, 120))
    pen = ImageDraw.Draw(sheet)
    for row, top in zip(rows, itertools.accumulate(heights, initial=0), strict=False):
        for column, (name, picture) in enumerate(row):
            pen.text((column * (width + 8) + 6, top + 5), name, fill=(255, 255, 255), font_size=14)
            sheet.paste(picture, (column * (width + 8) + 4, top + 22))
    file.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(file)


def sheets(folder: Path, page: str) -> None:
    """Nine pictures of a page together, look by look: large and small ones do not mix."""
    by_look: dict[str, list[Path]] = {}
    for path in sorted((folder / page).glob("*.png")):
        by_look.setdefault(path.stem.rpartition("--")[2], []).append(path)
    for look, paths in by_look.items():
        for number, nine in enumerate(batched(paths, 9), 1):
            named = [(path.stem.rpartition("--")[0], path) for path in nine]
            grid(named, 3, 640, folder / "sheets" / f"{page}--{look}--{number}.png")


def beside(folder: Path, designs: Path, page: str) -> None:
    for name, (its_page, state, look) in DESIGNS.items():
        made = file_of(folder, page, state, look)
        if its_page == page and made.exists():
            grid([(name, designs / f"{name}.png"), (made.stem, made)], 2, 1000, folder / "beside" / f"{name}.png")


def main() -> None:
    from halftone.gui.main import make_app

    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder", type=Path)
    reader.add_argument("--every-look", action="store_true")
    reader.add_argument("--design", type=Path)
    reader.add_argument("--page", action="append")
    reader.add_argument("--state", default="")
    asked = reader.parse_args()
    app = make_app(["halftone"])
    for page, its_states in states().items():
        if asked.page and page not in asked.page:
            continue
        (asked.folder / page).mkdir(parents=True, exist_ok=True)
        for state, render in its_states.items():
            if asked.state not in state:
                continue
            for look in looks_of(page, state, every=asked.every_look, designs=asked.design is not None):
                i18n.set_language(look.language)
                theme.set_text_size(look.text_size)
                render(look, file_of(asked.folder, page, state, look))
        sheets(asked.folder, page)
        if asked.design is not None:
            beside(asked.folder, asked.design, page)
    for widget in QApplication.topLevelWidgets():
        widget.close()
    app.quit()


if __name__ == "__main__":
    main()
