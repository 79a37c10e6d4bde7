"""Known troubles: what others met on a combination of model, device, precision, settings and library versions.

Facts from public threads and code, with their sources. They are shown beside a check, never as a finding, and decide nothing.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, cast, get_args

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from halftone.contract.facts import DeviceFacts, ModelFacts
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.library.families.known_families import FAMILIES
from halftone.settings.places import resources

Sure = Literal["seen", "reported", "unverified"]
Backend = Literal["cuda", "rocm", "xpu", "mps", "cpu"]
Library = Literal["torch", "diffusers", "transformers"]

SURE_WORDS: Final[dict[Sure, str]] = {
    "seen": "cause found",
    "reported": "reported by several",
    "unverified": "one report, cause unknown",
}
_NAMES: Final = frozenset(family.name for family in FAMILIES)


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One known trouble. what, helps: a sentence each; helps is "" without a known cure. sources: project and number.

    The rest are conditions, all of which must hold; an empty one always does. families: as in `known_families`; pipelines:
    prefixes of diffusers' class names, either of the two is enough. components: names without their number. cards: regular
    expression on the device's name. capability, versions: PEP 440 ranges. settings: field of Numerics -> values.
    """

    id: str
    what: str
    sources: tuple[str, ...]
    sure: Sure
    helps: str = ""
    families: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    backends: tuple[Backend, ...] = ()
    cards: str = ""
    capability: str = ""
    dtypes: tuple[DType, ...] = ()
    settings: dict[str, tuple[str | bool, ...]] = msgspec.field(default_factory=dict[str, tuple[str | bool, ...]])
    versions: dict[Library, str] = msgspec.field(default_factory=dict[Library, str])

    def __post_init__(self) -> None:
        """Raise ValueError (a ValidationError while decoding) for a condition that could never be met or says nothing."""
        if unknown := set(self.families) - _NAMES:
            raise ValueError(f"{self.id}: no such family: {', '.join(sorted(unknown))}")
        if not (self.what.endswith(".") and self.sources and self.conditions):
            raise ValueError(f"{self.id}: a sentence, a source and a condition are needed")
        try:
            re.compile(self.cards)
            for given in (self.capability, *self.versions.values()):
                SpecifierSet(given)
            for name, values in self.settings.items():
                for value in values:
                    msgspec.convert({name: value}, Numerics)
        except (re.error, InvalidSpecifier, msgspec.ValidationError) as error:
            raise ValueError(f"{self.id}: {error}") from error

    @property
    def of_model(self) -> bool:
        """Whether it speaks of certain models."""
        return bool(self.families or self.pipelines or self.components)

    @property
    def of_device(self) -> bool:
        """Whether it speaks of certain devices."""
        return bool(self.backends or self.cards or self.capability)

    @property
    def conditions(self) -> int:
        """How many conditions it has: the more, the more exactly it fits what it matches."""
        given = (self.components, self.backends, self.cards, self.capability, self.dtypes, self.settings, self.versions)
        return sum(bool(condition) for condition in (self.families or self.pipelines, *given))


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run, and where. versions: of the libraries that are installed, by their names."""

    model: ModelFacts
    device: DeviceFacts
    dtype: DType
    numerics: Numerics
    versions: Mapping[str, str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trouble: tuple[Trouble, ...]


def read_troubles(content: bytes) -> tuple[Trouble, ...]:
    """The entries of a troubles.toml. Raises msgspec.ValidationError for anything that is not as it should be."""
    found = msgspec.toml.decode(content, type=_File).trouble
    if len({trouble.id for trouble in found}) < len(found):
        raise msgspec.ValidationError("an id stands there twice")
    return found


@cache
def all_troubles() -> tuple[Trouble, ...]:
    """The troubles that come with the program."""
    return read_troubles((resources() / "troubles.toml").read_bytes())


@cache
def library_versions() -> Mapping[str, str]:
    """Versions of the libraries that compute, as they are installed; what is missing is left out. Imports none of them."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import, and wanted only where something is shown

    found: dict[str, str] = {}
    for name in (*get_args(Library), "accelerate", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def known_on(
    model: ModelFacts, device: DeviceFacts, dtype: DType, numerics: Numerics, troubles: Iterable[Trouble] | None = None
) -> tuple[Trouble, ...]:
    """Troubles of this combination, most specific first. troubles: those of the program if left out."""
    situation = Situation(model=model, device=device, dtype=dtype, numerics=numerics, versions=_versions(device))
    return matching(all_troubles() if troubles is None else troubles, situation)


def known_on_device(device: DeviceFacts) -> tuple[Trouble, ...]:
    """Troubles of this device whatever runs on it with the usual settings, most specific first."""
    known, usual = _versions(device), Numerics()
    own = [one for one in all_troubles() if one.of_device and not one.of_model and _has_settings(one, usual)]
    return _sorted(one for one in own if _on_device(one, device) and _has_versions(one, known))


def matching(troubles: Iterable[Trouble], situation: Situation) -> tuple[Trouble, ...]:
    """Those of which every condition holds, most specific first, then the surest."""
    return _sorted(one for one in troubles if _matches(one, situation))


def _sorted(troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    order = get_args(Sure)
    return tuple(sorted(troubles, key=lambda one: (-one.conditions, order.index(one.sure))))


def _matches(trouble: Trouble, situation: Situation) -> bool:
    return (
        _of_model(trouble, situation.model)
        and _on_device(trouble, situation.device)
        and (not trouble.dtypes or _dtype_of(trouble, situation) in trouble.dtypes)
        and _has_settings(trouble, situation.numerics)
        and _has_versions(trouble, situation.versions)
    )


def _of_model(trouble: Trouble, model: ModelFacts) -> bool:
    if trouble.families or trouble.pipelines:
        starts = trouble.pipelines or ("\0",)
        if model.family not in trouble.families and not (model.pipeline or model.family).startswith(starts):
            return False
    stems = {name.rstrip("_0123456789") for name in model.components}
    return not trouble.components or not stems.isdisjoint(trouble.components)


def _on_device(trouble: Trouble, device: DeviceFacts) -> bool:
    if trouble.backends and device.backend not in trouble.backends:
        return False
    if trouble.cards and not re.search(trouble.cards, device.name, re.IGNORECASE):
        return False
    return not trouble.capability or _within(device.capability, trouble.capability)


def _dtype_of(trouble: Trouble, situation: Situation) -> DType:
    """The type in which its component runs: a VAE may be set to FP32."""
    only_vae = trouble.components == ("vae",)
    return "float32" if only_vae and situation.numerics.vae_float32 == "always" else situation.dtype


def _has_settings(trouble: Trouble, numerics: Numerics) -> bool:
    return all(getattr(numerics, name) in values for name, values in trouble.settings.items())


def _versions(device: DeviceFacts) -> Mapping[str, str]:
    """Those that are installed; of PyTorch the one that the device was read with."""
    own = {"torch": device.torch_version} if device.torch_version else {}
    return {**library_versions(), **own}


def _has_versions(trouble: Trouble, versions: Mapping[str, str]) -> bool:
    return all(_within(versions.get(name), given) for name, given in trouble.versions.items())


def _within(value: str | None, given: str) -> bool:
    """Whether a version lies in a range; what is not known or is no version does not."""
    try:
        return value is not None and SpecifierSet(given).contains(Version(value), prereleases=True)
    except InvalidVersion:
        return False


def helps_words(trouble: Trouble) -> Words:
    """What can be done about it."""
    return Words("What helped: {0}", (Words(trouble.helps),)) if trouble.helps else Words("No known fix.")


def origin_words(trouble: Trouble) -> Words:
    """Where it is from, and how sure that is."""
    return Words("{0} · {1}", (", ".join(trouble.sources), Words(SURE_WORDS[trouble.sure])))


def trouble_object(trouble: Trouble) -> dict[str, object]:
    """Return the trouble as plain data for JSON."""
    names = ("id", "what", "helps", "sources", "sure")
    return {name: cast("object", getattr(trouble, name)) for name in names}
