"""What a diffusers folder is: its pipeline, its base, and every part that it lacks."""

import re
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.library.families import Family, Prediction, of_pipeline
from halftone.library.folder import INDEX, Part, component_names, read_json, read_part, stored_dtype
from halftone.library.header import TensorInfo
from halftone.library.kinds.layouts import DIFFUSERS, Base
from halftone.library.kinds.marks import view_of
from halftone.library.recognise import LAYOUTS, Recognised, base_of

_DENOISERS: Final = ("unet", "transformer", "prior")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAID: Final[dict[str, Prediction]] = {
    "epsilon": "epsilon",
    "v_prediction": "v_prediction",
    "flow_prediction": "flow",
}


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A diffusers folder as it lies on disk. missing: parts that the index names and that are not there, or not whole."""

    name: str
    index: dict[str, object]
    parts: dict[str, Part]
    missing: tuple[str, ...] = ()
    scheduler: dict[str, object] = {}


def read_folder(root: Path) -> Folder:
    """Raises what a header raises; a part that is missing is only noted."""
    index = read_json(root / INDEX)
    parts: dict[str, Part] = {}
    missing: list[str] = []
    for name in component_names(index):
        try:
            parts[name] = read_part(root, name)
        except HalftoneError as error:
            if error.code != "model-incomplete":
                raise
            missing.append(str(error.facts["missing"]))
    file = root / "scheduler" / "scheduler_config.json"
    scheduler = read_json(file) if file.is_file() else {}
    return Folder(name=_name(root), index=index, parts=parts, missing=tuple(missing), scheduler=scheduler)


def recognise_folder(folder: Folder) -> Recognised:
    """The base and the prediction of a folder of which the pipeline tells the family."""
    pipeline = str(folder.index.get("_class_name", ""))
    denoiser = next((part for name in _DENOISERS if (part := folder.parts.get(name))), None)
    family = of_pipeline(pipeline, denoiser.config.get("cross_attention_dim") if denoiser else None)
    tensors = [tensor for part in folder.parts.values() for _, header in part.files for tensor in header.tensors]
    base, sure = _base(folder, family, denoiser, pipeline)
    return Recognised(
        kind="checkpoint",
        family=family.name,
        base=base.name,
        sure=sure,
        naming=DIFFUSERS,
        dtype=stored_dtype(tensors),
        prediction=_prediction(folder.scheduler) or (family.prediction if base.prediction is None else base.prediction),
        takes=base.takes,
        holds=tuple(folder.parts),
        lacks=folder.missing,
        size=base.size or family.size,
        steps=base.steps or family.steps,
        guidance=family.guidance if base.guidance is None else base.guidance,
    )


def _base(folder: Folder, family: Family, denoiser: Part | None, pipeline: str) -> tuple[Base, bool]:
    tensors: list[TensorInfo] = [tensor for _, header in denoiser.files for tensor in header.tensors] if denoiser else []
    view = view_of(tensors)
    title = _CAMEL.sub(" ", f"{pipeline} {folder.scheduler.get('_class_name', '')}")
    for layout in LAYOUTS:
        same = layout.family == family.name and layout.naming == DIFFUSERS
        if same and view.all(layout.marks) and not view.any(layout.without):
            return base_of(view, layout, {"modelspec.title": title}, folder.name)
    return Base(name=family.name), True


def _prediction(scheduler: dict[str, object]) -> Prediction:
    name = str(scheduler.get("_class_name", ""))
    if name.startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        return "flow"
    return "edm" if name.startswith("EDM") else _SAID.get(str(scheduler.get("prediction_type", "")), "")


def _name(root: Path) -> str:
    """The folder's name; in a hub cache, the repository's, as the folder's is only a number."""
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        return root.parent.parent.name.removeprefix("models--").replace("--", " ")
    return root.name
