"""The VAE of the next pictures: a folded row of the Create form."""

from halftone.gui.controller import Controller
from halftone.gui.create.rows.replaced_part_row import Replaced, ReplacedPart
from halftone.gui.i18n import tr
from halftone.library.add_ons.vaes import check_fit


class VaePart(ReplacedPart):
    """What decodes the picture, and a button to choose another."""

    def __init__(self, controller: Controller) -> None:
        kind = Replaced(
            field="vae",
            title=tr("VAE"),
            tip=tr("Another VAE can change colours, or avoid overflow in FP16."),
            own=tr("Use model default"),
            choosing=tr("Choose VAE"),
            kinds=tr("VAE files"),
            endings="*.safetensors",
            folders=True,
            check=check_fit,
            choose=controller.choose_vae,
        )
        super().__init__(controller, kind)
        self._known: dict[str, str] = {}
        self.row.toggled.connect(lambda on: controller.look_for_parts("VAE", self._found) if on else None)

    def vae(self) -> str | None:
        return self.file()

    def set_vae(self, vae: str | None) -> None:
        """Take this one; None: the model's own."""
        self.set_file(vae)

    def known(self) -> dict[str, str]:
        return self._known

    def _found(self, known: dict[str, str]) -> None:
        self._known = known
