"""The pages of the window, each declared once: a new page is a row here and a folder of its own."""

from importlib import import_module
from typing import Final, Literal, NamedTuple, cast

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from halftone.contract.wording import Words

PageName = Literal["create", "health", "train", "device", "settings"]


class Tab(NamedTuple):
    """What stands in the top bar."""

    name: Words
    icon: str
    tip: Words


class Page(NamedTuple):
    """key: its shortcut. made_by: module and class; the class takes the controller. chapter: of the guide. tab: None for a page
    that something else in the top bar opens.
    """

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
        "Ctrl+1",
        ("halftone.gui.create.create_page", "CreatePage"),
        "first-picture",
        Tab(Words("Create"), "image", Words("Generate pictures (Ctrl+1)")),
    ),
    "health": Page(
        "Ctrl+2",
        ("halftone.gui.health.health_page", "HealthPage"),
        "health",
        Tab(Words("Health"), "activity", Words("Check and cure models (Ctrl+2)")),
    ),
    "train": Page(
        "Ctrl+5",
        ("halftone.gui.train.train_page", "TrainPage"),
        "training",
        Tab(Words("Train"), "chart-line", Words("Train a LoRA (Ctrl+5)")),
    ),
    "device": Page("Ctrl+3", ("halftone.gui.device.device_page", "DevicePage"), "numerics"),
    "settings": Page("Ctrl+,", ("halftone.gui.settings.settings_page", "SettingsPage"), "numerics"),
}
"""The pages, in the order of the tabs."""
