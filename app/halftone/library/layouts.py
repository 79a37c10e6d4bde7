"""What a diffusers folder becomes as one file, from its headers and configurations alone."""

from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import Layout
from halftone.contract.wording import Words
from halftone.library.families.original_layout import Made, one_file
from halftone.library.families.single_files import configs
from halftone.library.files.copies import layout_of
from halftone.library.files.folder import read_json
from halftone.library.files.header import Header, TensorInfo, read_header
from halftone.library.models import weight_files

_SILENT: Final = (
    "norm_num_groups",
    "attention_head_dim",
    "num_attention_heads",
    "hidden_act",
    "act_fn",
    "scaling_factor",
    "shift_factor",
)
"""Fields of configurations that no tensor shows: other programs take those of the family."""


class FilePlan(NamedTuple):
    """made: tensors of the file, in order; held: component -> parameter -> (file of the folder, place in it)."""

    made: tuple[Made, ...]
    held: dict[str, dict[str, tuple[Path, TensorInfo]]]


def check_layout(facts: ModelFacts, layout: Layout) -> None:
    """Refuse a layout that cannot hold the model. Raises as `plan_file`."""
    if layout == "file" != layout_of(facts):
        plan_file(facts)


def plan_file(facts: ModelFacts) -> FilePlan:
    """Raises HalftoneError no-one-file where other programs would read another model in the file; what headers raise."""
    held: dict[str, dict[str, tuple[Path, TensorInfo]]] = {}
    for component, file in weight_files(facts):
        held.setdefault(component, {}).update({info.name: (file, info) for info in read_header(file).tensors})
    shapes = {name: {own: info.shape for own, (_, info) in parts.items()} for name, parts in held.items()}
    made = one_file(facts.family, shapes)
    infos = tuple(TensorInfo(one.name, "F32", one.shape, 0, 0) for one in made)
    try:
        told = configs(facts.family, Header(infos, {}), facts.path)
    except HalftoneError as error:
        detail = Words("its sizes are those of no model of this family")
        raise HalftoneError("no-one-file", str(error), family=facts.family, detail=detail) from error
    for name in held:
        own = read_json(Path(facts.path) / name / "config.json")
        wrong = [key for key in _SILENT if key in own and key in told[name] and not _same(own[key], told[name][key])]
        if wrong:
            detail = Words("{0} of its {1} is {2}, and such a file does not say that", (wrong[0], name, str(own[wrong[0]])))
            raise HalftoneError("no-one-file", family=facts.family, detail=detail)
    return FilePlan(made, held)


def _same(one: object, other: object) -> bool:
    """A number stands for a list of it."""
    first, second = (set(value) if isinstance(value, list | tuple) else {value} for value in (one, other))
    return first == second
