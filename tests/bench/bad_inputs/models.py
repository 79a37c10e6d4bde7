"""Tiny sound models that the cases spoil, and what is done with each: described, checked, and two steps of a picture."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.bench.bad_inputs.case import Case, Use
from tests.bench.families.run import save
from tests.bench.families.table import CASES
from tests.bench.families.table import Case as Family
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.messages import Examine, Generate
from halftone.contract.request import CheckInputs, Extras, Numerics, PictureRequest
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe

FAMILIES: Final = (
    "SD 1.x", "SDXL", "SD 3", "FLUX.1 dev", "Sana", "PixArt-α", "Lumina 2", "AuraFlow", "CogView4", "Chroma", "Z-Image",
    "Kandinsky 2.2", "Stable Cascade", "Kolors", "Wan", "LTX-Video",
)  # fmt: skip
"""Families whose tiny models take well under a second for all."""
MODEL: Final = "model"
"""The folder of the model in that of the case."""
_KNOWN: Final[Mapping[str, Family]] = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Base:
    """A sound model of a family. folder: not to be changed."""

    family: Family
    folder: Path

    def copied(self, spoil: Callable[[Path], object], name: str = MODEL) -> Callable[[Path], object]:
        """Make a function that writes a copy into a case's folder and spoils it."""

        def make(folder: Path) -> None:
            target = folder / name
            shutil.copytree(self.folder, target)
            spoil(target)

        return make

    def case(self, kind: str, name: str, spoil: Callable[[Path], object], **more: Any) -> Case:
        """A spoilt copy that goes through all of `uses`; what has to be refused may still be described."""
        ways = uses(self.family)[1 if more.get("wanted") == "refused" else 0 :]
        return Case(kind, f"{self.family.name}: {name}", self.copied(spoil), ways, **more)


@cache
def place() -> Path:
    """Return where sound models lie as long as this process lives."""
    made = Path(tempfile.mkdtemp(prefix="halftone-bases-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def base(name: str) -> Base:
    """The sound model of a family, made once."""
    family = _KNOWN[name]
    folder = place() / str(list(_KNOWN).index(name)) / (family.folder or "model")
    return Base(family, save(family, folder))


def uses(family: Family, *, path: str = MODEL, extras: Extras | None = None) -> tuple[Use, ...]:
    """path: of the model in the case's folder."""
    given: dict[str, Any] = {} if extras is None else {name: getattr(extras, name) for name in Extras.__struct_fields__}
    return (
        lambda folder: describe(str(folder / path)),
        lambda folder: check(folder / path, family, **given),
        lambda folder: generate(folder / path, family, **given),
    )


def generate(model: Path, family: Family, **more: Any) -> None:
    """Two steps in the family's small size."""
    fields: dict[str, Any] = {"width": family.size, "height": family.size, "steps": 2, "num_frames": family.frames, **more}
    numerics = Numerics(precision="float32")
    request = PictureRequest(prompt="a red sun", model=str(model), numerics=numerics, options=family.options, **fields)
    DiffusersEngine().generate(Generate(job="g", request=request), Recorder(), Steady())


def check(model: Path, family: Family, **more: Any) -> None:
    """The quick check."""
    more = {name: value for name, value in more.items() if name in CheckInputs.__struct_fields__}
    given = CheckInputs(width=family.size, height=family.size, num_frames=family.frames, options=family.options, **more)
    command = Examine(job="c", model=str(model), depth="quick", numerics=Numerics(precision="float16"), inputs=given)
    DiffusersEngine().examine(command, Recorder(), Steady())
