"""The left panel of Create: model, prompt, size, steps, seed and the pinned footer with estimate and Generate."""

from functools import partial

import msgspec
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.vocabulary import DType, Precision
from halftone.gui.controller import Controller
from halftone.gui.create.form import memory_estimate as room
from halftone.gui.create.form.form_fields import SizeField
from halftone.gui.create.form.form_footer import Footer
from halftone.gui.create.form.incompatible_parts import hires_clash, refiner_clash
from halftone.gui.create.form.model_defaults import OwnValues, fields_of
from halftone.gui.create.form.model_part import ModelPart
from halftone.gui.create.form.model_picker import problem_words
from halftone.gui.create.form.prompt_fields import PromptsPart, examples
from halftone.gui.create.form.sampling_part import SamplingPart
from halftone.gui.create.form.time_estimate import Pictures, Shape, conditions, estimate, size_warning
from halftone.gui.create.rows.controlnet_row import ControlPart
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.create.rows.hires_row import HiresPart
from halftone.gui.create.rows.ip_adapter_row import IpAdapterPart
from halftone.gui.create.rows.lora_row import LoraPart
from halftone.gui.create.rows.options_row import OptionsPart
from halftone.gui.create.rows.precision_row import NumericsPart
from halftone.gui.create.rows.refiner_row import RefinerPart
from halftone.gui.create.rows.start_picture_row import StartPart
from halftone.gui.create.rows.style_row import StylePart
from halftone.gui.create.rows.transformer_row import TransformerPart
from halftone.gui.create.rows.vae_row import VaePart
from halftone.gui.create.rows.variation_row import VariationPart
from halftone.gui.create.rows.video_row import VideoPart
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.stock_widgets import column, hline, label, scrolling, set_tone, surface
from halftone.health.forecasts.picture_memory import Forecast
from halftone.health.pictures.passes import larger
from halftone.library.resolution_bins import computed_size


class CreateForm(QWidget):
    """Everything that a picture depends on. `submitted` carries the request and whether to go on until stopped."""

    submitted = Signal(object, bool)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._defaults_of = ""
        self._empty_negative = False
        self._left = controller.settings.form
        self._room = room.Room(controller, self)
        self._dared: set[tuple[Shape, DType]] = set()
        self._pictures = Pictures()
        self._waiting = ""
        self._told: PictureRequest | None = None
        self._build()
        self._connect()
        self._model_changed()

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.model_part = ModelPart(self._controller)
        size_part, sampling_part = self._size_part(), SamplingPart()
        prompts = self.prompts = PromptsPart(self._controller.background)
        self.prompt, self.negative, self.counter = prompts.prompt, prompts.negative, prompts.counter
        self.words_note, self.taken = prompts.words_note, prompts.taken
        self.steps, self.guidance, self.sampler = sampling_part.steps, sampling_part.guidance, sampling_part.sampler
        self.seed, self.batch, self.batch_note = sampling_part.seed, sampling_part.batch, sampling_part.batch_note
        self.lora_part, self.vae_part = LoraPart(self._controller), VaePart(self._controller)
        self.start_part = StartPart(self._controller)
        self.transformer_part = TransformerPart(self._controller)
        self.control_part, self.video_part = ControlPart(self._controller), VideoPart()
        self.hires_part = HiresPart(self.size_field, self._controller.look_for_upscalers)
        self.ip_adapter_part, self.refiner_part = IpAdapterPart(self._controller), RefinerPart(self._controller)
        self.style_part, self.variation_part = StylePart(self._controller), VariationPart()
        self.options_part, self.numerics_part = OptionsPart(), NumericsPart(self._controller)
        self.parts: tuple[FoldedPart, ...] = (
            self.style_part,
            self.start_part,
            self.lora_part,
            self.control_part,
            self.hires_part,
            self.refiner_part,
            self.ip_adapter_part,
            self.variation_part,
            self.vae_part,
            self.transformer_part,
            self.video_part,
            self.options_part,
            self.numerics_part,
        )
        self.own_values = OwnValues(fields_of(self.size_field, self.steps, self.guidance))
        body = QWidget()
        body.setLayout(
            column(
                self.model_part,
                self.own_values,
                hline(),
                prompts,
                hline(),
                size_part,
                hline(),
                sampling_part,
                hline(),
                *(widget for part in self.parts for widget in (part.row, part, part.line)),
                -1,
                spacing=0,
            )
        )
        self.area = scrolling(body)
        self.footer = Footer()
        self.estimate, self.generate_button, self.more = self.footer.estimate, self.footer.generate_button, self.footer.more
        frame = surface("plain")
        frame.setLayout(column(self.area, hline(), self.footer, spacing=0))
        self.setLayout(column(frame, spacing=0))

    def _size_part(self) -> QWidget:
        self.size_field = SizeField()
        self.size_note = label("", "caption", "warn", wrap=True)
        self.size_note.hide()
        made = QWidget()
        words = label(tr("Size"), "small", "secondary")
        made.setLayout(column(words, self.size_field, self.size_note, spacing=6, margins=(14, 10, 14, 12)))
        return made

    def _connect(self) -> None:
        controller = self._controller
        controller.models_changed.connect(self._model_changed)
        controller.model_selected.connect(self._model_changed)
        controller.settings_changed.connect(self.numerics_part.show_value)
        controller.settings_changed.connect(self.lora_part.look_again)
        controller.changed.connect(self._state_changed)
        controller.badges_changed.connect(self._state_changed)  # another precision, or a cure that was applied
        controller.words.changed.connect(self._read)
        for text in (self.prompt, self.negative):
            text.textChanged.connect(self._read)
        self.prompt.textChanged.connect(self.lora_part.hush)
        self.style_part.changed.connect(self._read)
        self.size_field.changed.connect(self._refresh_footer)
        self.steps.changed.connect(self._refresh_footer)
        self._room.known.connect(self._refresh_footer)
        self.batch.valueChanged.connect(self._refresh_footer)
        self.guidance.changed.connect(lambda value: self.negative.setEnabled(value > 1.0))
        self.guidance.changed.connect(self._refresh_footer)
        for part in self.parts:
            part.row.toggled.connect(lambda on, part=part: controller.later(partial(self._show_opened, part)) if on else None)
            part.changed.connect(partial(self._show_changed, part))
            part.changed.connect(self._refresh_footer)
        self.start_part.size_wanted.connect(self.size_field.set_size)
        self.start_part.changed.connect(lambda: self.size_field.setEnabled(not self.start_part.sets_size()))
        controller.badges_changed.connect(self.numerics_part.show_value)
        self.footer.generate.connect(self.submit)
        self.footer.several.connect(lambda count: self.submit(count=count))
        self.footer.why.connect(self._show_problem)
        self.footer.endless.connect(lambda: self.submit(endless=True))
        self.footer.in_float32.connect(lambda: self.submit(precision="float32"))

    # --- the request ------------------------------------------------------------------------------------------------

    def request(self) -> PictureRequest:
        """What the form asks for, as it stands."""
        width, height = self.size_field.size_value()
        settings = self._controller.settings
        request = PictureRequest(
            prompt=self.prompt.toPlainText().strip(),
            negative=self.negative.toPlainText().strip(),
            empty_negative=self._empty_negative,
            model=settings.last_model,
            device=settings.device,
            width=width,
            height=height,
            steps=round(self.steps.value()),
            guidance=round(self.guidance.value(), 1),
            sampler=self.sampler.value(),
            seed=self.seed.seed_for_next(),
            batch=round(self.batch.value()),
            output=settings.pictures_folder,
            inversions=self.words_note.paths(),
            numerics=self._controller.numerics,
        )
        for part in self.parts:
            request = part.put(request)
        return request

    def set_request(self, request: PictureRequest, *, seed: bool = True) -> None:
        """Fill the form from an earlier request; the model stays the selected one."""
        self.prompt.setPlainText(request.prompt)
        self.negative.setPlainText(request.negative)
        self._empty_negative = request.empty_negative
        if request.width is not None and request.height is not None:
            self.size_field.set_size(request.width, request.height)
        if request.steps is not None:
            self.steps.set_value(request.steps)
        if request.guidance is not None:
            self.guidance.set_value(request.guidance)
        self.sampler.set_value(request.sampler)
        if seed and request.seed is not None:
            self.seed.set_seed(request.seed)
        self.batch.setValue(request.batch)
        for part in self.parts:
            part.take(request)
        self._controller.words.take(request.inversions)
        self.own_values.forget()
        self._defaults_of = request.model if request.model == self._controller.settings.last_model else self._defaults_of

    def wait(self, reason: str) -> None:
        """Make no picture meanwhile; "" when it is over."""
        self._waiting = reason
        self._refresh_footer()

    def tell(self, words: str, tone: str = "muted") -> None:
        """A line below the prompts, until something in the form changes; "" for nothing to say."""
        self.taken.say(words, tone)
        self._told = _compared(self.request())

    def _hush(self) -> None:
        """What was told is no news any more."""
        if self._told is not None and not self._waiting and self._told != _compared(self.request()):
            self._told = None
            self.taken.say("")

    def take_extras(self, request: PictureRequest) -> None:
        """What follows is about a picture that was made: in its precision and with what it was made with."""
        self.numerics_part.take_precision(request.numerics.precision)
        for part in self.parts:
            if part.extra:
                part.take(request)

    def kept(self) -> str:
        """What stands in the form, for the next start."""
        request = msgspec.structs.replace(self.request(), output=None, numerics=Numerics())
        return msgspec.json.encode(request).decode()

    def _restore(self) -> None:
        """What stood here at the last close, unless something was written meanwhile."""
        left, self._left = self._left, ""
        try:
            request = msgspec.json.decode(left, type=PictureRequest) if left else None
        except msgspec.DecodeError:
            return
        if request is not None and not self.prompt.toPlainText():
            self.set_request(request)

    def submit(self, *, count: int | None = None, endless: bool = False, precision: Precision | None = None) -> bool:
        """Send the request; an empty prompt takes the first example. False when the form cannot be sent."""
        if self.refusal():
            return False
        if (short := self._shortage(precision)) and (self._shape(), self._dtype(precision)) not in self._dared:
            room.ask(self, short, lambda: self._dare(count, endless, precision))
            return False
        said = ""
        if not self.prompt.toPlainText().strip():
            self.prompt.setPlainText(examples()[0])
            self.prompt.selectAll()  # what is typed next takes its place
            said = tr("Empty prompt: using the example.")
        written = self.prompt.toPlainText()
        take_tags = partial(self.lora_part.take_tags, draws=self.style_part.draws.isChecked())
        if (prompt := take_tags(written)) is None:
            return False
        if prompt != written:
            self.prompt.setPlainText(prompt)
        if not self.style_part.take_tags(take_tags):
            return False
        request = self.request()
        if count is not None:
            request = msgspec.structs.replace(request, batch=count)
        if precision is not None:
            request = msgspec.structs.replace(request, numerics=msgspec.structs.replace(request.numerics, precision=precision))
        self.submitted.emit(request, endless)
        self.seed.after_picture()
        self.variation_part.after_picture()
        self.tell(said)
        return True

    def _dare(self, count: int | None, endless: bool, precision: Precision | None) -> None:
        """The user wants this size all the same, and is not asked again."""
        self._dared.add((self._shape(), self._dtype(precision)))
        self.submit(count=count, endless=endless, precision=precision)

    def _dtype(self, precision: Precision | None = None) -> DType:
        return "float32" if precision == "float32" else self._controller.precision[0]

    def _shortage(self, precision: Precision | None = None) -> str:
        return room.shortage(self._shape(), self._forecast(precision))

    def _forecast(self, precision: Precision | None = None) -> Forecast | None:
        made = self._pictures.measured(conditions(self._controller)) if precision is None else ()
        return self._room.forecast(self.request(), self._dtype(precision), made)

    def refusal(self) -> str:
        """Why Generate is disabled, "" when it is not."""
        error = self._controller.model_error
        if error is not None:
            return problem_words(error)
        return self._waiting or self.size_field.problem() or next(filter(None, (part.problem() for part in self.parts)), "")

    def _show_problem(self) -> None:
        """Bring what forbids a picture into view."""
        if self._controller.model_error is not None:
            self._show_opened(self.model_part)
        elif box := self.size_field.wrong():
            self._show_opened(self.size_field)
            box.setFocus(Qt.FocusReason.OtherFocusReason)
            box.selectAll()
        elif part := next((part for part in self.parts if part.problem()), None):
            part.row.setChecked(True)
            part.row.setFocus(Qt.FocusReason.OtherFocusReason)
            self._controller.later(partial(self._show_opened, part))
        else:
            self._show_opened(self.taken)

    def _read(self) -> None:
        """What the prompts say now."""
        prompt, words = self.prompt.toPlainText(), self._controller.words.fitting
        self.style_part.follow(prompt.strip(), self.negative.toPlainText().strip())
        said = self.style_part.said()
        self.counter.count(said[0], words)
        self.words_note.show_named(words, *said)
        self._hush()

    # --- model ------------------------------------------------------------------------------------------------------

    def _model_changed(self) -> None:
        controller = self._controller
        model = controller.model
        for part in (self.video_part, self.start_part, self.options_part):
            part.follow(model)
        if model is not None:
            self._take_defaults(model)
            self._restore()
            self.counter.follow(model)
            self._read()
            self.lora_part.look()
        self._refresh_footer()

    def _take_defaults(self, model: ModelFacts) -> None:
        """Size, steps, guidance and samplers of a model that was just chosen, where the user did not set others."""
        if self._defaults_of == model.id:
            return
        self._defaults_of = model.id
        self.size_field.set_native(model.native_width, model.native_height)
        self.own_values.follow(model)
        self.sampler.follow(model.samplers)

    # --- footer -----------------------------------------------------------------------------------------------------

    def learn(self, picture: PictureFacts, request: PictureRequest) -> None:
        """Remember how long a picture took; the estimate is the mean of those like the next one."""
        self._pictures.learn(picture, request)
        self._refresh_footer()

    def _shape(self) -> Shape:
        (width, height), steps = self.start_part.computed(self.size_field.size_value()), round(self.steps.value())
        hires, model = self.hires_part.hires(), self._controller.model
        if hires is None:
            return Shape(*((width, height) if model is None else computed_size(model, (width, height), {})), steps)
        return Shape(*larger(width, height, hires.scale), hires.steps or steps, width * height * steps)

    def _state_changed(self) -> None:
        state = self._controller.state
        job = state.running
        self.generate_button.set_queueing(bool(state.jobs) and (job is None or job.kind == "Generate" or len(state.jobs) > 0))
        self.numerics_part.show_value()
        self._refresh_footer()

    def _refresh_footer(self) -> None:
        model, request = self._controller.model, self.request()
        self.hires_part.clashes(hires_clash(request, model))
        self.refiner_part.clashes(refiner_clash(request))
        now = conditions(self._controller)
        times = self._pictures.times(now)
        self.footer.show_estimate(*estimate(now.model, self._shape(), round(self.batch.value()), times, now.dtype))
        found = self._forecast()
        self.footer.show_memory(found)
        problem = self.refusal()
        short = room.shortage(self._shape(), found)
        warning = "" if problem or model is None else sentences(short, size_warning(model, self._shape(), times))
        waits = tr("Pictures wait until training ends.") if self._controller.training.running else ""
        warning, tone = (warning, "danger" if short else "warn") if warning else (waits, "secondary")
        self.size_note.setText(warning)
        set_tone(self.size_note, tone)
        self.size_note.setVisible(bool(warning))
        self.footer.show_usable(problem, queueing=bool(self._controller.state.jobs))
        self._hush()

    def _show_opened(self, part: QWidget) -> None:
        """What was opened may stand below the edge."""
        self.area.ensureWidgetVisible(part, 0, 0)

    def _show_changed(self, part: FoldedPart) -> None:
        if part.row.isChecked() and part.grows:
            self._controller.later(partial(self._show_opened, part))

    def set_low(self, low: bool) -> None:
        self.prompts.set_low(low)

    def set_narrow(self, narrow: bool) -> None:
        self.model_part.row.set_compact(narrow)


def _compared(request: PictureRequest) -> PictureRequest:
    """What the user sees of it change: the seed and the precision move by themselves."""
    return msgspec.structs.replace(request, seed=None, numerics=Numerics())
