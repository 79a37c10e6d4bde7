"""The headroom chart: every layer's largest value against the limit of its type. Zooms, pans, reads aloud, selects findings."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QKeyEvent, QMouseEvent, QPainter, QResizeEvent, QWheelEvent

from halftone.contract.facts import Finding, LayerPeak
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import DType
from halftone.gui.charts import headroom_chart_frame, headroom_chart_paint, headroom_chart_text
from halftone.gui.charts.cached_chart import CachedChart
from halftone.gui.charts.headroom_chart_paint import Disc
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.accessible import give_role
from halftone.gui.kit.message_bars import announce
from halftone.gui.kit.painting import dot
from halftone.health.headroom import EMPTY, ChartData, Column, Layer, PartBox, build, build_blocks, lay_out

MAX_ZOOM = 60.0


class HeadroomChart(CachedChart):
    """x: layers in running order; y: log2 of their largest value. compact: the small chart of a recovered picture's banner."""

    finding_selected = Signal(int)
    """Number of the finding (from 1) whose disc or bar was clicked."""

    def __init__(self, *, compact: bool = False) -> None:
        super().__init__()
        self._compact = compact
        self._data: ChartData = EMPTY
        self._given: tuple[Sequence[LayerPeak], DType, tuple[Finding, ...], Plan | None, float, int | None] | None = None
        self._origin: int | None = None
        self._after = False
        self._share = 1.0
        self._zoom = 1.0
        self._pan = 0.0
        self._selected: int | None = None
        self._hover: Column | None = None
        self._layer: int | None = None
        self._drag: tuple[float, float, bool] | None = None
        self._boxes: tuple[PartBox, ...] = ()
        self._discs: list[Disc] = []
        self._frame = headroom_chart_frame.frame_for(EMPTY, 100, 100, compact=compact)
        if compact:
            self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._speak()

    # data

    def set_layers(
        self,
        layers: Sequence[LayerPeak],
        dtype: DType = "float16",
        findings: Sequence[Finding] = (),
        plan: Plan | None = None,
        share: float = 1.0,
        origin: int | None = None,
    ) -> None:
        """Show these layers. share: how much of the check is done; origin: the layer that the compact chart rings, by its place.
        Painted at most every 100 ms.
        """
        content = (layers, dtype, tuple(findings), plan, share, origin)
        if self._given is not None and layers is self._given[0] and content[1:] == self._given[1:]:
            return
        self._given = content
        self._origin = origin
        if self._compact:
            self._data = build_blocks(layers, dtype)
        else:
            self._data = build(layers, dtype, findings, plan)
        self._share = min(1.0, max(0.02, share)) if layers or share < 1.0 else 1.0
        self._hover = self._layer = None
        self.refresh_soon()
        self._speak()

    def set_after(self, after: bool) -> None:
        """Now, or after the cure."""
        if after != self._after:
            self._after = after
            self.refresh()
            self._speak()

    def select_finding(self, number: int | None) -> None:
        if number != self._selected:
            self._selected = number
            self.update()

    @property
    def data(self) -> ChartData:
        return self._data

    @property
    def zoom(self) -> float:
        return self._zoom

    # view

    def sizeHint(self) -> QSize:
        return QSize(318, 128) if self._compact else QSize(900, 300)

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 96) if self._compact else QSize(320, 190)

    def zoom_to_findings(self) -> None:
        """All discs in view, as large as possible; a second call shows everything again."""
        marks = [mark.layer for mark in self._data.marks]
        if self._zoom > 1.0 or not marks:
            self.reset_zoom()
            return
        wanted = [column.x + column.width / 2 for index in marks if (column := self._column_of(index)) is not None]
        if not wanted:
            return
        left, width = self._frame.plot.left(), self._frame.plot.width()
        low, high = (min(wanted) - left) / width, (max(wanted) - left) / width
        span = max(0.12, (high - low) * 1.25)
        self._set_view(1.0 / span, (low + high) / 2 - span / 2)

    def reset_zoom(self) -> None:
        self._set_view(1.0, 0.0)

    def _set_view(self, zoom: float, left: float) -> None:
        """left: share of the whole width that lies left of the view."""
        self._zoom = min(MAX_ZOOM, max(1.0, zoom))
        self._pan = min(max(0.0, left), 1.0 - 1.0 / self._zoom)
        self._hover = None
        self.refresh()

    def _lay_out(self) -> None:
        self._frame = headroom_chart_frame.frame_for(self._data, self.width(), self.height(), compact=self._compact)
        plot = self._frame.plot
        whole = plot.width() * self._zoom
        self._boxes = lay_out(
            self._data,
            plot.left() - self._pan * whole,
            whole * self._share,
            8.0 if self._compact else 5.4,
            4.0 if self._compact else 11.0,
            after=self._after,
        )
        self._discs = headroom_chart_paint.place_discs(self._frame, self._data, self._boxes, after=self._after)

    def paint_base(self, painter: QPainter) -> None:
        """The compact chart rings the layer where the bad number began."""
        self._lay_out()
        share = 1.0 if self._zoom > 1 else self._share
        headroom_chart_paint.paint_base(painter, self._frame, self._data, self._boxes, after=self._after, share=share)
        if self._compact and (at := self.marker()) is not None:
            dot(painter, at, 4, "surface-raised", "text", 1.75)
        elif not self._compact and self._share >= 1.0:
            headroom_chart_paint.paint_cure(painter, self._frame, self._boxes)

    def marker(self) -> QPointF | None:
        """The position of the ring; None while no layer is selected."""
        if (column := self._column_of(self._origin)) is None:
            return None
        layer = next(layer for layer in column.members if layer.index == self._origin)
        y = headroom_chart_frame.bar_top(self._frame, layer, after=False)
        return QPointF(column.x + column.width / 2 - 1, y - 1)

    def paint_over(self, painter: QPainter) -> None:
        if not self._compact and self._share >= 1.0:
            hovered = self._disc_number(self._hover)
            headroom_chart_paint.paint_discs(painter, self._discs, self._selected, hovered)
        if self._hover is not None:
            lines = self._hover_lines(self._hover)
            headroom_chart_paint.paint_hover(painter, self._frame, self._hover, lines, after=self._after)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._hover = None
        super().resizeEvent(event)

    # words

    def _hover_lines(self, column: Column) -> tuple[str, ...]:
        layer = self._focused_layer() or column.top
        peak = figures.peak(layer.peak_after if self._after else layer.peak)
        room = headroom_chart_text.room_text(layer, self._data.dtype, after=self._after)
        own = headroom_chart_text.type_name(layer.dtype_after if self._after else self._data.dtype)
        lines = [headroom_chart_text.layer_title(layer), tr("Peak {0} · headroom {1} in {2}", peak, room, own)]
        if len(column.members) > 1:
            lines.append(tr("Highest of {0} layers", len(column.members)))
        return tuple(lines)

    def _focused_layer(self) -> Layer | None:
        return next((layer for layer in self._data.layers if layer.index == self._layer), None)

    def summary(self) -> str:
        return headroom_chart_text.summary(self._data, after=self._after)

    def _speak(self) -> None:
        self.setAccessibleName(tr("Headroom by layer"))
        layer = self._focused_layer()
        if layer is None:
            self.setAccessibleDescription(self.summary())
        else:
            self.setAccessibleDescription(headroom_chart_text.layer_sentence(layer, self._data.dtype, after=self._after))

    # input

    def _column_at(self, x: float) -> Column | None:
        if not self._frame.plot.left() <= x <= self._frame.plot.right():
            return None
        return next((column for column in self._columns() if column.x <= x < column.x + column.width), None)

    def _columns(self) -> Iterator[Column]:
        return (column for box in self._boxes for column in box.columns)

    def _column_of(self, index: int | None) -> Column | None:
        return next((column for column in self._columns() if any(one.index == index for one in column.members)), None)

    def _disc_at(self, at: QPointF) -> int | None:
        found = (disc.number for disc in self._discs if QRectF(disc.x - 12, disc.y - 12, 24, 24).contains(at))
        return next(found, None)

    def _disc_number(self, column: Column | None) -> int | None:
        if column is None:
            return None
        indexes = {layer.index for layer in column.members}
        return next((mark.number for mark in self._data.marks if mark.layer in indexes), None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position()
        if self._drag is not None and event.buttons() & Qt.MouseButton.LeftButton:
            start, pan, _ = self._drag
            if abs(at.x() - start) > 3 and self._zoom > 1.0:
                self._drag = (start, pan, True)
                self.setCursor(Qt.CursorShape.ClosedHandCursor)
                self._set_view(self._zoom, pan - (at.x() - start) / (self._frame.plot.width() * self._zoom))
            return
        self._layer = None
        number = None if self._compact else self._disc_at(at)
        self.setCursor(Qt.CursorShape.PointingHandCursor if number is not None else Qt.CursorShape.ArrowCursor)
        column = self._column_at(at.x())
        if column != self._hover:
            self._hover = column
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._drag = (event.position().x(), self._pan, False)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        moved = self._drag is not None and self._drag[2]
        self._drag = None
        self.unsetCursor()
        if event.button() != Qt.MouseButton.LeftButton or moved or self._compact:
            return
        self._choose(self._disc_at(event.position()) or self._disc_number(self._column_at(event.position().x())))

    def _choose(self, number: int | None) -> None:
        if number is not None:
            self.select_finding(number)
            self.finding_selected.emit(number)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover = None
        self.update()
        super().leaveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zooms around the pointer; a sideways wheel or Shift pans. At full view a wheel down scrolls the page as usual."""
        turn = event.angleDelta()
        plot = self._frame.plot
        if self._compact or not turn or (turn.y() < 0 and self._zoom <= 1.0):
            event.ignore()
            return
        if abs(turn.x()) > abs(turn.y()):
            self._set_view(self._zoom, self._pan - turn.x() / 1200 / self._zoom)
        else:
            share = (event.position().x() - plot.left()) / plot.width()
            under = self._pan + share / self._zoom
            zoom = min(MAX_ZOOM, max(1.0, self._zoom * 1.2 ** (turn.y() / 120)))
            self._set_view(zoom, under - share / zoom)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -20, Qt.Key.Key_PageDown: 20}
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: len(self._data.layers) - 1}
        key = Qt.Key(event.key())
        if key in moves:
            self._go_to((self._layer if self._layer is not None else -1 if moves[key] > 0 else 1) + moves[key])
        elif key in ends:
            self._go_to(ends[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._choose(next((mark.number for mark in self._data.marks if mark.layer == self._layer), None))
        elif key == Qt.Key.Key_Escape and (self._layer is not None or self._zoom > 1.0):
            self._layer = None
            self.reset_zoom()
            self._speak()
        else:
            super().keyPressEvent(event)

    def _go_to(self, position: int) -> None:
        layers = self._data.layers
        if not layers:
            return
        self._layer = layers[min(max(0, position), len(layers) - 1)].index
        self._show_layer()
        self._speak()
        announce(self, self.accessibleDescription())

    def _show_layer(self) -> None:
        """Puts the hover card on the focused layer, panning if it lies outside the view."""
        if self._cache is None:
            self._lay_out()
        plot, column = self._frame.plot, self._column_of(self._layer)
        if column is not None and not plot.left() - 1 <= column.x <= plot.right():
            share = (column.x - plot.left()) / (plot.width() * self._zoom) + self._pan
            self._set_view(self._zoom, share - 0.5 / self._zoom)
            self._lay_out()
            column = self._column_of(self._layer)
        self._hover = column
        self.update()

    def focusOutEvent(self, event: QEvent) -> None:
        self._layer = self._hover = None
        self.update()
        super().focusOutEvent(event)  # pyright: ignore[reportArgumentType]


give_role(HeadroomChart, QAccessible.Role.Chart)
