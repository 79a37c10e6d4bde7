"""The form filled from a picture that is dropped on the page, a text that is pasted into a prompt, or the history."""

from pathlib import Path
from typing import Final

from PySide6.QtCore import QCoreApplication, QObject, Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DTYPE_NAMES, DType
from halftone.gui.controller import Controller
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.i18n import listed, say, sentences, tr
from halftone.gui.text import error_remedy, error_sentence
from halftone.health.pictures.imported_settings import (
    Known,
    OtherFile,
    Taken,
    known_here,
    made_in,
    narrowest,
    other_file,
    take_over,
)
from halftone.health.pictures.told_settings import Told, told
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters, parse_parameters
from halftone.session.events import Noted
from halftone.session.pictures.draft import Draft, Seed, from_request
from halftone.session.pictures.history import Made

_TOLD: Final = 8
"""Values that are told one by one."""


class FormFiller(QObject):
    """`begun`: the form is about to be filled; `filled`: it was, and what was taken. What differs here from what a picture was
    made with is told in one line below the prompts.
    """

    begun = Signal()
    filled = Signal(str)

    def __init__(self, page: QWidget, controller: Controller, form: CreateForm) -> None:
        super().__init__(page)
        self._controller = controller
        self._form = form
        self._turn = 0
        if (program := QCoreApplication.instance()) is not None:
            program.aboutToQuit.connect(self._forget)
        for prompt in (form.prompt, form.negative):
            prompt.settings_pasted.connect(self.take_text)

    def reuse(self, made: Made, *, locked: bool = False) -> None:
        """Everything of a picture of the history, the seed too. locked: for more than one picture."""
        request, controller = made.request, self._controller
        self._turn += 1
        self._say("")
        self.begun.emit()
        if not self._select(request.model):
            current = controller.model.name if controller.model is not None else ""
            controller.take(Noted(kind="other-model", facts=(request.model.rpartition("/")[2], current)))
        self._form.set_request(request)
        if locked:
            self._keep_seed(request)
        if (made_as := self._other_precision(narrowest(made.facts.dtypes.values()))) is not None:
            self._say(_precision_words(*made_as))
        self.filled.emit(tr("All settings of {0}.", Path(made.facts.path).name))

    def reuse_request(self, request: PictureRequest) -> None:
        """A request that waits in the queue, for editing."""
        self._turn += 1
        self._say("")
        self._select(request.model)
        self._form.set_request(request)

    def take_picture(self, path: str) -> None:
        """What it says of itself; one of the history has more to tell."""
        made = self._controller.state.history.known.get(path)
        if made is not None:
            self.reuse(made, locked=True)
            return
        turn = self._wait()
        self._controller.background.run(
            lambda: said_by(Path(path)),
            lambda said: self._take(said) if turn == self._turn else None,
            lambda error: self._refused(error) if turn == self._turn else None,
            receiver=self,
        )

    def take_text(self, text: str) -> None:
        """As A1111 writes it."""
        self._take(parse_parameters(text))

    def _take(self, said: Parameters) -> None:
        """At once what is known without looking into folders, the files that it names when they are found."""
        controller, now = self._controller, self._form.request()
        settings, models = controller.settings, controller.models
        words = tuple(one.name for one in controller.state.embeddings.fitting)
        first = take_over(said, now, Known(models, words=words)).request
        self.begun.emit()
        self._select(first.model)
        self._form.set_request(first)
        self._keep_seed(first)
        turn, filled = self._wait(), controller.state.draft
        controller.background.run(
            lambda: take_over(said, now, known_here(settings, models, words)),
            lambda taken: self._fill(said, taken, filled) if turn == self._turn else None,
            lambda error: self._refused(error) if turn == self._turn else None,
            receiver=self,
        )

    def _wait(self) -> int:
        """No picture of what stood in the form before; what was begun earlier is of no interest any more."""
        self._turn += 1
        self._form.taken.say(tr("Reading…"))
        self._form.wait(tr("Reading…"))
        return self._turn

    def _keep_seed(self, request: PictureRequest) -> None:
        """For more than one picture, as one that was typed."""
        if request.seed is not None:
            self._form.edit(seed=Seed(request.seed, locked=True))

    def _say(self, words: str, tone: str = "muted") -> None:
        self._form.wait("")
        self._form.tell(words, tone)

    def _refused(self, error: Exception) -> None:
        self._say("")
        if not isinstance(error, HalftoneError):
            raise error
        facts = error.as_facts()
        self._say(sentences(error_sentence(facts), error_remedy(facts)), "warn")

    def _fill(self, said: Parameters, taken: Taken, filled: Draft) -> None:
        """The files, where nobody chose others since the rest was filled in."""
        now = self._controller.state.draft
        found = from_request(now, taken.request)
        for fields in (("loras",), ("vae",), ("hires_on", "hires")):
            if all(getattr(now, name) == getattr(filled, name) for name in fields):
                self._form.edit(**{name: getattr(found, name) for name in fields})
        precision = self._other_precision(made_in(said))
        self._say(_precision_words(*precision) if precision is not None else "")
        self.filled.emit(taken_words(said, taken))
        self._compare(said)

    def _other_precision(self, made: DType | None) -> tuple[str, str] | None:
        """(what a picture was made in, what the next one runs in), None where that is the same or not known."""
        now = self._controller.precision[0]
        return None if made in (None, now) else (DTYPE_NAMES[made], DTYPE_NAMES[now])

    def _compare(self, said: Parameters) -> None:
        """The hash that the text has of its model with that of the file in use. That reads all of the file, so nothing waits."""
        model, turn = self._controller.model, self._turn
        if model is not None:
            self._controller.background.run(
                lambda: other_file(said, model, lambda: turn != self._turn),
                lambda found: self._tell_other(found) if turn == self._turn else None,
                receiver=self,
            )

    def _tell_other(self, found: OtherFile | None) -> None:
        if found is not None:
            words = tr("{0} is a different file: hash {1}, expected {2}.", *found)
            self._form.tell(sentences(self._form.taken.text(), words), "warn")

    def _forget(self) -> None:
        """The program ends."""
        self._turn += 1

    def _select(self, model: str) -> bool:
        """Whether it is here."""
        controller = self._controller
        if model == controller.settings.last_model:
            return True
        known = any(one.id == model for one in controller.models)
        if known:
            controller.session.models.select(model)
        return known


def taken_words(said: Parameters, taken: Taken) -> str:
    """What was taken and what was not, in one line, however much a picture says that is not known here."""
    loras = listed(*(lora.name for lora in taken.request.loras))
    found = sentences(told_words(told(said, taken.left)), tr("LoRA added: {0}.", loras) if loras else "")
    if not taken.left:
        return found
    names, more = listed(*taken.left[:_TOLD]), len(taken.left) - _TOLD
    missing = tr("{0} and {1} more", names, str(more)) if more > 0 else names
    return sentences(found, tr("Not found: {0}.", missing))


def told_words(found: Told) -> str:
    """The settings of a picture and the program that made it, in a sentence."""
    first, *more = (say(words) for words in found.names) if found.names else ("",)
    names = listed(first, *(name[:1].lower() + name[1:] for name in more))
    return tr("{0} from {1}.", names, found.program) if found.program else tr("{0}.", names)


def _precision_words(made: str, now: str) -> str:
    return tr("Made in {0}, now {1}. Choose {0} to reproduce it.", made, now)
