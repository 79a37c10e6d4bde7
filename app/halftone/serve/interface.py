"""What scripts can ask of a session. Requests come on threads of their own; the session is only touched on its own thread."""

import base64
import contextlib
import json
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from halftone.contract.errors import HalftoneError, say
from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.messages import AnyEvent, Generate, PictureReady, PreviewReady
from halftone.contract.parameters import NOISE_SOURCE
from halftone.contract.request import SCHEDULES, Lora, PictureRequest, split_sampler
from halftone.contract.wording import Words, either
from halftone.health.pictures.imported_settings import import_settings, known_here
from halftone.library.add_ons.extras import parts_among
from halftone.library.add_ons.inversions import Inversion, inversion_folders, named_in
from halftone.library.add_ons.loras import check_loras, lora_folders, take_tags
from halftone.library.add_ons.unread_inversions import check_named, unread_notes
from halftone.library.add_ons.upscalers import known_upscalers
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.index.known import listed_models
from halftone.library.options import known_options
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.library.prompts.styles import known_styles, styled, styles_named
from halftone.library.samplers import check_sampler, with_automatic_schedule
from halftone.metadata.picture_settings import said_by, said_in
from halftone.metadata.reading import parse_parameters, read_picture
from halftone.serve.answers import (
    Json,
    Preview,
    Source,
    guidance_notes,
    info_of,
    known_hash,
    model_item,
    png_text,
    recoveries,
    share_done,
    short_hash,
    unused_notes,
    upscaler_item,
)
from halftone.serve.control_units import MODULES, Steered, check_steered, module_detail, steered, units_in
from halftone.serve.dialect import (
    Asked,
    AskedFromPicture,
    AskedOfPicture,
    Chosen,
    check_numbers,
    decoded,
    ignored,
    parameters_of,
    settled,
    start_of,
    unknown_settings,
)
from halftone.serve.sent_pictures import Sent, files_of, folder_of_requests, named, written
from halftone.session.job_ids import new_job_id
from halftone.session.session import Session
from halftone.session.state import NOTHING_FOUND, AppState, Ended, Job

T = TypeVar("T")
_TIMESTAMP: Final = "%Y%m%d%H%M%S"
_MOST_PICTURES: Final = 100
"""Pictures of one request: all of them are held in memory for its answer."""
_FOLDERS_SECONDS: Final = 60.0
"""How long a request that comes at the start waits for the models."""


class JobFailedError(Exception):
    """Something was begun and did not come to its end."""


class _Own(NamedTuple):
    """What a script asked for. pictures: so far; stamp: the time it came, as A1111 writes it."""

    pictures: list[PictureFacts]
    stamp: str


class Interface:
    """post: calls something on the session's thread. `hear` gets every event of the worker, there."""

    def __init__(self, session: Session, post: Callable[[Callable[[], object]], object]) -> None:
        self._session = session
        self._post = post
        self._own: dict[str, _Own] = {}
        """By the key of each entry: a worker that dies gives it another id."""
        self._chosen = Chosen()
        self._previews: dict[str, Preview] = {}
        """The newest of each, by the same."""
        self._read = threading.Event()
        self._look(session.state)
        session.store.subscribe(lambda state: (state.models, state.loras), lambda _found: self._look(session.state))

    # --- on the session's thread --------------------------------------------------------------------------------------

    def _look(self, state: AppState) -> None:
        """Note once that the folders of the settings were read."""
        if state.models is not NOTHING_FOUND and state.loras.folders == lora_folders(state.settings):
            self._read.set()

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """Keep the pictures that a script asked for, and the newest preview of each request."""
        if not isinstance(event, PreviewReady | PictureReady):
            return
        job = self._session.state.job(event.job or "")
        if job is None or job.key not in self._own:
            return
        if isinstance(event, PreviewReady):
            self._previews[job.key] = Preview(event.width, event.height, blob)
        else:
            self._own[job.key].pictures.append(event.facts)

    def _submit(self, request: PictureRequest, over: "Future[tuple[Ended, _Own]]") -> None:
        job = new_job_id()

        def ended(end: Ended) -> None:
            self._previews.pop(job, None)
            over.set_result((end, self._own.pop(job)))

        self._own[job] = _Own([], datetime.now().strftime(_TIMESTAMP))
        self._session.queue.submit(Generate(job=job, request=request), request.prompt, then=ended)

    def _stop(self, *, all_of_them: bool) -> None:
        """Stop the pictures that are being made for scripts, on whichever device, with what there is of them; those of the window
        continue.
        """
        state = self._session.state
        for job in self._begun():
            self._session.queue.keep(job.id)
        if all_of_them:
            for job in [job for job in state.jobs if job.key in self._own and not job.running]:
                self._session.queue.cancel(job.id)

    def _begun(self) -> tuple[Job, ...]:
        """What is being made for scripts: one job per device at most."""
        return tuple(job for job in self._session.state.begun if job.key in self._own)

    def _refresh(self, done: Callable[[bool], object]) -> None:
        """Scan the folders, then read the models, LoRAs and embeddings. done: gets whether that worked."""
        session = self._session

        def scanned(whole: bool) -> None:
            if whole:
                session.models.refresh(lambda: session.loras.look(lambda: session.embeddings.look(lambda: done(True))))
            else:
                done(False)

        session.library.scan(scanned)

    # --- on a thread of a request -------------------------------------------------------------------------------------

    def _ask(self, work: Callable[[], T]) -> T:
        """Do something on the session's thread and wait for what comes of it."""
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised again for who asked
                answer.set_exception(error)

        self._post(call)
        return answer.result()

    @property
    def _state(self) -> AppState:
        """The state, with the models that the folders hold."""
        self._read.wait(_FOLDERS_SECONDS)
        return self._ask(lambda: self._session.state)

    def text_to_image(self, body: bytes) -> Json:
        """Make pictures of words. Raises HalftoneError, msgspec.ValidationError, JobFailedError."""
        asked = decoded(body, Asked)
        with files_of(asked) as pictures:
            return self._made(asked, body, pictures)

    def image_to_image(self, body: bytes) -> Json:
        """Make pictures of another one. Raises as `text_to_image`."""
        asked = decoded(body, AskedFromPicture)
        if len(asked.init_images) != 1:
            given = str(len(asked.init_images)) if asked.init_images else Words("empty")
            raise HalftoneError("setting-bad-value", name="init_images", value=given, allowed=Words("one picture"))
        with files_of(asked) as pictures:
            return self._made(asked, body, pictures)

    def _made(self, asked: Asked, body: bytes, pictures: Sent) -> Json:
        check_numbers(asked)
        asked = settled(asked, self._chosen)
        request, left = self._request(asked, pictures)
        over: Future[tuple[Ended, _Own]] = Future()
        self._ask(lambda: self._submit(request, over))
        source = self._source(request)  # while the pictures are made: a large file takes seconds
        end, (made, stamp) = over.result()
        if end.error is not None and not made:
            raise JobFailedError(say(end.error))
        sent: Json = msgspec.json.decode(body)
        unused = [
            *unused_notes(ignored(sent, type(asked)), left, request),
            *map(str, self._unread(request)),
            *guidance_notes(end.report),
        ]
        cut = [] if end.error is None else [say(end.error)]
        warnings = [*unused, *cut, *(line for facts in made for line in recoveries(facts))]
        finished = [facts for facts in made if facts.path]
        files = [Path(facts.path) for facts in finished]
        with_start = isinstance(asked, AskedFromPicture) and asked.include_init_images
        return {
            "images": [base64.b64encode(path.read_bytes()).decode() for path in files] if asked.send_images else [],
            "parameters": {key: value for key, value in sent.items() if with_start or key not in ("init_images", "mask")},
            "info": json.dumps(info_of(request, source, finished, warnings, stamp)),
            "warnings": warnings,
        }

    def _source(self, request: PictureRequest) -> Source:
        model, hashes = self._state.models.models.get(request.model), self._state.library.hashes
        if model is None:
            return Source(request.model, vae_hash=short_hash(request.vae, hashes))
        return Source(model.name, short_hash(model.path, hashes), short_hash(request.vae, hashes))

    def _request(self, asked: Asked, pictures: Sent) -> tuple[PictureRequest, tuple[str, ...]]:
        """(the request, what of it is not here). Raises HalftoneError."""
        state = self._state
        settings, models = state.settings, tuple(state.models.models.values())
        model = _model_named(asked.model, models) if asked.model else state.model
        if model is None:
            error = state.models.errors.get(settings.last_model)
            raise HalftoneError("model-missing", path=settings.last_model) if error is None else _again(error)
        if not 1 <= asked.count <= _MOST_PICTURES:
            most = Words("from {0} to {1}", (1, _MOST_PICTURES))
            raise HalftoneError("setting-bad-value", name="batch_size", value=str(asked.count), allowed=most)
        if asked.sampler:
            check_sampler(model, asked.sampler, image=pictures.image is not None)
        start = start_of(asked) if isinstance(asked, AskedFromPicture) else PictureRequest(prompt="").start
        now = PictureRequest(
            prompt="",
            model=model.id,
            device=settings.device,
            output=settings.pictures_folder,
            image=pictures.image,
            mask=pictures.mask,
            start=start,
            numerics=state.numerics,
            saving=settings.saving,
            sampler=with_automatic_schedule(asked.sampler, model.samplers) if asked.sampler else None,
            batch=asked.count,
        )
        said = replace(parameters_of(asked), prompt="")  # LoRAs in the prompt are read with its draws
        if NOISE_SOURCE in known_options(model, now.sampler, {}, image=now.image is not None, mask=now.mask is not None):
            said.fields.setdefault("RNG", "GPU")  # A1111's default
        taken = import_settings(said, now, known_here(settings, models, ()))
        prompt, loras = self._words(asked.prompt, state)
        styles = styles_named(asked.styles, known_styles(settings.styles_file or None)) if asked.styles else ()
        folders = inversion_folders(settings) if reads_in_chunks(model.family) else ()
        spoken, rules = styled(prompt, asked.negative_prompt, styles), rules_of(taken.request.options)
        request = replace(
            taken.request,
            prompt=prompt,
            loras=loras,
            lora_folders=lora_folders(settings),
            styles=styles,
            wildcards=settings.wildcard_folders,
            draws=True,
            inversions=named_in(spoken, folders, model, rules=rules),
        )
        check_named(spoken, request.inversions, loras, model, rules, folders)
        steering = self._steered(asked, pictures, model)
        request = replace(request, controls=steering.controls, ip_adapters=steering.ip_adapters)
        return request, (*taken.left, *steering.left)

    def _unread(self, request: PictureRequest) -> tuple[Words, ...]:
        """Say which embeddings the prompts name that are read as words."""
        model = self._state.models.models.get(request.model)
        texts = styled(request.prompt, request.negative, request.styles)
        folders, rules = inversion_folders(self._state.settings), rules_of(request.options)
        return () if model is None else unread_notes(texts, request.inversions, request.loras, folders, model, rules)

    def _steered(self, asked: Asked, pictures: Sent, model: ModelFacts) -> Steered:
        """The ControlNets and IP-Adapters that are asked for."""
        units = units_in(asked.alwayson_scripts)
        if not units:
            return Steered()
        found = steered(units, *self._nets(), pictures.written, pictures.image)
        check_steered(found, model)
        return found

    def _nets(self) -> tuple[dict[str, str], dict[str, str]]:
        """ControlNets and IP-Adapters in the folders: name -> path."""
        found = listed_models(lora_folders(self._state.settings))
        return parts_among(found, "ControlNet"), parts_among(found, "IP-Adapter")

    def _words(self, prompt: str, state: AppState) -> tuple[str, tuple[Lora, ...]]:
        prompt, loras = take_tags(prompt, state.loras.paths, state.loras.folders, draws=True)
        check_loras(loras)
        return prompt, loras

    # --- while it runs ------------------------------------------------------------------------------------------------

    def progress(self, *, with_picture: bool) -> Json:
        """How far the picture is that a script asked for; with several devices, the one that was begun first."""
        begun, previews, own = self._ask(lambda: (self._begun(), dict(self._previews), dict(self._own)))
        running = next(iter(begun), None)
        preview = None if running is None else previews.get(running.key)
        done = share_done(running)
        spent = sum(step.seconds for step in running.steps) if running is not None else 0.0
        step = running.steps[-1] if running is not None and running.steps else None
        return {
            "progress": done,
            "eta_relative": spent / done - spent if done > 0 else 0.0,
            "state": {
                "skipped": False,
                "interrupted": running is not None and bool(running.stopping),
                "stopping_generation": False,
                "job": "" if running is None else running.title,
                "job_count": len(own),
                "job_timestamp": "0" if running is None else own[running.key].stamp,
                "job_no": 0,
                "sampling_step": 0 if step is None else step.step,
                "sampling_steps": 0 if step is None else step.steps,
            },
            "current_image": png_text(preview) if with_picture and preview is not None else None,
            "textinfo": None if running is None or running.phase is None else running.phase,
        }

    def interrupt(self) -> Json:
        """Stop the pictures that run and those that wait, as far as scripts asked for them."""
        self._ask(lambda: self._stop(all_of_them=True))
        return {}

    def skip(self) -> Json:
        self._ask(lambda: self._stop(all_of_them=False))
        return {}

    # --- what there is ------------------------------------------------------------------------------------------------

    def models(self) -> list[Json]:
        state = self._state
        return [model_item(facts, known_hash(facts.path, state.library.hashes)) for facts in state.models.models.values()]

    def samplers(self) -> list[Json]:
        model = self._model(self._state)
        names = () if model is None else tuple(dict.fromkeys(split_sampler(name)[0] for name in model.samplers))
        return [{"name": name, "aliases": [], "options": {}} for name in names]

    def schedulers(self) -> list[Json]:
        ways = [("automatic", "Automatic"), *((way.lower().replace(" ", "_"), way) for way in SCHEDULES)]
        kept = {"aliases": None, "default_rho": -1, "need_inner_model": False}
        return [{"name": name, "label": label, **kept} for name, label in ways]

    def loras(self) -> list[Json]:
        paths = self._state.loras.paths
        return [{"name": name, "alias": name, "path": path, "metadata": {}} for name, path in paths.items()]

    def embeddings(self) -> Json:
        embeddings = self._state.embeddings
        fitting = embeddings.fitting
        others = [one for one in embeddings.known if one not in fitting]

        def listed(several: Iterable[Inversion]) -> Json:
            unknown = {"step": None, "sd_checkpoint": None, "sd_checkpoint_name": None}
            return {one.name: {**unknown, "shape": max(one.widths.values()), "vectors": one.vectors} for one in several}

        return {"loaded": listed(fitting), "skipped": listed(others)}

    def upscalers(self) -> list[Json]:
        """Ways of Hires. fix that do not enlarge latents; without one A1111 uses Lanczos, too."""
        plain = [upscaler_item("None", None), upscaler_item("Lanczos", None)]
        return plain + [upscaler_item(name, path) for name, path in known_upscalers(self._state.settings).items()]

    def latent_upscalers(self) -> list[Json]:
        return [{"name": "Latent"}]

    def vaes(self) -> list[Json]:
        state = self._state
        known = known_here(state.settings, tuple(state.models.models.values()), ())
        return [{"model_name": name, "filename": path} for name, path in known.vaes.items()]

    def control_models(self) -> Json:
        """What A1111's extension for ControlNets can load."""
        return {"model_list": [_without_ending(name) for several in self._nets() for name in several]}

    def control_modules(self) -> Json:
        return {"module_list": list(MODULES), "module_detail": {name: module_detail(name) for name in MODULES}}

    def memory(self) -> Json:
        """Bytes: of this machine, and of the device that makes the pictures, where it has memory of its own."""
        import psutil

        ram, state = psutil.virtual_memory(), self._ask(lambda: self._session.state)
        cuda: Json = {"error": "unavailable"}
        if state.memory is not None and state.device is not None and state.device.backend != "cpu":
            used = state.memory.own + state.memory.others
            cuda = {"system": {"free": state.memory.total - used, "used": used, "total": state.memory.total}}
        return {"ram": {"free": ram.available, "used": ram.total - ram.available, "total": ram.total}, "cuda": cuda}

    def options(self) -> Json:
        """What A1111's clients look for in its settings."""
        state = self._state
        return {
            "sd_model_checkpoint": self._model_name(state),
            "sd_checkpoint_hash": None,
            "sd_vae": self._chosen.sd_vae or "Automatic",
            "CLIP_stop_at_last_layers": self._chosen.CLIP_stop_at_last_layers or 1,
            "randn_source": self._chosen.randn_source or "GPU",
            "samples_format": state.settings.saving.picture_format,
            "live_previews_enable": True,
        }

    def choose(self, body: bytes) -> Json:
        """Follow these settings for all requests that do not set them; the window and its settings stay as they are. Raises
        HalftoneError for a model that is not here, msgspec.ValidationError.
        """
        sent: Json = msgspec.json.decode(body, type=dict[str, Any])
        chosen = msgspec.convert(sent, Chosen, strict=False)
        if chosen.sd_model_checkpoint:
            _model_named(chosen.sd_model_checkpoint, self._state.models.models.values())
        now = self.options()  # Open WebUI sends all of them back
        followed = {name: getattr(chosen, name) for name in Chosen.__struct_fields__ if name in sent}
        self._chosen = replace(self._chosen, **followed)
        return {"warnings": [f"Not used: {name}." for name in unknown_settings(sent) if now.get(name) != sent[name]]}

    def refresh(self) -> Json:
        """Read the folders again; answers once their new files are known. Raises JobFailedError."""
        done: Future[bool] = Future()
        self._ask(lambda: self._refresh(done.set_result))
        if not done.result():
            raise JobFailedError("The model folders could not be scanned. The log says why.")
        return {}

    def _model(self, state: AppState) -> ModelFacts | None:
        """The model of a request that names none; that of the settings where the chosen one is gone."""
        with contextlib.suppress(HalftoneError):
            if name := self._chosen.sd_model_checkpoint:
                return _model_named(name, state.models.models.values())
        return state.model

    def _model_name(self, state: AppState) -> str:
        """The name of that model; a chosen one that is gone keeps its own, as requests ask for it."""
        name = self._chosen.sd_model_checkpoint or ""
        with contextlib.suppress(HalftoneError):
            return _model_named(name, state.models.models.values()).name
        return name or ("" if state.model is None else state.model.name)

    def styles(self) -> list[Json]:
        book = known_styles(self._state.settings.styles_file or None)
        return [{"name": one.name, "prompt": one.prompt, "negative_prompt": one.negative} for one in book.styles]

    def picture_info(self, body: bytes) -> Json:
        """What a picture says of itself. Raises HalftoneError."""
        asked = decoded(body, AskedOfPicture)
        with tempfile.TemporaryDirectory(dir=folder_of_requests()) as folder:
            path = written(folder, "image", asked.image)
            with named("image"):
                found = read_picture(path)
                said = said_in(found) or (said_by(path) if found.graph else parse_parameters(found.parameters or ""))
        fields = {"Prompt": said.prompt, "Negative prompt": said.negative, **said.fields}
        return {"info": found.parameters or "", "items": {"parameters": found.parameters or ""}, "parameters": fields}


def _model_named(name: str, models: Iterable[ModelFacts]) -> ModelFacts:
    """Raises HalftoneError model-unknown for one that is not here."""
    wanted = _stem(name)
    for model in models:
        if wanted in (_stem(model.id), _stem(model.name), model.fingerprint):
            return model
    raise HalftoneError("model-unknown", name=name, known=either(*(model.name for model in models)))


def _stem(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2].casefold()
    return last.removesuffix(".safetensors").removesuffix(".ckpt")


def _without_ending(name: str) -> str:
    return name.removesuffix(".safetensors")


def _again(error: Any) -> HalftoneError:
    return HalftoneError(error.code, error.details, **error.facts)
