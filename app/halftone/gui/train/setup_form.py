"""What a training depends on, as rows in groups: TrainConfig in, TrainConfig out."""

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig
from halftone.gui.create.form.form_parts import FoldedRow
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit.stock_widgets import boxed, column, hline
from halftone.gui.train.setup_fields import (
    ChoiceRow,
    FolderRow,
    NumberRow,
    RateRow,
    SwitchRow,
    TextRow,
    TrainRow,
)
from halftone.library.training_data.training_checks import settings_of

_SIZES = (256, 384, 512, 640, 768, 1024)
_SEEDS = (0, 2**32 - 1)


def has_package(name: str) -> bool:
    """Whether a package is installed; it is not imported."""
    return importlib.util.find_spec(name) is not None


def ask_folder(owner: QWidget, title: str, chosen: Callable[[str], object]) -> None:
    """Nothing waits for the answer."""
    dialog = QFileDialog(owner, title)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(lambda path: chosen(str(Path(path))))
    dialog.open()


class TrainForm(QWidget):
    """`changed`: another training would begin."""

    changed = Signal()

    def __init__(self, default_output: Callable[[], str]) -> None:
        """default_output: where LoRAs are saved while no folder is chosen."""
        super().__init__()
        self._default_output = default_output
        self._left_out: tuple[str, ...] = ()
        self._taking = self._chosen = False
        self._suited_to, self._suited = "", dict[str, int | float]()
        self.model = ChoiceRow("model", tr("Base model"), tr("Training does not change it."))
        self.pictures = FolderRow(
            "pictures",
            tr("Pictures"),
            tr("10 to 100 pictures, with captions in .txt files of the same name."),
            self.ask_pictures,
        )
        self.output = FolderRow(
            "output",
            tr("Save in"),
            "",
            self.ask_output,
        )
        self._groups = (self._first(), self._second(), self._third())
        self._more_rows = self._further()
        more = boxed(column(*self._more_rows, spacing=4, margins=(14, 4, 14, 10)))
        self.more = FoldedRow(tr("More settings"), more)
        self.rows: tuple[TrainRow, ...] = (*(one for group in self._groups for one in group), *self._more_rows)
        parts: list[QWidget] = []
        for group in self._groups:
            made = boxed(column(*group, spacing=4, margins=(14, 9, 14, 9)))
            parts += [made, hline()]
        self.setLayout(column(*parts, self.more, more, hline(), spacing=0))
        self._fill(TrainConfig(model="", pictures="", output=""))
        self.row("optimizer").changed.connect(self._optimizer_changed)
        for one in self.rows:
            one.changed.connect(self.changed)

    # --- rows -------------------------------------------------------------------------------------------------------

    def _first(self) -> tuple[TrainRow, ...]:
        native = (0, tr("Native"))
        return (
            TextRow("name", tr("Name"), tr("Also the file name.")),
            self.model,
            self.pictures,
            ChoiceRow(
                "size",
                tr("Size"),
                sentences(tr("In pixels."), tr("Larger takes more memory and time.")),
                (native, *((size, str(size)) for size in _SIZES)),
            ),
        )

    def _second(self) -> tuple[TrainRow, ...]:
        schedules = (("cosine", tr("Cosine")), ("linear", tr("Linear")), ("constant", tr("Constant")))
        eight = (("adamw8bit", tr("AdamW 8-bit")),) if has_package("bitsandbytes") else ()
        optimizers = (("adamw", "AdamW"), *eight, ("prodigy", "Prodigy"))
        return (
            NumberRow("rank", tr("Rank"), tr("Capacity and file size of the LoRA."), (1, 256)),
            NumberRow("alpha", tr("Alpha"), tr("The LoRA is scaled by alpha / rank."), (0.1, 1024), 1),
            RateRow(
                "learning_rate",
                tr("Learning rate"),
                tr("Too high breaks pictures, too low learns nothing. Prodigy: 1."),
            ),
            ChoiceRow("schedule", tr("LR scheduler"), "", schedules),
            NumberRow("steps", tr("Steps"), "", (1, 100_000)),
            NumberRow("batch", tr("Batch size"), tr("Pictures per step. More needs more memory."), (1, 64)),
            ChoiceRow(
                "optimizer",
                tr("Optimiser"),
                tr("AdamW suits most. 8-bit takes less memory. Prodigy sets its own rate."),
                optimizers,
            ),
        )

    def _third(self) -> tuple[TrainRow, ...]:
        precisions = (("auto", tr("Auto")), ("float16", "FP16"), ("bfloat16", "BF16"), ("float32", "FP32"))
        return (
            ChoiceRow(
                "precision",
                tr("Precision"),
                tr("Of the base model. The LoRA stays in FP32."),
                precisions,
            ),
            ChoiceRow(
                "loss_scale",
                tr("Loss scale"),
                tr("Keeps small gradients from vanishing. FP16 only."),
                (("auto", tr("Auto")), ("off", tr("Off"))),
            ),
            ChoiceRow(
                "guard",
                tr("NaN guard"),
                tr("Keeps NaN out of the LoRA and repeats the step with a cure."),
                (("every-step", tr("Every step")), ("off", tr("Off"))),
            ),
            NumberRow(
                "stop_after",
                tr("Pause after"),
                tr("NaN steps in a row before training pauses."),
                (1, 1000),
                unit=tr("NaN steps"),
            ),
            NumberRow("clip", tr("Clipping"), tr("Maximum gradient norm. 0: off."), (0, 100), 2),
            NumberRow(
                "save_every", tr("Save every"), tr("0: only at the end."), (0, 100_000),
                unit=tr("steps"),
            ),
            NumberRow(
                "test_every",
                tr("Test picture every"),
                tr("Each takes as long as a picture. 0: none."),
                (0, 100_000),
                unit=tr("steps"),
            ),
        )  # fmt: skip

    def _further(self) -> tuple[TrainRow, ...]:
        return (
            TextRow("word", tr("Trigger word"), tr("Added before every caption."), tr("none")),
            TextRow(
                "test_prompt", tr("Test prompt"), "", tr("a caption")
            ),
            NumberRow("test_seed", tr("Test seed"), "", _SEEDS),
            NumberRow(
                "shapes", tr("Aspect buckets"), tr("Number of aspect ratios. 1: square only."), (1, 9)
            ),
            NumberRow("repeats", tr("Repeats"), tr("Times each picture is used."), (1, 100)),
            NumberRow(
                "accumulate", tr("Gradient accumulation"), tr("Batches per step: slower, steadier."),
                (1, 64),
            ),
            NumberRow("warm_up", tr("Warm-up"), tr("Steps over which the learning rate rises."), (0, 10_000), unit=tr("steps")),
            NumberRow("weight_decay", tr("Weight decay"), tr("Pulls the weights towards zero."), (0, 1), 3),
            NumberRow(
                "snr_gamma", tr("Min-SNR"), tr("Min-SNR gamma, usually 5. 0: off."), (0, 20), 1
            ),
            NumberRow(
                "caption_dropout", tr("Caption dropout"), tr("Share of steps without a caption."), (0, 1), 2
            ),
            SwitchRow("flip", tr("Flip pictures"), tr("Also train on flipped copies. Not for faces or text.")),
            SwitchRow(
                "checkpointing", tr("Save memory"), tr("Gradient checkpointing: about a third slower.")
            ),
            NumberRow("seed", tr("Seed"), tr("Same seed, settings and device give the same LoRA."), _SEEDS),
            self.output,
        )  # fmt: skip

    def _optimizer_changed(self) -> None:
        """Prodigy finds its own rate, and is given 1; nobody's own rate is touched."""
        rate, usual = self.row("learning_rate"), TrainConfig(model="", pictures="", output="").learning_rate
        own = self.row("optimizer").value() == "prodigy"
        if not self._taking and rate.value() == (usual if own else 1.0):
            rate.set_value(1.0 if own else usual)

    def row(self, key: str) -> TrainRow:
        return next(one for one in self.rows if one.key == key)

    # --- values -----------------------------------------------------------------------------------------------------

    def config(self) -> TrainConfig:
        """Return the form's values; a learning rate that is not a number is NaN."""
        values: dict[str, Any] = {one.key: one.value() for one in self.rows}
        values["output"] = values["output"] or self._default_output()
        values["name"] = values["name"] or tr("My LoRA")
        values["model"] = values["model"] or ""
        return TrainConfig(**values, left_out=self._left_out)

    def take(self, config: TrainConfig) -> None:
        """Show these, which were chosen."""
        self._fill(config)
        self._chosen = True

    def suit(self, model: ModelFacts) -> None:
        """Settings that this model is known to learn well with, where nobody chose others."""
        if model.id == self._suited_to:
            return
        usual, wanted = TrainConfig(model="", pictures="", output=""), settings_of(model)
        for key in {*self._suited, *wanted} if not self._chosen else ():
            one = self.row(key)
            if one.value() == self._suited.get(key, getattr(usual, key)):
                one.set_value(wanted.get(key, getattr(usual, key)))
        self._suited_to, self._suited, self._chosen = model.id, wanted, False

    def _fill(self, config: TrainConfig) -> None:
        self._taking = True
        for one in self.rows:
            one.set_value(getattr(config, one.key))
        self._taking = False
        self._left_out = config.left_out

    def leave_out(self, names: Sequence[str]) -> None:
        """Pictures of the folder that are not used."""
        if tuple(names) != self._left_out:
            self._left_out = tuple(names)
            self.changed.emit()

    def show_models(self, models: Sequence[ModelFacts], chosen: str) -> None:
        """chosen: taken while none is."""
        self.model.fill([(model.id, model.name) for model in models])
        if not self.model.value() or not any(model.id == self.model.value() for model in models):
            self.model.set_value(chosen)

    def problem(self) -> str:
        """Why no training can begin, "" when one can."""
        if not self.pictures.value():
            return tr("Choose a folder with pictures.")
        name = self.row("name").value()
        if name != Path(name).name or name.startswith("."):
            return tr("The name cannot contain slashes or start with a dot.")
        return next(filter(None, (one.problem() for one in self.rows)), "")

    def lock(self, on: bool, words: dict[str, str]) -> None:
        """words: of rows that tell more than their value while training runs."""
        for one in self.rows:
            one.lock(on, words.get(one.key, ""))

    def ask_pictures(self) -> None:
        ask_folder(self, tr("Choose folder"), self.choose_pictures)

    def ask_output(self) -> None:
        """Ask where to save the LoRA."""
        ask_folder(self, tr("Choose folder"), self.output.set_value)

    def choose_pictures(self, folder: str) -> None:
        """Another folder; what was left out of the one before is forgotten."""
        if folder != self.pictures.value():
            self._left_out = ()
        self.pictures.set_value(folder)
