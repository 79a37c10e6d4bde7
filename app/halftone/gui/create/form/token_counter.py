"""How much of the model's reading length a prompt uses, beside its title."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtWidgets import QLabel

from halftone.contract.facts import ModelFacts
from halftone.gui import theme
from halftone.gui.background import Background
from halftone.gui.i18n import say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import set_tone
from halftone.library.add_ons.inversions import Inversion
from halftone.library.add_ons.loras import without_tags
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.prompts.prompt_syntax import notes
from halftone.library.prompts.tokens import Counter, make_counter, room_for
from halftone.library.prompts.wildcards import unfollowed


class PromptCounter(QLabel):
    """Empty where the model's tokenizer is not at hand."""

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
        self._model: ModelFacts | None = None
        self._counter: Counter | None = None
        self._prompt = ""
        self._words: Sequence[Inversion] = ()
        self.setFont(theme.current().font("caption", numbers=True))
        self.setProperty("tone", "muted")

    def follow(self, model: ModelFacts) -> None:
        """Count for this model from now on."""
        self._model, self._counter = model, None
        self._background.run(partial(make_counter, model), self._ready, receiver=self)

    def count(self, prompt: str, words: Sequence[Inversion] = ()) -> None:
        """Of this prompt, without the LoRAs that it names: these are not read. words: embeddings that it may name."""
        self._prompt, self._words = prompt, words
        if self._model is None or self._counter is None:
            self.setText("")
            return
        used = self._counter(without_tags(prompt), {one.name: one.vectors for one in words})
        room = room_for(self._model, used)
        self.setText(f"{figures.group(used)} / {figures.group(room)}")
        signs = (*notes((prompt,), weights=reads_in_chunks(self._model.family)), *unfollowed((prompt,)))
        told = [say(note) for note in signs]
        if used > room:
            told.append(tr("Only the first {0} tokens are used.", room))
        set_tone(self, "warn" if told else "muted")
        self.setToolTip("\n".join(told))

    def _ready(self, counter: Counter | None) -> None:
        self._counter = counter
        self.count(self._prompt, self._words)
