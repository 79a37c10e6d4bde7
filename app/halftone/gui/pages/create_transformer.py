"""The transformer or UNet of the next pictures: a folded row of the Create form."""

from pathlib import PurePath

from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.pages.create_replaced import Replaced, ReplacedPart
from halftone.library.denoisers import check_transformer_fit


class TransformerPart(ReplacedPart):
    """What turns noise into the picture, and a button to choose another file of it: a GGUF one, say."""

    def __init__(self, controller: Controller) -> None:
        kind = Replaced(
            field="transformer",
            title=tr("Transformer"),
            tip=tr(
                "What turns noise into a picture: the transformer or UNet. A GGUF or FP8 file of it takes less memory; "
                "everything else stays the model's own."
            ),
            own=tr("Use the model's own transformer"),
            choosing=tr("Choose transformer"),
            kinds=tr("Transformer files"),
            endings="*.gguf *.safetensors *.sft",
            folders=False,
            check=check_transformer_fit,
            choose=controller.choose_transformer,
        )
        super().__init__(controller, kind)

    def known(self) -> dict[str, str]:
        """Files of the model's family that stand in the list of models."""
        model = self._controller.model
        kinds = ("denoiser", "checkpoint")
        files = [one for one in self._controller.models() if one.format == "single-file" and one.kind in kinds]
        fitting = [one for one in files if model is not None and one.family == model.family and one.path != model.path]
        return {PurePath(one.path).name: one.path for one in fitting}
