"""What a user hands in: lines of JSON, one picture each, or models to check."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import HalftoneError, sentence
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Examine, Generate
from halftone.contract.request import PictureRequest, file_name
from halftone.contract.vocabulary import POCKET, Depth
from halftone.contract.wording import Words
from halftone.farm.ledger import Ledger, Wanted
from halftone.farm.prints import ModelPrint, models_of, print_of
from halftone.farm.states import Job
from halftone.farm.talk import FarmCommand
from halftone.health.forecasts.picture_memory import memory_key
from halftone.health.pictures.requests import check_now, check_request
from halftone.library.add_ons.loras import has_tags
from halftone.library.samplers import check_sampler
from halftone.metadata.picture import check_output, output_error
from halftone.session.models.model_list import named_model, usable
from halftone.settings.disk import no_folder, system_words
from halftone.settings.regular_files import read_text
from halftone.settings.store import Settings

SEEDS: Final = 2**32
_DIGITS: Final = 16
_MISFIT: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<given>[^`]+)`(?: - at `\$\.(?P<field>[^`]+)`)?")
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Msgspec's words for what JSON holds."""


class Models:
    """Describes and hashes each model once."""

    def __init__(self) -> None:
        self._facts: dict[str, ModelFacts] = {}
        self._prints: dict[str, ModelPrint] = {}
        self._places: dict[str, str] = {}

    def facts(self, model: str) -> ModelFacts:
        if model not in self._facts:
            self._facts[model] = usable(model)
        return self._facts[model]

    def place(self, model: str, folders: tuple[str, ...]) -> str:
        """The absolute path of a model. model: its path, or its name where one model alone in these folders has it."""
        if model not in self._places:
            path = Path(model).expanduser().absolute()
            is_name = model == file_name(model) and not path.exists()
            self._places[model] = model if model == POCKET else (is_name and named_model(model, folders)) or str(path)
        return self._places[model]

    def print_of(self, path: str) -> ModelPrint:
        if path not in self._prints:
            self._prints[path] = print_of(path)
        return self._prints[path]


def read_jobs(path: Path, user: str, saved: Settings, ledger: Ledger) -> list[Wanted]:
    """The jobs of a file, one JSON object a line: the fields of a picture request, `output`, and `key` for a name of one's own.

    Settings that a line does not name are those of this user. A line that the ledger has already is not checked again. Raises
    HalftoneError farm-jobs-unread, or farm-bad-jobs with the number of the first line that cannot be used.
    """
    models, wanted = Models(), list[Wanted]()
    keys, places = set[str](), set[str]()
    for number, text in enumerate(_text(path).split("\n"), start=1):  # JSON may hold other line breaks
        if not text.strip():
            continue
        try:
            one = _wanted(text, user, saved, models, ledger)
            _refuse_twice(one.job, keys, places)
        except HalftoneError as error:
            raise _bad(path, number, sentence(error.as_facts()).rstrip(".")) from error
        except OverflowError as error:
            raise _bad(path, number, Words("a number is too large")) from error
        except (msgspec.MsgspecError, TypeError) as error:
            raise _bad(path, number, _complaint(str(error))) from error
        wanted.append(one)
    if not wanted:
        raise HalftoneError("farm-jobs-unread", path=str(path), why=Words("it holds no job"))
    return wanted


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError as error:
        raise HalftoneError("file-missing", path=str(path.absolute())) from error
    except OSError as error:
        why = Words("it is a folder") if path.is_dir() else system_words(error)
        raise HalftoneError("farm-jobs-unread", path=str(path), why=why) from error
    except UnicodeDecodeError as error:
        raise HalftoneError("farm-jobs-unread", path=str(path), why=Words("it is no text in UTF-8")) from error


def _bad(path: Path, number: int, why: Words | str) -> HalftoneError:
    return HalftoneError("farm-bad-jobs", line=number, path=str(path), why=why)


def _complaint(problem: str) -> str:
    """What msgspec says of a value of another type, in JSON's words."""
    found = _MISFIT.fullmatch(problem)
    if found is None:
        return problem
    wanted = " or ".join(_TYPES.get(name, name) for name in found["wanted"].split(" | "))
    where = f"“{found['field']}”" if found["field"] else "a line"
    return f"{where} takes {wanted}, not {_TYPES.get(found['given'], found['given'])}"


def _refuse_twice(job: Job, keys: set[str], places: set[str]) -> None:
    """Raise farm-refused for a second job of one name or one file."""
    if job.key in keys or job.output in places:
        raise HalftoneError("farm-refused", name=job.output, why=Words("an earlier line has the same key or output"))
    keys.add(job.key)
    places.add(job.output)


def _wanted(text: str, user: str, saved: Settings, models: Models, ledger: Ledger) -> Wanted:
    fields = msgspec.json.decode(text, type=dict[str, Any])
    given = fields.pop("key", None)
    _check_names(fields)
    own = {"numerics": saved.numerics, "saving": saved.saving, "model": POCKET}
    request = msgspec.convert({**{name: msgspec.to_builtins(value) for name, value in own.items()}, **fields}, PictureRequest)
    request = replace(request, model=models.place(request.model, saved.model_folders), output=_output(request))
    check_now(replace(request, output=None))  # seeds: the key is made of numbers that fit
    key = _key(given, user, request)
    if (before := ledger.known(key)) is None:
        if ledger.is_taken(request.output or ""):
            raise HalftoneError("farm-refused", name=request.output or "", why=Words("a job that is not done has this output"))
        check_for_farm(request, models.facts(request.model))
    else:
        request = _as_before(key, request, before, fields)
    if request.seed is None:  # drawn here, so that every attempt makes the same picture
        request = replace(request, seed=secrets.randbelow(SEEDS))
    return wanted_picture(key, user, request, models)


def _as_before(key: str, request: PictureRequest, before: FarmCommand, fields: Iterable[str]) -> PictureRequest:
    """The request that the ledger has under a key. Raises HalftoneError farm-refused where that is another one. fields: named by
    the line; a drawn seed and the settings of that day are as they were.
    """
    if isinstance(before, Generate):
        left_open = {name: getattr(before.request, name) for name in ("seed", "numerics", "saving") if name not in fields}
        if replace(request, **left_open) == before.request:
            return before.request
    why = Words("another job has the key {0}; give this one another key", (key,))
    raise HalftoneError("farm-refused", name=Path(request.output or "").name, why=why)


def _check_names(fields: Iterable[str]) -> None:
    """Raise TypeError for a field that pictures do not have."""
    for name in fields:
        if name not in PictureRequest.__struct_fields__:
            near = get_close_matches(name, PictureRequest.__struct_fields__, n=1)
            raise TypeError(f"There is no field {name}" + (f"; the nearest is {near[0]}" if near else ""))


def wanted_picture(key: str, user: str, request: PictureRequest, models: Models) -> Wanted:
    """The job of a request that `check_for_farm` lets pass, which has an output and a seed. Raises as `print_of`."""
    prints = tuple(models.print_of(path) for path in models_of(request))
    needs = memory_key(replace(request, output=None), models.facts(request.model))
    return _filed(key, user, request.output or "", Generate(job=key, request=request), prints, needs)


def _filed(key: str, user: str, output: str, command: FarmCommand, prints: tuple[ModelPrint, ...], needs: bytes) -> Wanted:
    kind = hashlib.sha256(needs + msgspec.msgpack.encode(prints)).hexdigest()[:_DIGITS]
    return Wanted(Job(key=key, user=user, kind=kind, output=output), command, prints)


def _output(request: PictureRequest) -> str:
    if not request.output or os.path.isdir(request.output):
        raise HalftoneError(
            "farm-refused", name=request.output or "a job", why=Words("each job needs a file of its own as output")
        )
    return str(Path(request.output).expanduser().absolute())


def _key(given: object, user: str, request: PictureRequest) -> str:
    if given is not None:
        if not isinstance(given, str) or not given.isprintable() or not 0 < len(given) <= 100:
            raise TypeError("“key” takes text of 1 to 100 characters")
        return given
    return hashlib.sha256(user.encode() + b"\0" + msgspec.msgpack.encode(request)).hexdigest()[:_DIGITS]


def check_for_farm(request: PictureRequest, facts: ModelFacts) -> None:
    """Refuse what the farm cannot do, and what no machine can. Raises HalftoneError farm-refused, and as `check_request`."""
    name = Path(request.output or "").name
    why: Words | None = None
    if request.batch != 1:
        why = Words("a job is one picture; write a line for each")
    elif request.pictures or request.resume_latents is not None:
        why = Words("files of pictures and latents are not sent to nodes")
    elif request.wildcards or request.lora_folders is not None:
        why = Words("folders of wildcards and LoRAs are not sent to nodes")
    elif has_tags(request.prompt) or has_tags(request.negative):
        why = Words("LoRAs in the prompt are not looked up; name their files in “loras”")
    elif request.device != "auto":
        why = Words("the head chooses the card; leave out “device”")
    elif request.overwrite:
        why = Words("the farm never replaces a file; leave out “overwrite”")
    if why is not None:
        raise HalftoneError("farm-refused", name=name, why=why)
    check_request(request, facts)
    if request.sampler is not None:
        check_sampler(facts, request.sampler, image=False)


def checks(models: Iterable[str], folder: Path, depth: Depth, user: str, saved: Settings) -> tuple[list[Wanted], list[str]]:
    """Jobs that check models, each with its report as a JSON file in a folder; and a sentence for each model that cannot be
    checked here. Makes the folder. Raises HalftoneError output-*.
    """
    _make(folder)
    known, wanted, left = Models(), list[Wanted](), list[str]()
    for model in models:
        try:
            facts = known.facts(model)
            prints = (known.print_of(facts.id),)
        except HalftoneError as error:
            left.append(sentence(error.as_facts()))
            continue
        digest = hashlib.sha256(msgspec.msgpack.encode((prints[0].files, saved.numerics, depth))).hexdigest()[:_DIGITS]
        output = str(folder.absolute() / f"{Path(prints[0].name).stem}-{digest[:8]}.json")
        command = Examine(job=digest, model=facts.id, depth=depth, numerics=saved.numerics)
        key = f"check-{hashlib.sha256(os.fsencode(output)).hexdigest()[:_DIGITS]}"  # another folder gets reports of its own
        wanted.append(_filed(key, user, output, command, prints, b"examine"))
    return wanted, left


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise no_folder(folder.absolute()) from error
    except OSError as error:
        raise output_error(error, folder.absolute(), 0) from error
    check_output(folder)
