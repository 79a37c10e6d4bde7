"""File dialogs that do not stop the window (they call back when something was chosen), and words about files written."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.contract.errors import ErrorFacts, say
from halftone.contract.facts import CheckReport, ModelFacts, RepairReport
from halftone.contract.vocabulary import Layout
from halftone.gui import text
from halftone.gui.health import health_text
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.health.explain import copy_limits
from halftone.library.files.copies import SUFFIX, layout_of
from halftone.library.files.folder import INDEX
from halftone.session.state import AppState, Ended


def _open(dialog: QFileDialog, chosen: Callable[[str], object]) -> QFileDialog:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(chosen)
    dialog.open()
    return dialog


def ask_save(owner: QWidget, title: str, place: Path, kind: str, ending: str, chosen: Callable[[str], object]) -> QFileDialog:
    """Ask where to write. place: proposed file; kind: words of the filter, "" for a folder name; ending: added when left out."""
    dialog = QFileDialog(owner, title, str(place))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setFileMode(QFileDialog.FileMode.AnyFile)
    if kind:
        dialog.setNameFilter(kind)
        dialog.setDefaultSuffix(ending)
    dialog.selectFile(place.name)
    return _open(dialog, chosen)


def ask_model(owner: QWidget, chosen: Callable[[str], object]) -> QFileDialog:
    """A model to open: a file, or a diffusers folder by the list of its parts."""
    kinds = tr("Models (*.safetensors *.gguf {0})", INDEX)
    return ask_file(owner, tr("Open a model"), kinds, lambda path: chosen(str(model_of(Path(path)))))


def model_of(path: Path) -> Path:
    """The model that a chosen file stands for."""
    return path.parent if path.name == INDEX else path


def copy_place(model: ModelFacts, layout: Layout | None = None) -> tuple[Path, str, str]:
    """Propose a place for a repaired copy, with the filter's words and the ending for `ask_save`. layout: None for the model's
    own.
    """
    place = Path(model.path)
    name = f"{place.stem if layout_of(model) == 'file' else place.name}-rescaled-fp16"
    if (layout or layout_of(model)) == "file":
        return place.with_name(f"{name}{SUFFIX}"), tr("Model file (*.safetensors)"), SUFFIX.removeprefix(".")
    return place.with_name(name), "", ""


def ask_file(owner: QWidget, title: str, kinds: str, chosen: Callable[[str], object]) -> QFileDialog:
    """A file that exists. kinds: the filter."""
    dialog = QFileDialog(owner, title)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.setNameFilter(kinds)
    return _open(dialog, lambda path: chosen(str(Path(path))))


def ask_folder(owner: QWidget, start: Path, chosen: Callable[[str], object]) -> QFileDialog:
    """A folder that exists."""
    dialog = QFileDialog(owner, tr("Choose folder"), str(start))
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly, True)
    return _open(dialog, chosen)


def report_name(report: CheckReport) -> str:
    """Return the file's name without its suffix."""
    words = "".join(letter if letter.isalnum() else " " for letter in report.model.name.lower()).split()
    return "-".join((*words, "health"))


def _distance(report: RepairReport) -> str:
    """How far the copy is from what it was made of."""
    source = tr("the model with its LoRAs") if report.loras else tr("the original")
    if report.float32_error == 0:
        return tr("In FP32 it matches {0} exactly.", source)
    return tr("In FP32 it differs from {0} by {1} (relative error).", source, health_text.error_words(report.float32_error))


def copy_words(ended: Ended) -> str:
    """How writing a repaired copy ended."""
    report = ended.report
    if ended.outcome == "done" and isinstance(report, RepairReport):
        finite = tr("No NaN in FP16.") if report.float16_finite else tr("It still produces NaN in FP16.")
        saved = tr("Saved {0}. {1} tensors changed.", Path(report.path).name, report.changed_tensors)
        limits = copy_limits(report)
        return sentences(saved, _distance(report), finite, "" if limits is None else limits.text(catalogue()))
    if ended.outcome == "cancelled":
        return sentences(tr("{0}.", tr("Cancelled")), tr("No copy was written."))
    if ended.error is not None:
        return sentences(text.error_sentence(ended.error), text.error_remedy(ended.error))
    return tr("No copy was written.")


def details(state: AppState, model: ModelFacts | None, ended: Ended | None, error: ErrorFacts | None) -> str:
    """What a check that failed was about, in plain text."""
    device = state.device
    lines = [
        f"Halftone {state.version}",
        f"Device: {device.name if device else '-'}, driver {device.driver if device else '-'}",
        f"PyTorch: {device.torch_version if device else '-'}",
        f"Model: {model.name if model else '-'} ({model.fingerprint if model else '-'})",
        f"Phase: {ended.job.phase if ended else '-'}",
        *([say(error), error.details] if error is not None else []),
    ]
    return "\n".join(line for line in lines if line)
