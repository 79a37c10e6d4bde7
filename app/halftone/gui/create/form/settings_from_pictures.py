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
    Imported,
    Known,
    OtherFile,
    import_settings,
    known_here,
    made_in,
    narrowest,
    other_file,
)
from halftone.health.pictures.setting_names import SettingNames, setting_names
from halftone.metadata.a1111_relatives import parameters_of_text
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters
from halftone.session.events import Noted
from halftone.session.pictures.draft import Draft, Seed, from_request
from halftone.session.pictures.history import Made

_SHOWN: Final = 8
"""Missing settings that are named one by one; the others are counted."""


class FormFiller(QObject):
    """`begun`: the form is about to be filled; `filled`: it was, with what was imported. One line below the prompts says what
    differs here from what a picture was made with.
    """

    begun = Signal()
    filled = Signal(str, bool)

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
        """Copy all settings of a picture of the history, the seed too. locked: keep the seed for more than one picture."""
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
        self.filled.emit(tr("Settings taken from {0}.", Path(made.facts.path).name), True)

    def reuse_request(self, request: PictureRequest) -> None:
        """A request that waits in the queue, for editing."""
        self._turn += 1
        self._say("")
        self._select(request.model)
        self._form.set_request(request)

    def take_picture(self, path: str) -> None:
        """Copy the settings that a picture file holds; for a picture of the history, those of its request."""
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
        """Copy the settings from a text as A1111 writes it."""
        self._take(parameters_of_text(text))

    def _take(self, said: Parameters) -> None:
        """Fill in the plain settings at once, and the files that they name once those are found."""
        controller, now = self._controller, self._form.request()
        settings, models = controller.settings, controller.models
        words = tuple(one.name for one in controller.state.embeddings.fitting)
        first = import_settings(said, now, Known(models, words=words)).request
        self.begun.emit()
        self._select(first.model)
        self._form.set_request(first)
        self._keep_seed(first)
        turn, filled = self._wait(), controller.state.draft
        controller.background.run(
            lambda: import_settings(said, now, known_here(settings, models, words)),
            lambda taken: self._fill(said, taken, filled) if turn == self._turn else None,
            lambda error: self._refused(error) if turn == self._turn else None,
            receiver=self,
        )

    def _wait(self) -> int:
        """Disable Generate while the settings are read, and drop the answer of an earlier read."""
        self._turn += 1
        self._form.taken.say(tr("Reading…"))
        self._form.wait(tr("Reading…"))
        return self._turn

    def _keep_seed(self, request: PictureRequest) -> None:
        """Lock the seed, as if it had been typed."""
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

    def _fill(self, said: Parameters, taken: Imported, filled: Draft) -> None:
        """Fill in the files, unless the user chose others meanwhile."""
        now = self._controller.state.draft
        found = from_request(now, taken.request)
        for fields in (("loras",), ("vae",), ("hires_on", "hires")):
            if all(getattr(now, name) == getattr(filled, name) for name in fields):
                self._form.edit(**{name: getattr(found, name) for name in fields})
        precision = self._other_precision(made_in(said))
        self._say(_precision_words(*precision) if precision is not None else "")
        self.filled.emit(taken_words(said, taken), not taken.left)
        self._compare(said)

    def _other_precision(self, made: DType | None) -> tuple[str, str] | None:
        """Return the precision a picture was made in and the one of the next picture; None where they are equal or unknown."""
        now = self._controller.precision[0]
        return None if made in (None, now) else (DTYPE_NAMES[made], DTYPE_NAMES[now])

    def _compare(self, said: Parameters) -> None:
        """Compare the model's hash in the text with that of the file in use. It reads the whole file, so nothing waits for it."""
        model, turn = self._controller.model, self._turn
        if model is not None:
            self._controller.background.run(
                lambda: other_file(said, model, lambda: turn != self._turn),
                lambda found: self._show_other(found) if turn == self._turn else None,
                receiver=self,
            )

    def _show_other(self, found: OtherFile | None) -> None:
        if found is not None:
            words = tr("{0} is a different file: hash {1}, expected {2}.", *found)
            self._form.tell(sentences(self._form.taken.text(), words), "warn")

    def _forget(self) -> None:
        """Drop every answer: the program ends."""
        self._turn += 1

    def _select(self, model: str) -> bool:
        """Select a model; False where it is not known."""
        controller = self._controller
        if model == controller.settings.last_model:
            return True
        known = any(one.id == model for one in controller.models)
        if known:
            controller.session.models.select(model)
        return known


def taken_words(said: Parameters, taken: Imported) -> str:
    """Say in one line which settings were imported and which were not found, however many those are."""
    loras = listed(*(lora.name for lora in taken.request.loras))
    found = sentences(settings_words(setting_names(said, taken.left)), tr("LoRA added: {0}.", loras) if loras else "")
    if not taken.left:
        return found
    names, more = listed(*taken.left[:_SHOWN]), len(taken.left) - _SHOWN
    missing = tr("{0} and {1} more", names, str(more)) if more > 0 else names
    return sentences(found, tr("Not found: {0}.", missing))


def settings_words(found: SettingNames) -> str:
    """Name the settings of a picture and the program that made it, in a sentence."""
    first, *more = (say(words) for words in found.names) if found.names else ("",)
    names = listed(first, *(name[:1].lower() + name[1:] for name in more))
    return tr("{0} from {1}.", names, found.program) if found.program else tr("{0}.", names)


def _precision_words(made: str, now: str) -> str:
    return tr("Made in {0}, now {1}. Choose {0} to reproduce it.", made, now)
