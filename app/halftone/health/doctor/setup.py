"""A run's settings in the judge's terms, as far as its files tell."""

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from halftone.health.doctor.found import Where
from halftone.health.pictures.schedules import is_falling
from halftone.library.run_logs.series import Setting
from halftone.library.run_logs.settings import BRAIN, HALF, WIDE

_YES: Final = frozenset(("true", "1", "yes", "on"))
_EPSILON: Final = re.compile(r"\beps(?:ilon)?\s*=\s*([\d.eE+-]{1,20})")
_ADAPTIVE: Final = re.compile(r"prodigy|dadapt|adafactor|schedule-?free", re.IGNORECASE)
_XL: Final = re.compile(r"sdxl|sd_xl|stable-diffusion-xl|[-_]xl[-_.]", re.IGNORECASE)


class Setup(NamedTuple):
    """precision: "half", "bfloat16", "float32" or "" for unknown; half_weights: the parameters themselves in float16; rate,
    epsilon, clip, warm_up: None: unknown. `places`: of the settings.
    """

    precision: str = ""
    half_weights: bool = False
    rate: float | None = None
    optimizer: str = ""
    epsilon: float | None = None
    clip: float | None = None
    warm_up: float | None = None
    schedule: str = ""
    xl: bool = False
    other_vae: bool = False
    places: "dict[str, tuple[Where, str]]" = {}  # noqa: RUF012 - never written to

    @property
    def adaptive(self) -> bool:
        """Whether the optimizer finds its own rate, so that the configured one is a factor."""
        return bool(_ADAPTIVE.search(self.optimizer))

    @property
    def falling(self) -> bool:
        """Whether the learning rate falls on the way already."""
        return is_falling(self.schedule)

    def place(self, name: str) -> tuple[Where | None, str]:
        """(where it was told, as it stands there)."""
        return self.places.get(name, (None, ""))


def setup_of(settings: Iterable[Setting]) -> Setup:
    """The first that tells counts."""
    told: dict[str, Setting] = {}
    for one in settings:
        if _tells(one):
            told.setdefault(one.name, one)
    places = {name: (Where(one.file, one.line), one.value) for name, one in told.items()}
    values = {name: one.value for name, one in told.items()}
    precision, name = _precision(values)
    if name:
        places["precision"] = places[name]
    narrow = _narrow_weights(values)
    half_weights = narrow is not None and values.get("masters") not in _MASTERS
    if half_weights and narrow in places:
        places["half-weights"] = places[narrow]
    computes = narrow or ("masters" if values.get("masters") == _AUTOCAST else None)
    if computes is not None and precision in {"", "float32"}:
        precision = "half"
        places["precision"] = places[computes]
    return Setup(
        precision=precision,
        half_weights=half_weights,
        rate=_number(values.get("rate")),
        optimizer=values.get("optimizer", ""),
        epsilon=_epsilon(values),
        clip=_number(values.get("clip")),
        warm_up=_number(values.get("warm-up")),
        schedule=values.get("schedule", ""),
        xl=bool(_XL.search(values.get("model", ""))),
        other_vae=values.get("vae-float32", "").lower() in _YES or "vae" in values,
        places=places,
    )


_AUTOCAST: Final = "amp"
_MASTERS: Final = frozenset((_AUTOCAST, "inflat_all"))
"""Modes of TRELLIS' and guided-diffusion's trainers that keep a float32 copy of the weights."""
_PURE: Final = ("half-weights", "weights")


def _narrow_weights(values: dict[str, str]) -> str | None:
    """The setting that puts the parameters themselves in float16; None for none."""
    if values.get("precision", "").lower() in {"16-true", "pure_fp16"}:
        return "precision"
    return next((name for name in _PURE if values.get(name, "").lower() in {*_YES, "fp16", "float16"}), None)


def _tells(setting: Setting) -> bool:
    """Whether it says anything: a switch that is off does not."""
    value = setting.value.lower()
    if setting.name == "precision":
        return any(pattern.match(value) for pattern in (HALF, BRAIN, WIDE))
    return value not in {"false", "", "none"}


def _precision(values: dict[str, str]) -> tuple[str, str]:
    """(what the run computes in, the setting that says so)."""
    said = values.get("precision", "").lower()
    for pattern, meant in ((HALF, "half"), (BRAIN, "bfloat16"), (WIDE, "float32")):
        if pattern.match(said):
            if meant == "float32" and (switch := _switch(values)):
                return switch
            return meant, "precision"
    return _switch(values) or ("", "")


def _switch(values: dict[str, str]) -> tuple[str, str] | None:
    for name, meant in (("fp16", "half"), ("bf16", "bfloat16")):
        if values.get(name, "").lower() in _YES:
            return meant, name
    return None


def _epsilon(values: dict[str, str]) -> float | None:
    for text in (values.get("optimizer-arguments", ""), values.get("optimizer", "")):
        if found := _EPSILON.search(text):
            return _number(found.group(1))
    return _number(values.get("epsilon"))


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
