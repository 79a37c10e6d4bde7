"""The prompts of the Create form, how much of the model's reading length they use, and the notes on them."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import POCKET
from halftone.contract.wording import Words
from halftone.gui import theme
from halftone.gui.background import Background
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.preset_menu import PresetButton
from halftone.gui.create.form.prompt_edit import PromptEdit
from halftone.gui.create.form.prompt_history import PromptHistory
from halftone.gui.create.form.prompt_words import PromptWords
from halftone.gui.i18n import listed, say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.actions import with_keys
from halftone.gui.kit.message_bars import announce
from halftone.gui.kit.stock_widgets import column, icon_button, label, row, set_tone
from halftone.library.add_ons.inversions import Inversion, named_of
from halftone.library.add_ons.loras import without_tags
from halftone.library.prompts.prompt_syntax import OWN, Rules, family_notes
from halftone.library.prompts.tokens import Counter, make_counter, room_for
from halftone.library.prompts.wildcards import unfollowed
from halftone.settings.places import resources

_HIGH, _LOW, _NEGATIVE = 104, 66, 38
_AT_ONCE: Final = 2000
"""Letters that are counted on the spot: a longer prompt takes tens of milliseconds, and the window never waits."""


def examples() -> tuple[str, ...]:
    """The prompts that the demo model is good at."""
    return tuple(msgspec.json.decode((resources() / "pocket" / "examples.json").read_bytes(), type=list[str]))


class PromptsPart(QWidget):
    """`words_note`: the embeddings that they name; `taken`: what became of settings that were dropped or pasted."""

    def __init__(self, binding: Binding) -> None:
        super().__init__()
        self.prompt = PromptEdit(tr("Prompt"), "", tr("For example: {0}", examples()[0]))
        self.counter = PromptCounter(binding.controller.background)
        self.negative = PromptEdit(tr("Negative prompt"), "", tr("What to leave out"))
        self.no_effect = label(tr("No effect at guidance 1."), "caption", "muted")
        self.demo = label(tr("Pocket draws sun, moon, hills, sea, trees, house, boat."), "caption", "muted", wrap=True)
        self.demo.hide()
        self.negative.setFixedHeight(theme.grown(_NEGATIVE))
        self.negative.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.words_note, self.taken = WordsNote(), TakenNote()
        earlier = with_keys(tr("Earlier prompts"), "Alt+Up")
        self.history_button = icon_button("clock", earlier, size=14, clicked=self._open_history)
        self.presets = PresetButton(binding)
        self.words = PromptWords(binding.controller, self)
        for edit in (self.prompt, self.negative):
            edit.known = self.words.known
        self.prompt.earlier = lambda: binding.controller.state.history.prompts
        self.setLayout(
            column(
                row(label(tr("Prompt"), "small", "secondary"), -1, self.counter, self.history_button, self.presets, spacing=4),
                self.prompt,
                self.demo,
                2,
                label(tr("Negative prompt"), "small", "secondary"),
                self.negative,
                self.no_effect,
                self.words_note,
                self.taken,
                spacing=5,
                margins=(14, 5, 14, 10),
            )
        )
        binding.bind("prompt", self.prompt)
        binding.bind("negative", self.negative)
        binding.watch(self._show_effect, "guidance")
        self.set_low(False)

    def _show_effect(self, guidance: float) -> None:
        self.negative.setEnabled(guidance > 1.0)
        self.no_effect.setHidden(guidance > 1.0)

    def follow(self, model: ModelFacts) -> None:
        """Count for this model, and say what the demo model can draw."""
        self.counter.follow(model)
        self.demo.setVisible(model.id == POCKET)

    def _open_history(self) -> None:
        menu = PromptHistory(self, self.prompt.earlier())
        menu.chosen.connect(self._use)
        menu.show_under(self.prompt)

    def _use(self, prompt: str) -> None:
        self.prompt.use(prompt)
        self.prompt.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_low(self, low: bool) -> None:
        """In a low window the prompt is 66 high."""
        self.prompt.setFixedHeight(theme.grown(_LOW if low else _HIGH))
        self.prompt.set_tight(low)


class _Counted(NamedTuple):
    """Tokens of a prompt, how many the model reads, and what it does not follow."""

    used: int
    most: int
    notes: tuple[Words, ...]


def _counted(model: ModelFacts, counter: Counter, prompt: str, words: Sequence[Inversion], rules: Rules) -> _Counted:
    used = counter(without_tags(prompt), {one.name: one.vectors for one in words}, rules)
    notes = (*family_notes((prompt,), model.family, rules), *unfollowed((prompt,)))
    return _Counted(used, room_for(model, used, rules), notes)


class PromptCounter(QLabel):
    """Empty where the model's tokenizer is not at hand."""

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
        self._model: ModelFacts | None = None
        self._counter: Counter | None = None
        self._prompt = ""
        self._words: Sequence[Inversion] = ()
        self._rules = OWN
        self.setFont(theme.current().font("caption", numbers=True))
        self.setProperty("tone", "muted")

    def follow(self, model: ModelFacts) -> None:
        """Count for this model from now on."""
        self._model, self._counter = model, None
        self._background.run(partial(make_counter, model), self._ready, receiver=self)

    def count(self, prompt: str, words: Sequence[Inversion] = (), rules: Rules = OWN) -> None:
        """Of this prompt, without the LoRAs that it names: these are not read. words: embeddings that it may name."""
        self._prompt, self._words, self._rules = prompt, words, rules
        if self._model is None or self._counter is None:
            self.setText("")
            return
        work = partial(_counted, self._model, self._counter, prompt, words, rules)
        if len(prompt) <= _AT_ONCE:
            self._show(work())
        else:
            self._background.run(work, partial(self._show_if, prompt), receiver=self)

    def _show_if(self, prompt: str, counted: "_Counted") -> None:
        """Drop the count of a prompt that has changed since."""
        if prompt == self._prompt:
            self._show(counted)

    def _show(self, counted: "_Counted") -> None:
        self.setText(f"{figures.group(counted.used)} / {figures.group(counted.most)}")
        warnings = [say(note) for note in counted.notes]
        if counted.used > counted.most:
            warnings.append(tr("Only the first {0} tokens are used.", counted.most))
        set_tone(self, "warn" if warnings else "muted")
        self.setToolTip("\n".join(warnings))

    def _ready(self, counter: Counter | None) -> None:
        self._counter = counter
        self.count(self._prompt, self._words, self._rules)


class TakenNote(QLabel):
    """What became of settings from elsewhere, until the next ones or until a picture is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.setFont(theme.current().font("caption"))
        self.setProperty("tone", "muted")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.hide()

    def say(self, words: str, tone: str = "muted") -> None:
        """ "" for nothing to say. tone: "warn" where something was not taken."""
        set_tone(self, tone)
        self.setText(words)
        self.setVisible(bool(words))
        if words:
            announce(self, words)


class WordsNote(QLabel):
    """Which embeddings the prompts name; hidden where none is named."""

    def __init__(self) -> None:
        super().__init__()
        self.setFont(theme.current().font("caption"))
        self.setProperty("tone", "muted")
        self.setWordWrap(True)
        self.hide()

    def show_named(self, known: Sequence[Inversion], *texts: str, rules: Rules = OWN) -> None:
        """Show which of the known embeddings the texts name."""
        named = named_of(known, texts, rules)
        self.setText(tr("Embeddings in use: {0}", listed(*(one.name for one in named))) if named else "")
        self.setToolTip("\n".join(one.path for one in named))
        self.setVisible(bool(named))
