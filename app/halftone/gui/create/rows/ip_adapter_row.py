"""The IP-Adapters of the next pictures: a folded row of the Create form."""

from functools import partial

from PySide6.QtWidgets import QBoxLayout, QLayout

from halftone.contract.limits import IP_ADAPTER_RANGE
from halftone.contract.request import IpAdapter
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import ask_picture
from halftone.gui.create.rows.list_row import Listed, ListRow
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, column, icon_button, label, row
from halftone.gui.text import net_words
from halftone.library.add_ons.ipadapters import KIND, check_usable_here
from halftone.library.add_ons.vaes import vae_name


class IpAdapterPart(ListRow[IpAdapter]):
    """The list, each with its pictures and how much they count, and a button to add one."""

    part_name = field = "ip_adapters"

    def __init__(self, binding: Binding) -> None:
        kind = Listed[IpAdapter](
            title=tr("IP-Adapter"),
            tip=tr("Copy a style, subject or face."),
            adding=tr("Add IP-Adapter"),
            kinds=tr("IP-Adapter files"),
            folders=False,
            new=lambda path: IpAdapter(path=path, images=()),
            check=check_usable_here,
            kind="IP-Adapter",
            words=net_words,
            shape=lambda one: (one.path, one.images),  # some take one picture only
            together=True,
        )
        super().__init__(binding, kind)

    def look(self) -> None:
        self._controller.session.files.parts(KIND, self.found)

    def inside(self, index: int, item: IpAdapter, head: QBoxLayout) -> QLayout:
        pictures = [self._picture(index, place, image) for place, image in enumerate(item.images)]
        words = tr("Add another picture…") if item.images else tr("Choose a picture…")
        more = button(words, icon="image", tip=tr("Reference picture"))
        more.clicked.connect(lambda _on=False: ask_picture(self, partial(self.give, index)))
        low, high = (f"{value:g}" for value in IP_ADAPTER_RANGE)
        tip = tr("{0} to {1}.", low, high)
        scale = self.number(index, "scale", f"{item.name}: {tr('Strength')}", tip)
        strength = row(label(tr("Strength"), "small", "secondary"), scale, -1, spacing=6)
        return column(head, *pictures, row(more, -1), strength, spacing=6)

    def _picture(self, index: int, place: int, image: str) -> QLayout:
        name = ElidedLabel(vae_name(image))
        name.setToolTip(image)
        remove = icon_button("x", tr("Remove {0}", vae_name(image)), size=14, clicked=partial(self._leave_out, index, place))
        return row(name, remove, spacing=6, stretch=0)

    def give(self, index: int, picture: str) -> None:
        """One more picture that one of them goes by."""
        self.change(index, images=(*self.items()[index].images, picture))

    def _leave_out(self, index: int, place: int) -> None:
        images = self.items()[index].images
        self.change(index, images=(*images[:place], *images[place + 1 :]))
