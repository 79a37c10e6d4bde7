"""The left panel of Create: model, prompt, size, steps, seed and the pinned footer with estimate and Generate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import BATCH_RANGE, GUIDANCE_RANGE, STEPS_RANGE
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType, Precision
from halftone.gui.controller import Controller
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.form_fields import SeedField, SizeField, limit_note
from halftone.gui.create.form.form_footer import Footer
from halftone.gui.create.form.memory_estimate import ask, shortage_words
from halftone.gui.create.form.model_part import ModelPart, OwnValues
from halftone.gui.create.form.model_picker import problem_words
from halftone.gui.create.form.prompt_fields import PromptsPart, examples
from halftone.gui.create.form.sampler_fields import SamplerField
from halftone.gui.create.form.time_estimate import estimate, size_warning
from halftone.gui.create.rows.controlnet_row import ControlPart
from halftone.gui.create.rows.embedding_row import EmbeddingPart
from halftone.gui.create.rows.folded_row import FoldedPart, said_of
from halftone.gui.create.rows.hires_row import HiresPart
from halftone.gui.create.rows.ip_adapter_row import IpAdapterPart
from halftone.gui.create.rows.lora_row import LoraPart
from halftone.gui.create.rows.options_row import OptionsPart
from halftone.gui.create.rows.part_group import PartGroup
from halftone.gui.create.rows.precision_row import NumericsPart
from halftone.gui.create.rows.replaced_row import RefinerPart, TransformerPart, UpscalePart, VaePart
from halftone.gui.create.rows.start_picture_row import StartPart
from halftone.gui.create.rows.style_row import StylePart
from halftone.gui.create.rows.variation_row import VariationPart
from halftone.gui.create.rows.video_row import VideoPart
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, hline, label, row, scrolling, set_tone, surface
from halftone.gui.text import problem_text
from halftone.library.add_ons.unread_inversions import check_named
from halftone.library.prompts.prompt_syntax import rules_of
from halftone.library.sampler_options import finds_steps
from halftone.session.pictures.draft import (
    Draft,
    Seed,
    after_picture,
    from_request,
    sets_size,
    to_request,
    unused,
    usable,
    with_extras,
    written,
)
from halftone.session.pictures.draft_problems import problems
from halftone.session.pictures.memory_estimate import shortage
from halftone.session.pictures.picture_time import Shape, next_shape


class CreateForm(QWidget):
    """Everything that a picture depends on. `submitted` carries the request and whether to go on until stopped."""

    submitted = Signal(object, bool)
    submitting = Signal()
    """The draft is about to be sent: what is not in it yet goes there now."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._binding = Binding(controller, self)
        self._model: ModelFacts | None = None
        self._waiting = ""
        self._noted = False
        self._compared: object = None
        self._build()
        self._connect()
        self._model_changed()

    # --- building ---------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        binding = self._binding
        self.model_part = ModelPart(self._controller)
        prompts = self.prompts = PromptsPart(binding)
        self.prompt, self.negative, self.counter = prompts.prompt, prompts.negative, prompts.counter
        self.words_note, self.taken = prompts.words_note, prompts.taken
        size_part, sampling_part = self._size_part(), self._sampling_part()
        self.lora_part, self.vae_part = LoraPart(binding), VaePart(binding)
        self.start_part, self.transformer_part = StartPart(binding), TransformerPart(binding)
        self.control_part, self.video_part = ControlPart(binding), VideoPart(binding)
        self.hires_part, self.refiner_part = HiresPart(binding), RefinerPart(binding)
        self.ip_adapter_part, self.style_part = IpAdapterPart(binding), StylePart(binding)
        self.variation_part, self.options_part = VariationPart(binding), OptionsPart(binding)
        self.numerics_part = NumericsPart(binding)
        self.embedding_part = EmbeddingPart(binding)
        extras = (self.lora_part, self.control_part, self.ip_adapter_part, self.embedding_part)
        self.upscale_part = UpscalePart(binding)
        finish = (self.hires_part, self.refiner_part, self.upscale_part)
        advanced = (self.variation_part, self.vae_part, self.transformer_part, self.video_part, self.options_part)
        self.groups = (
            PartGroup(self._controller, "extras", tr("Extras"), extras),
            PartGroup(self._controller, "finish", tr("Finish"), finish),
            PartGroup(self._controller, "advanced", tr("Advanced"), (*advanced, self.numerics_part)),
        )
        self.parts: tuple[FoldedPart, ...] = (self.style_part, self.start_part, *extras, *finish, *advanced, self.numerics_part)
        self.own_values = OwnValues(binding)
        self.unused_note = label("", "caption", "muted", wrap=True)
        self.unused_note.setContentsMargins(14, 0, 14, 10)
        self.unused_note.hide()
        body = QWidget()
        body.setLayout(
            column(
                self.model_part,
                self.own_values,
                self.unused_note,
                hline(),
                prompts,
                hline(),
                *self.style_part.alone(),
                size_part,
                hline(),
                sampling_part,
                hline(),
                *self.start_part.alone(),
                *self.groups,
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
        self._binding.bind("size", self.size_field)
        self.size_note = label("", "caption", "warn", wrap=True)
        self.size_note.hide()
        made = QWidget()
        words = label(tr("Size"), "small", "secondary")
        made.setLayout(column(words, self.size_field, self.size_note, spacing=6, margins=(14, 8, 14, 10)))
        return made

    def _sampling_part(self) -> QWidget:
        """How a picture is made: steps, guidance, sampler, seed and how many."""
        steps_tip = sentences(tr("More steps add detail."), tr("{0} to {1}.", *map(figures.group, STEPS_RANGE)))
        self.steps = self._binding.slider("steps", tr("Steps"), steps_tip, (1, 150))
        self.steps_note = label("", "caption", "muted", wrap=True)
        self.steps_note.hide()
        guidance_range = tr("{0} to {1}.", *map(figures.group, GUIDANCE_RANGE))
        guidance_tip = sentences(tr("How closely to follow the prompt (CFG scale)."), guidance_range)
        self.guidance = self._binding.slider("guidance", tr("Guidance"), guidance_tip, (1, 30), 0.1)
        self.sampler, self.seed = SamplerField(), SeedField(self._newest_seed)
        batch_tip = sentences(tr("Number of pictures."), tr("{0} to {1}.", *map(figures.group, BATCH_RANGE)))
        self.batch = self._binding.number("batch", tr("Batch"), batch_tip, width=68)
        self.batch_note = limit_note(self.batch, tr("Batch"))
        self._binding.bind("sampler", self.sampler)
        self._binding.bind("seed", self.seed)
        seed_column = column(label(tr("Seed"), "small", "secondary"), self.seed, spacing=5)
        batch_column = column(label(tr("Batch"), "small", "secondary"), self.batch, spacing=5)
        bottom = row(seed_column, batch_column, spacing=8)
        bottom.setStretch(0, 1)
        sliders = column(self.steps, self.steps_note, self.guidance, spacing=4)
        made = QWidget()
        made.setLayout(
            column(sliders, self.sampler, column(bottom, self.batch_note, spacing=2), spacing=10, margins=(14, 8, 14, 10))
        )
        return made

    def _show_steps_note(self) -> None:
        """Say under the steps where the sampler does not use their number."""
        name = finds_steps(usable(self._draft, self._model).sampler)
        self.steps_note.setText(tr("No effect: {0} finds its steps while it runs.", name) if name else "")
        self.steps_note.setVisible(name is not None)

    def _newest_seed(self) -> int | None:
        latest = self._controller.state.history.latest
        return None if latest is None else latest.facts.seed

    def _connect(self) -> None:
        controller = self._controller
        controller.models_changed.connect(self._model_changed)
        controller.model_selected.connect(self._model_changed)
        controller.settings_changed.connect(self.numerics_part.show_value)
        controller.changed.connect(self._state_changed)
        controller.estimates_changed.connect(self._refresh_footer)
        controller.badges_changed.connect(self._state_changed)  # another precision, or a cure that was applied
        controller.embeddings_changed.connect(self._read)
        binding = self._binding
        binding.watch(self._read, "prompt", "negative", "styles", "options")
        binding.watch(self._rendered, *(name for name in Draft.__struct_fields__ if name not in ("prompt", "negative")))
        for made in (*self.parts, *self.groups):
            made.restore()
        for part in self.parts:
            part.row.toggled.connect(partial(self._toggled, part))
            part.changed.connect(partial(self._show_changed, part))
            part.changed.connect(lambda: None if binding.rendering else self._refresh_footer())
        controller.badges_changed.connect(self.numerics_part.show_value)
        self.prompts.presets.said.connect(self.tell)
        self.prompts.words.refused.connect(lambda why: self.tell(why, "warn"))
        self.footer.generate.connect(self.submit)
        self.footer.several.connect(lambda count: self.submit(count=count))
        self.footer.why.connect(self._show_problem)
        self.footer.remove.connect(self._remove)
        self.footer.endless.connect(lambda: self.submit(endless=True))
        self.footer.in_float32.connect(lambda: self.submit(precision="float32"))

    # --- the request ------------------------------------------------------------------------------------------------

    @property
    def _draft(self) -> Draft:
        return self._binding.draft

    def edit(self, **changes: Any) -> None:
        """Give fields of the draft other values."""
        self._controller.session.drafting.edit(**changes)

    @property
    def upscaler(self) -> str:
        """Return the upscale model for the next pictures, "" for none."""
        return usable(self._draft, self._model).upscaler or ""

    def request(self) -> PictureRequest:
        """What the form asks for, as it stands."""
        controller = self._controller
        return to_request(self._draft, controller.settings, controller.numerics, self._model, controller.state.embeddings.fitting)

    def set_request(self, request: PictureRequest) -> None:
        """Fill the form from an earlier request; the model stays the selected one."""
        self._binding.put(from_request(self._draft, request, self._controller.settings.last_model))

    def wait(self, reason: str) -> None:
        """Make no picture meanwhile; "" when it is over."""
        self._waiting = reason
        self._refresh_footer()

    def tell(self, words: str, tone: str = "muted") -> None:
        """A line below the prompts, until something in the form changes; "" for nothing to say."""
        self._hush()
        self.taken.say(words, tone)
        self._noted = True

    def _hush(self) -> None:
        """Clear the line and the refusals once the user has changed something."""
        before, self._compared = self._compared, self._visible()
        if before == self._compared:
            return
        for part in self.parts:
            part.hush()
        if self._noted and not self._waiting:
            self._noted = False
            self.taken.say("")

    def _visible(self) -> object:
        """What the user sees change: the seed moves by itself, and the model's own values come with it."""
        draft = msgspec.structs.replace(self._draft, seed=Seed(), model="", defaults=None, own=())
        return draft, self._controller.settings.last_model

    def take_extras(self, request: PictureRequest) -> None:
        """What follows is about a picture that was made: in its precision and with what it was made with."""
        self.numerics_part.take_precision(request.numerics.precision)
        self._binding.put(with_extras(self._draft, request.extras))

    def submit(
        self,
        *,
        count: int | None = None,
        endless: bool = False,
        precision: Precision | None = None,
        send: Callable[[PictureRequest], object] | None = None,
        checked: Sequence[PictureRequest] | None = None,
    ) -> bool:
        """Send the request; before the first picture an empty prompt takes the first example. False when the form cannot be sent.
        send: takes the request in place of `submitted`; checked: the pictures that have to fit into memory, None for the one of
        the form.
        """
        self.submitting.emit()
        if self.refusal():
            return False
        lacking = self._controller.session.estimates.shortage((self.request(),) if checked is None else checked, precision)
        if lacking is not None:
            again = partial(self.submit, count=count, endless=endless, precision=precision, send=send, checked=())
            ask(self, shortage_words(lacking[0]), lambda: self._accept(lacking[0].shape, lacking[1], again))
            return False
        said = ""
        if not self._draft.prompt.strip() and self._controller.state.history.latest is None:
            self.edit(prompt=examples()[0])
            self.prompt.selectAll()  # what is typed next takes its place
            said = tr("Empty prompt: using the example.")
        take_tags = partial(self.lora_part.take_tags, draws=self._draft.draws)
        if (prompt := take_tags(self._draft.prompt)) is None:
            return False
        self.edit(prompt=prompt)
        if not self.style_part.take_tags(take_tags):
            return False
        request = self.request()
        if not self._check_embeddings(request):
            return False
        if count is not None:
            request = msgspec.structs.replace(request, batch=count)
        if precision is not None:
            request = msgspec.structs.replace(request, numerics=msgspec.structs.replace(request.numerics, precision=precision))
        self.tell(said)
        if send is None:
            self.submitted.emit(request, endless)
        else:
            send(request)
        self._binding.put(after_picture(self._draft))
        return True

    def _check_embeddings(self, request: PictureRequest) -> bool:
        """Whether those that the prompts name are there; says which is not."""
        try:
            if self._model is not None:
                named, rules = written(self._draft), rules_of(request.options)
                known = [one.path for one in self._controller.state.embeddings.known]
                check_named(named, request.inversions, request.loras, self._model, rules, known)
        except HalftoneError as error:
            self.tell(said_of(error), "warn")
            return False
        return True

    def _accept(self, shape: Shape, dtype: DType, again: Callable[[], object]) -> None:
        """The user wants this size all the same."""
        self._controller.session.estimates.accept(shape, dtype)
        again()

    def refusal(self) -> str:
        """Why Generate is disabled, "" when it is not."""
        error = self._controller.model_error
        if error is not None:
            return problem_words(error)
        hindering = self._hindering()
        return self._waiting or self.size_field.problem() or (hindering.problem() if hindering is not None else "")

    def _hindering(self) -> FoldedPart | None:
        """Return the first part that has a problem."""
        return next((part for part in self.parts if part.problem()), None)

    def _removal(self) -> Callable[[], object] | None:
        """Return what removes the reason for which Generate is disabled; None where that is nothing to remove."""
        part = self._hindering()
        return part.removal if part is not None and part.problem() == self.refusal() else None

    def _remove(self) -> None:
        if (removal := self._removal()) is not None:
            removal()

    def _show_problem(self) -> None:
        """Bring what forbids a picture into view."""
        if self._controller.model_error is not None:
            self._show_opened(self.model_part)
        elif box := self.size_field.wrong():
            self._show_opened(self.size_field)
            box.setFocus(Qt.FocusReason.OtherFocusReason)
            box.selectAll()
        elif part := self._hindering():
            part.open()
            part.row.setFocus(Qt.FocusReason.OtherFocusReason)
            QTimer.singleShot(0, self, partial(self._show_opened, part))
        else:
            self._show_opened(self.taken)

    def _read(self, *_: object) -> None:
        """What the prompts say now."""
        said, words = written(self._draft), self._controller.state.embeddings.fitting
        self.counter.count(said[0], words, rules_of(self._draft.options))
        self.words_note.show_named(words, *said, rules=rules_of(self._draft.options))
        self._hush()

    # --- model ------------------------------------------------------------------------------------------------------

    def _model_changed(self) -> None:
        model = self._controller.model
        self.follow(model)
        if model is not None:
            self.prompts.follow(model)
            self._read()

    def follow(self, model: ModelFacts | None) -> None:
        """Show the draft with what there is of this model."""
        self._model = model
        self._binding.quietly(self._follow)
        self._rendered()

    def _follow(self) -> None:
        if self._model is not None:
            self.size_field.set_native(self._model.native_width, self._model.native_height)
            self.sampler.follow(self._model.samplers)
            self.sampler.set_value(self._draft.sampler)
        for made in (*self.parts, *self.groups):
            made.follow(self._model)

    def _rendered(self, *_: object) -> None:
        """The widgets show the draft; what it lacks follows from all of it."""
        if self._model is not None:
            self.own_values.follow(self._model)
        titles = {part.part_name: part.title for part in self.parts}
        left = [titles[name] for name in unused(self._draft, self._model)]
        self.unused_note.setText(tr("Not used by {0}: {1}.", self._model.name, listed(*left)) if left and self._model else "")
        self.unused_note.setVisible(bool(self.unused_note.text()))
        self.size_field.setEnabled(not sets_size(self._draft, self._model))
        self._show_steps_note()
        found = problems(self._draft, self._model)
        for part in self.parts:
            part.show_problem(problem_text(found.get(part.field)))
        self._refresh_footer()

    # --- footer -----------------------------------------------------------------------------------------------------

    def _shape(self) -> Shape:
        return next_shape(usable(self._draft, self._controller.model), self._controller.model, self.start_part.computed())

    def _state_changed(self) -> None:
        state = self._controller.state
        self.generate_button.set_queueing(bool(state.jobs), replacing=any(job.held for job in state.jobs))
        self.numerics_part.show_value()
        self._refresh_footer()

    def _refresh_footer(self) -> None:
        model, estimates, shape = self._controller.model, self._controller.session.estimates, self._shape()
        now, found = estimates.conditions(), estimates.memory(self.request())
        times = self._controller.state.history.timed.times(now)
        self.footer.show_estimate(*estimate(now.model, shape, self._draft.batch, times, now.dtype))
        self.footer.show_memory(found)
        problem = self.refusal()
        short = shortage_words(shortage(shape, found))
        warning = "" if problem or model is None else sentences(short, size_warning(model, shape, times))
        waits = tr("Pictures wait until training ends.") if self._controller.session.training.running else ""
        warning, tone = (warning, "danger" if short else "warn") if warning else (waits, "secondary")
        self.size_note.setText(warning)
        set_tone(self.size_note, tone)
        self.size_note.setVisible(bool(warning))
        queueing = bool(self._controller.state.jobs)
        self.footer.show_usable(problem, queueing=queueing, removable=self._removal() is not None)
        for part in self.parts:  # the footer has the reason already, and leads to the row
            part.note.setVisible(part.note.text() not in ("", problem))
        self._hush()

    def _toggled(self, part: FoldedPart, on: bool) -> None:
        """Scroll to what opened, once it is laid out and if the form is still there."""
        if on:
            QTimer.singleShot(0, self, partial(self._show_opened, part))

    def _show_opened(self, part: QWidget) -> None:
        """What was opened may stand below the edge."""
        self.area.ensureWidgetVisible(part, 0, 0)

    def _show_changed(self, part: FoldedPart) -> None:
        if part.row.isChecked() and part.grows:
            QTimer.singleShot(0, self, partial(self._show_opened, part))

    def set_low(self, low: bool) -> None:
        self.prompts.set_low(low)

    def set_narrow(self, narrow: bool) -> None:
        self.model_part.row.set_compact(narrow)
