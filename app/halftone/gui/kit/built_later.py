"""Widgets that make what stands in them when they are first shown: most of a page is hidden most of the time."""

from abc import abstractmethod

from PySide6.QtWidgets import QWidget


class BuiltLater(QWidget):
    @property
    def built(self) -> bool:
        return self.layout() is not None

    @abstractmethod
    def build(self) -> None:
        """Make what stands in it, and lay it out."""

    def make(self) -> None:
        """Build it, unless it is there."""
        if not self.built:
            self.build()

    def setVisible(self, visible: bool) -> None:
        if visible:
            self.make()
        super().setVisible(visible)
