"""What a diffusers folder is: its family by its pipeline, its base by the denoiser's shapes and by its words."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from halftone.library.families.family import Family, Prediction
from halftone.library.families.known_families import of_pipeline
from halftone.library.families.recognise import LAYOUTS, Recognised, base_of
from halftone.library.files.folder import Part, stored_dtype
from halftone.library.kinds.layouts import DIFFUSERS, Base
from halftone.library.kinds.marks import view_of

_DENOISERS: Final = ("unet", "transformer", "prior")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAID: Final[dict[str, Prediction]] = {"epsilon": "epsilon", "v_prediction": "v_prediction", "flow_prediction": "flow"}


def of_folder(root: Path, pipeline: str, parts: Mapping[str, Part], scheduler: Mapping[str, object]) -> tuple[Family, Recognised]:
    """What runs as `pipeline` with these parts. scheduler: the configuration of its own."""
    denoiser = next((part for name in _DENOISERS if (part := parts.get(name))), None)
    family = of_pipeline(pipeline, denoiser.config.get("cross_attention_dim") if denoiser else None)
    base, sure = _base(f"{pipeline} {scheduler.get('_class_name', '')}", family, denoiser, _name(root))
    return family, Recognised(
        kind="checkpoint",
        family=family.name,
        base=base.name,
        sure=sure,
        naming=DIFFUSERS,
        dtype=stored_dtype([tensor for part in parts.values() for _, header in part.files for tensor in header.tensors]),
        prediction=_prediction(scheduler) or (family.prediction if base.prediction is None else base.prediction),
        takes=base.takes,
        holds=tuple(parts),
        size=base.size,
        steps=base.steps,
        guidance=base.guidance,
    )


def _base(classes: str, family: Family, denoiser: Part | None, name: str) -> tuple[Base, bool]:
    """classes: of the pipeline and the scheduler, whose words count as the model's own."""
    view = view_of(tensor for _, header in (denoiser.files if denoiser else ()) for tensor in header.tensors)
    for layout in LAYOUTS:
        same = layout.family == family.name and layout.naming == DIFFUSERS
        if same and view.all(layout.marks) and not view.any(layout.without):
            return base_of(view, layout, {"modelspec.title": _CAMEL.sub(" ", classes)}, name)
    return Base(name=family.name), True


def _prediction(scheduler: Mapping[str, object]) -> Prediction:
    name = str(scheduler.get("_class_name", ""))
    if name.startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        return "flow"
    return "edm" if name.startswith("EDM") else _SAID.get(str(scheduler.get("prediction_type", "")), "")


def _name(root: Path) -> str:
    """The folder's name; in a hub cache the repository's, as the folder's own is only a number."""
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        return root.parent.parent.name.removeprefix("models--").replace("--", " ")
    return root.name
