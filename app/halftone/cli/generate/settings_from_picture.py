"""`generate --from PICTURE`: what a picture says of itself, under what is given beside it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from halftone.cli.options.flags import absolute
from halftone.cli.options.requests import known_model, with_host
from halftone.cli.terminal.command_lines import control_word, quoted
from halftone.contract.errors import ErrorFacts, HalftoneError, sentence
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS, PARAMETERS, idle_options
from halftone.contract.request import PictureRequest, Start
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.health.pictures.imported_settings import Known, import_settings, is_ours, known_here, made_in, other_file
from halftone.library.add_ons.extras import parts_among
from halftone.library.add_ons.inversions import encoder_widths, inversion_folders, list_inversions, matched
from halftone.library.add_ons.loras import lora_folders
from halftone.library.add_ons.unread_inversions import missing_named
from halftone.library.index.known import listed_models
from halftone.library.options import over
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.metadata.control_units import control_of, kind_of, unit_in
from halftone.metadata.parameters import BY_STEPS, SOLVER, STOPPED, model_name
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters
from halftone.settings.store import Settings

_SAID: Final[dict[str, tuple[str, ...]]] = {
    **{one.name if one.is_option else one.field: one.keys for one in PARAMETERS},
    "model": ("Model",),
    "sampler": ("Sampler", "Schedule type", SOLVER),
    "hires": ("Hires upscale", "Hires resize", "Hires steps", "Hires upscaler", "Hires denoising strength"),
    "refiner": ("Refiner", "Refiner switch at", BY_STEPS),
    "seed_size": ("Seed resize from",),
    "inversions": ("Embeddings", "TI hashes"),
}
"""Fields -> what a picture calls them; a field on the command line is neither imported nor noted."""
_SEVERAL: Final = {"controls": "ControlNet ", "ip_adapters": "IP-Adapter "}
"""Fields -> how a picture begins the names of each of several."""
_GIVE_AGAIN: Final = {
    "Model": "was made with the model {0}, which is not in your folders. Set it with --model",
    "Mask": "was made with the mask {0}. Set it with --mask",
    "ControlNet": "was made with a ControlNet ({0}). Set it and its picture with --control",
    "IP-Adapter": "was made with an IP-Adapter ({0}). Set it and its pictures with --ip-adapter",
    "Transformer": "was made with the transformer {0}. Set it with --transformer",
    "Embedding": "was made with the embedding {0}, which is not in your folders. Set its file with --embedding",
    "VAE": "was made with the VAE {0}, which is not in your folders. Set its file with --vae",
    "Refiner": "was made with the refiner {0}, which is not in your folders. Set it with --refiner",
}
"""Maps what a picture says was used to what to do, where Halftone cannot find it by itself."""
_PICTURE: Final = "PICTURE"
_START: Final = "Start picture"
_REMEMBERED: Final = 2000
"""Pictures of the history among which a model is looked for."""


class FromPicture(NamedTuple):
    """model: as it is named here, None where the picture names none that is known. notes: a sentence for each setting that was
    not imported. made_in: what the picture says it was made in.
    """

    asked: dict[str, Any]
    model: str | None
    notes: tuple[str, ...]
    made_in: DType | None


def from_picture(picture: str, asked: Mapping[str, Any], meant: Set[str], model: str | None, saved: Settings) -> FromPicture:
    """asked: field -> value; None is no wish but for the fields `meant`. Raises HalftoneError as `said_by` and `known_model`;
    picture-model-unknown for a picture of Halftone whose model is not found, picture-start-missing for one made from another
    picture that is not given.
    """
    from halftone.session.models.model_list import models_in

    path = Path(absolute(picture))
    fields: dict[str, Any] = {name: value for name, value in asked.items() if value is not None or name in meant}
    whole = said_by(path)
    if _START in whole.fields and "image" not in fields:
        raise HalftoneError("picture-start-missing", path=path.name, start=whole.fields[_START])
    asked_options = meant & OPTION_PARAMETERS.keys()
    parameters = _unasked(whole, {*fields, *asked_options, *(() if model is None else ("model",))})
    own = known_model(with_host(model, fields, saved)[0], saved)
    known = (*models_in(saved.model_folders).listed, *_used_before(parameters))
    models = (own, *(one for one in known if one.id != own.id))
    now = PictureRequest(prompt="", model=own.id, **{name: fields[name] for name in ("image", "mask", "start") if name in fields})
    first = import_settings(parameters, now, Known(models)).request.model
    imported = import_settings(
        parameters, now, known_here(saved, models, _words(next(one for one in models if one.id == first), saved))
    )
    found = {name: value for name, value in asdict(imported.request).items() if value != getattr(now, name)} | fields
    if "options" in fields:
        runs = next(one.pipeline for one in models if one.id == imported.request.model)
        its_options = {name: value for name, value in imported.request.options.items() if name not in asked_options}
        both = over(fields["options"], its_options, runs)
        found["options"] = {
            name: value for name, value in both.items() if name not in idle_options(both) - fields["options"].keys()
        }
    found |= started(imported.request, fields, meant)
    found.pop("model", None)
    found.setdefault("prompt", "")
    named = "Model" in parameters.fields and not any(left.startswith("Model: ") for left in imported.left)
    if "Model" in parameters.fields and not named and is_ours(parameters):
        raise HalftoneError("picture-model-unknown", path=path.name, model=parameters.fields["Model"])
    notes = tuple(f"{path.name} {words}" for words in not_used(imported.left, control_words(imported.left, whole, saved)))
    if named and model is None:
        notes += _other_hash(path.name, whole, next(one for one in models if one.id == imported.request.model))
    return FromPicture(found, model or (imported.request.model if named else None), notes, made_in(whole))


def _other_hash(picture: str, said: Parameters, model: ModelFacts) -> tuple[str, ...]:
    """The note for a model that has the name which the picture says, and another hash."""
    other = other_file(said, model, lambda: False)
    if other is None:
        return ()
    return (f"{picture} was made with another file named {other.model}: it had the hash {other.said}, yours has {other.own}.",)


def started(taken: PictureRequest, given: Mapping[str, Any], meant: Set[str]) -> dict[str, Any]:
    """Put the fields of `Start` that were given over those that the picture says; the size of an extended picture is its own."""
    own: Start = given.get("start", Start())
    start = replace(taken.start, **{name: getattr(own, name) for name in Start.__struct_fields__ if name in meant})
    free = (
        {} if not start.extends or start.only_masked is not None else {"width": given.get("width"), "height": given.get("height")}
    )
    return {"start": start, **free}


def control_words(left: Sequence[str], whole: Parameters, saved: Settings) -> dict[str, str]:
    """What `--control` takes for ControlNets that a picture names, but for their pictures: by the name of each line."""
    names = [name for one in left if (name := one.partition(": ")[0]).startswith(_SEVERAL["controls"])]
    nets = {model_name(path): path for path in _nets(saved).values()} if names else {}
    found: dict[str, str] = {}
    for name in names:
        unit = unit_in(whole.fields.get(name, ""))
        if unit is not None:
            with suppress(HalftoneError):  # a preprocessor that is not here: the line itself is shown
                control = control_of(unit, nets.get(model_name(unit.net), unit.net), _PICTURE)
                found[name] = control_word(replace(control, kind=kind_of(unit)))
    return found


def _nets(saved: Settings) -> dict[str, str]:
    return parts_among(listed_models(lora_folders(saved)), "ControlNet")


def not_used(left: Sequence[str], controls: Mapping[str, str] | None = None) -> Iterator[str]:
    """Say of each value that is not used what to do about it. left: "Name: value", as a picture says them; controls: of
    `control_words`.
    """
    for one in left:
        name, _, value = one.partition(": ")
        kind = name.rstrip(" 0123456789")
        if controls and name in controls:
            yield f"was made with a ControlNet. Add --control {quoted(controls[name])} with its picture to make the same picture."
        elif kind in _GIVE_AGAIN:
            yield f"{_GIVE_AGAIN[kind].format(value)} to make the same picture."
        elif name == STOPPED:
            yield f"was stopped after step {value}, so a picture with all steps looks different."
        elif one.startswith("<lora:"):
            yield f"was made with {one}, which is not in your folders. Set its file with --lora to make the same picture."
        else:
            yield f"says “{one}”, which is not used."


def missing_embeddings(
    picture: str, request: PictureRequest, imported: Iterable[str], facts: ModelFacts, saved: Settings
) -> tuple[str, ...]:
    """Say of each embedding that a picture names in ComfyUI's syntax and that cannot be used what to do about it. imported: the
    prompts that are the picture's.
    """
    texts = [getattr(request, name) for name in imported]
    named = Path(picture).name
    missing = missing_named(texts, request.inversions, request.loras, facts, rules_of(request.options), inversion_folders(saved))
    return tuple(f"{named} {_missing(error.as_facts())}" for error in missing)


def _missing(error: ErrorFacts) -> str:
    if error.code == "inversion-unknown":
        return next(not_used((f"Embedding: {error.facts['name']}",)))
    return f"was made with an embedding that cannot be used. {sentence(error)}"


def precision_note(picture: str, made: DType | None, now: DType) -> tuple[str, ...]:
    """The note where a picture was made in another precision than the one to be made now: it will look different."""
    if made is None or made == now:
        return ()
    was, runs = DTYPE_NAMES[made], DTYPE_NAMES[now]
    return (f"{Path(picture).name} was made in {was}; this one runs in {runs}. To reproduce it: --precision {made}",)


def _used_before(said: Parameters) -> tuple[ModelFacts, ...]:
    """Models with the named file, used by pictures on this computer, that lie in no folder of the settings."""
    from halftone.session.models.model_list import usable
    from halftone.session.pictures.picture_list import recent

    name, found = said.fields.get("Model"), list[ModelFacts]()
    used = dict.fromkeys(entry.request.model for entry in recent(_REMEMBERED)) if name is not None else ()
    for model in used:
        if model_name(model) == name:
            with suppress(HalftoneError):
                found.append(usable(model))
    return tuple(found)


def _unasked(said: Parameters, given: Set[str]) -> Parameters:
    """Remove what the command line sets."""
    gone = {name for field in given for name in _SAID.get(field, ())}
    several = tuple(start for field, start in _SEVERAL.items() if field in given)
    gone |= {name for name in said.fields if name.startswith(several)} if several else set()
    return replace(said, fields={name: value for name, value in said.fields.items() if name not in gone})


def _words(model: ModelFacts, saved: Settings) -> tuple[str, ...]:
    """Names of embeddings that the model reads."""
    widths = encoder_widths(model)
    return tuple(one.name for one in list_inversions(inversion_folders(saved)) if matched(one, widths)) if widths else ()
