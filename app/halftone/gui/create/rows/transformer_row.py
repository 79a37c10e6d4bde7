"""The transformer or UNet of the next pictures: a folded row of the Create form."""

from halftone.gui.controller import Controller
from halftone.gui.create.rows.replaced_part_row import Replaced, ReplacedPart
from halftone.gui.i18n import tr
from halftone.library.add_ons.denoisers import check_transformer_fit
from halftone.library.add_ons.vaes import vae_name


class TransformerPart(ReplacedPart):
    """What turns noise into the picture, and a button to choose another file of it: a GGUF one, say."""

    def __init__(self, controller: Controller) -> None:
        kind = Replaced(
            field="transformer",
            title=tr("Transformer"),
            tip=tr("Another transformer or UNet, such as a smaller GGUF or FP8 file."),
            own=tr("Use model default"),
            choosing=tr("Choose transformer"),
            kinds=tr("Transformer files"),
            endings="*.gguf *.safetensors *.sft",
            folders=False,
            check=check_transformer_fit,
            choose=controller.choose_transformer,
        )
        super().__init__(controller, kind)
        self._known: dict[str, str] = {}
        self.row.toggled.connect(self._look)
        controller.model_list.hosted.connect(self._hosted)
        controller.model_selected.connect(lambda: self._look(self.row.isChecked()))

    def known(self) -> dict[str, str]:
        """Files of the model's family in the folders of the settings."""
        return self._known

    def _look(self, opened: bool) -> None:
        model = self._controller.model
        if opened and model is not None:
            self._controller.look_for_transformers(model, self._found)

    def _found(self, known: dict[str, str]) -> None:
        self._known = known

    def _hosted(self, path: str) -> None:
        """It was chosen as the model; the one in use now has the parts that it lacks."""
        self.set_file(path)
        self.row.setChecked(True)
        model = self._controller.model
        if model is not None:
            self.say(tr("{0} runs with the other parts of {1}.", vae_name(path), model.name))
