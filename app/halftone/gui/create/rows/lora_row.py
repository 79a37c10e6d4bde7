"""The LoRAs of the next pictures: a folded row of the Create form."""

from PySide6.QtWidgets import QBoxLayout, QLayout

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import LORA_RANGE
from halftone.contract.request import Lora
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.list_row import Listed, ListRow
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, label, row
from halftone.gui.text import net_words
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.loras import check_loras, has_tags, own_names, take_tags


class LoraPart(ListRow[Lora]):
    """The list with a weight for each, and a button to add one."""

    part_name = field = "loras"

    def __init__(self, binding: Binding) -> None:
        kind = Listed[Lora](
            title=tr("LoRA"),
            tip="",
            adding=tr("Add LoRA"),
            kinds=tr("LoRA files"),
            folders=False,
            new=lambda path: Lora(path=path),
            check=_check_all,
            kind="LoRA",
            words=net_words,
            shape=lambda lora: (lora.path, lora.encoder_weight is None),
            twice=False,
        )
        super().__init__(binding, kind)
        self._controller.loras_changed.connect(self._found_known)
        self._found_known()

    def look(self) -> None:
        self._controller.session.loras.look()

    def _found_known(self) -> None:
        self.found(own_names(self._controller.state.loras.paths))

    def inside(self, index: int, item: Lora, head: QBoxLayout) -> QLayout:
        low, high = (f"{value:g}" for value in LORA_RANGE)
        tip = tr("{0} to {1}.", low, high)
        head.insertWidget(1, self.number(index, "weight", tr("Weight of {0}", item.name), tip))
        if item.encoder_weight is None:
            return head
        encoder = self.number(index, "encoder_weight", tr("Weight of {0} in the text encoder", item.name), tip)
        return column(head, row(label(tr("In the text encoder"), "small", "secondary"), -1, encoder, spacing=8), spacing=6)

    def take_tags(self, prompt: str, *, draws: bool) -> str | None:
        """Move the LoRAs that a prompt names, as A1111 writes them, into the list; the prompt without them. draws: those stay
        that only some pictures have, as what names them is drawn.

        None, with a word below the list, if one of them is not known.
        """
        if not has_tags(prompt):
            return prompt
        try:
            loras = self._controller.state.loras
            rest, named = take_tags(prompt, loras.paths, loras.folders, draws=draws)
            _check_all(named, self._controller.model)
        except HalftoneError as error:
            self.refused(error)
            return None
        if named:
            self.set_items((*self.items(), *named))
        return rest


def _check_all(loras: tuple[Lora, ...], model: ModelFacts | None) -> None:
    check_loras(loras)
    if model is not None:
        check_lora_fit(loras, model)
