"""The pages of the window, each declared once: a new page is a row here and a folder of its own."""

from importlib import import_module
from typing import Final, Literal, NamedTuple, cast

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from halftone.contract.wording import Words
from halftone.gui.kit.actions import keys_of

PageName = Literal["create", "gallery", "models", "health", "train", "device", "settings"]


class Tab(NamedTuple):
    """What stands in the top bar with the name of the page."""

    icon: str
    tip: Words


class Page(NamedTuple):
    """name: in the top bar and in the list of shortcuts. key: its shortcut. made_by: module and class; the class takes the
    controller. chapter: of the guide. tab: None for a page that something else in the top bar opens.
    """

    name: Words
    key: str
    made_by: tuple[str, str]
    chapter: str
    tab: Tab | None = None

    def make(self, controller: QObject) -> QWidget:
        """Make the page. Its modules are imported now: the first window is there sooner without them."""
        module, name = self.made_by
        return cast("QWidget", getattr(import_module(module), name)(controller))


PAGES: Final[dict[PageName, Page]] = {
    "create": Page(
        Words("Create"),
        "Ctrl+1",
        ("halftone.gui.create.create_page", "CreatePage"),
        "first-picture",
        Tab("image", Words("Generate pictures")),
    ),
    "gallery": Page(
        Words("Gallery"),
        "Ctrl+2",
        ("halftone.gui.gallery.gallery_page", "GalleryPage"),
        "gallery",
        Tab("images", Words("Find, compare and reuse pictures")),
    ),
    "models": Page(
        Words("Models"),
        "Ctrl+3",
        ("halftone.gui.models.models_page", "ModelsPage"),
        "models",
        Tab("boxes", Words("Find, check and choose models")),
    ),
    "health": Page(
        Words("Health"),
        "Ctrl+4",
        ("halftone.gui.health.health_page", "HealthPage"),
        "health",
        Tab("activity", Words("Check and cure models")),
    ),
    "train": Page(
        Words("Train"),
        "Ctrl+5",
        ("halftone.gui.train.train_page", "TrainPage"),
        "training",
        Tab("chart-line", Words("Train a LoRA")),
    ),
    "device": Page(Words("Device"), "Ctrl+6", ("halftone.gui.device.device_page", "DevicePage"), "numerics"),
    "settings": Page(Words("Settings"), "Ctrl+,", ("halftone.gui.settings.settings_page", "SettingsPage"), "numerics"),
}
"""The pages, in the order of the tabs."""


def page_keys(name: PageName) -> tuple[str, ...]:
    """The keys in force of a page."""
    return keys_of(key_name(name), (PAGES[name].key,))


def key_name(name: PageName) -> str:
    """The name of a page among those of the shortcuts."""
    return f"page-{name}"
