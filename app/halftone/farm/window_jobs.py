"""Jobs of the window's queue on the farm. Each picture is a job of its own; its key begins with the id of the entry."""

import getpass
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Generate
from halftone.contract.parameters import seed_after
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.farm.jobs import SEEDS, Models, check_for_farm, wanted_picture
from halftone.farm.ledger import Ledger, Wanted, has_farm, head_mark
from halftone.farm.states import OPEN, Cancelled, State
from halftone.library.prompts.drawn_prompts import drawn_loras, draws_words, spoken
from halftone.library.prompts.shown_prompts import shown_prompt
from halftone.metadata.parameters import model_name
from halftone.metadata.picture import ending_for, numbered, output_error
from halftone.session.state import Job
from halftone.settings.file_names import Named, place_of
from halftone.settings.folders import is_claimed
from halftone.settings.places import pictures_dir

_PREFIX: Final = "window-"
_SHOWN: Final[tuple[State, ...]] = (*OPEN, "failed", "aside")


class Entry(NamedTuple):
    """A picture on the farm. host: the node that has it, "" for none; error: why it is not made."""

    key: str
    title: str
    state: State
    host: str = ""
    error: ErrorFacts | None = None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


class Seen(NamedTuple):
    """head: whether a head of this user runs; entries: of the window, those that are open or did not end well."""

    head: bool = False
    entries: tuple[Entry, ...] = ()


def head_runs() -> bool:
    return has_farm() and is_claimed(head_mark())


def look(titles: Mapping[str, str] | None = None) -> Seen:
    """What became of the jobs of windows. titles: by key, those that are known, as there may be thousands to look up. Raises
    sqlite3.Error and OSError.
    """
    if not has_farm():
        return Seen()
    known = titles or {}
    with Ledger() as ledger:
        hosts = {owner: facts.host for owner, facts in ledger.nodes().items()}
        jobs = ledger.beginning(_PREFIX, *_SHOWN)
        entries = tuple(
            Entry(job.key, known.get(job.key) or _title(ledger, job.key), job.state, hosts.get(job.owner or "", ""), job.error)
            for job in jobs
        )
    return Seen(is_claimed(head_mark()), entries)


def _title(ledger: Ledger, key: str) -> str:
    command = ledger.command(key)
    return shown_prompt(command.request.prompt) if isinstance(command, Generate) else key


def send(jobs: Sequence[Job], refused: Iterable[str] = ()) -> dict[str, ErrorFacts | None] | None:
    """Hand in entries of the queue: id -> None where all its pictures are filed, else why none is. None where no head runs.

    refused: ids of entries whose end another program waits for. What the ledger has already is not filed again. Raises
    sqlite3.Error and OSError: then nothing is filed, as an entry that also stayed in the queue would be made twice.
    """
    if not head_runs():
        return None
    models, found, wanted = Models(), dict[str, ErrorFacts | None](), list[Wanted]()
    with Ledger() as ledger:
        names = _Names(ledger)
        for job in jobs:
            try:
                _check(job, awaited=job.id in refused)
                wanted += _pictures(names, job, models)
                found[job.id] = None
            except HalftoneError as error:
                found[job.id] = error.as_facts()
        try:
            ledger.submit(wanted)
        except HalftoneError as error:  # meanwhile another program handed in a job with one of these outputs
            for name in found:
                found[name] = found[name] or error.as_facts()
    return found


def filed(ids: Iterable[str]) -> frozenset[str]:
    """Which of these entries the ledger has. Raises sqlite3.Error and OSError."""
    if not has_farm():
        return frozenset()
    with Ledger() as ledger:
        return frozenset(name for name in ids if ledger.job(_key(name, 0)) is not None)


def cancel(*keys: str) -> None:
    """Cancel pictures that are open; one that failed meanwhile stays on the list. Raises sqlite3.Error and OSError."""
    with Ledger() as ledger:
        for key in keys:
            ledger.tell(key, Cancelled())


def take_off(key: str) -> None:
    """Take a picture off the list that did not end well. Raises sqlite3.Error and OSError."""
    with Ledger() as ledger:
        ledger.forget(key)


def cancel_entry(name: str) -> None:
    """Cancel all pictures of an entry. Raises sqlite3.Error and OSError."""
    with Ledger() as ledger:
        for job in ledger.beginning(_key(name), *OPEN):
            ledger.tell(job.key, Cancelled())


def retry(key: str) -> None:
    """Try a picture again. Raises HalftoneError farm-refused where a job that is not done has its output, sqlite3.Error and
    OSError.
    """
    with Ledger() as ledger:
        job = ledger.job(key)
        if job is not None and not ledger.retry(key):
            raise HalftoneError("farm-refused", name=job.output, why=Words("a job that is not done has this output"))


def _key(name: str, index: int | None = None) -> str:
    return f"{_PREFIX}{name}-{'' if index is None else index}"


def _check(job: Job, *, awaited: bool) -> None:
    why: Words | None = None
    if not isinstance(job.command, Generate):
        why = Words("the farm makes pictures; other jobs stay here")
    elif job.grid is not None:
        why = Words("the pictures of a grid are put together here")
    elif job.endless:
        why = Words("a job without an end stays here")
    elif job.upscaler:
        why = Words("its pictures are upscaled here afterwards")
    elif awaited:
        why = Words("another program waits for its end")
    if why is not None:
        raise HalftoneError("farm-refused", name=job.title or job.kind, why=why)


def _pictures(names: "_Names", job: Job, models: Models) -> list[Wanted]:
    assert isinstance(job.command, Generate)
    user, facts = getpass.getuser(), models.facts(job.command.request.model)
    wanted = list[Wanted]()
    for index, one in enumerate(_singles(job.command.request)):
        request = replace(one, output=str(names.next(one, facts)))
        check_for_farm(request, facts)
        wanted.append(wanted_picture(_key(job.id, index), user, request, models))
    return wanted


def _singles(request: PictureRequest) -> Iterator[PictureRequest]:
    """A request for each picture, with the words that its seed draws, as nodes have neither wildcards nor folders of LoRAs."""
    seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
    varies, other = request.variation_strength > 0, request.variation_seed
    if varies and other is None:
        other = secrets.randbelow(SEEDS)
    for index in range(request.batch):
        one = replace(
            request,
            seed=seed if varies else seed_after(seed, index),
            variation_seed=seed_after(other, index) if varies and other is not None else other,
            batch=1,
            device="auto",
        )
        if draws_words(request):
            prompt, negative = spoken(one, one.seed or 0)
            loras = (*one.loras, *drawn_loras(one, (one.seed or 0,))[0])
            one = replace(one, prompt=prompt, negative=negative, loras=loras, styles=(), draws=False)
        yield replace(one, wildcards=(), lora_folders=None)


class _Names:
    """Files for pictures that are handed in at once: none of them is there, or belongs to another job."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._ahead = len(ledger.beginning(_PREFIX, *OPEN))
        self._taken = set[str]()
        self._tried = dict[Path, int]()
        """Name -> how many of its numbered ones were tried."""

    def next(self, request: PictureRequest, facts: ModelFacts) -> Path:
        """The file of the next picture. Raises HalftoneError output-*."""
        folder = pictures_dir() if request.output is None else Path(request.output).expanduser()
        try:
            path = folder if request.output is not None and not folder.is_dir() else _named(request, facts, folder, self._ahead)
        except OSError as error:
            raise output_error(error, folder, 0) from error
        path = path.absolute()
        index = self._tried.get(path, 0)
        while self._is_taken(name := numbered(path, index)):
            index += 1
        self._tried[path] = index + 1
        self._taken.add(str(name))
        self._ahead += 1
        return name

    def _is_taken(self, name: Path) -> bool:
        return os.path.lexists(name) or str(name) in self._taken or self._ledger.is_taken(str(name))


def _named(request: PictureRequest, facts: ModelFacts, folder: Path, ahead: int) -> Path:
    """By the pattern of the settings, with the model's defaults for what the request leaves open. ahead: pictures of which the
    numbers are given, and no file is there yet.
    """
    width, height = request.width or facts.native_width, request.height or facts.native_height
    named = Named(
        seed=request.seed or 0,
        prompt=request.prompt,
        model=model_name(request.model),
        sampler=request.sampler or facts.own_sampler,
        steps=facts.default_steps if request.steps is None else request.steps,
        guidance=facts.default_guidance if request.guidance is None else request.guidance,
        width=width,
        height=height,
        moment=datetime.now().astimezone(),
    )
    ending = ending_for(request.saving.picture_format, (width, height), request.prompt + request.negative)
    if (request.num_frames or 1) > 1:
        ending = f".{request.video or 'mp4'}"
    return place_of(request.saving.file_names, named, folder, ending, ahead)
