"""Words and icons of the Models page: places, sorts, and one line about an entry."""

from typing import Final

from halftone.contract.vocabulary import POCKET
from halftone.gui import text
from halftone.gui.i18n import listed, say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import health_word
from halftone.gui.text import error_remedy, error_sentence
from halftone.library.index.entries import Entry
from halftone.session.models.listing import Place, Row, Sort, short_family
from halftone.session.models.watched import Library

PLACE_ICONS: Final[dict[Place, str]] = {
    "Checkpoints": "boxes",
    "LoRA": "layers",
    "VAE": "scan",
    "ControlNet": "spline",
    "Embeddings": "tag",
    "Upscalers": "image-upscale",
    "Text encoders": "type",
    "Other": "package",
    "recent": "clock",
    "favourites": "star",
    "duplicates": "files",
    "unreadable": "file-x",
    "damaged": "octagon-x",
    "pickles": "shield-alert",
    "misplaced": "folder-input",
}


def place_words(place: Place) -> str:
    """What a place is called in the list at the left."""
    return {
        "Checkpoints": tr("Checkpoints"),
        "LoRA": tr("LoRA"),
        "VAE": tr("VAE"),
        "ControlNet": tr("ControlNet"),
        "Embeddings": tr("Embeddings"),
        "Upscalers": tr("Upscalers"),
        "Text encoders": tr("Text encoders"),
        "Other": tr("Other"),
        "recent": tr("Recently used"),
        "favourites": tr("Favourites"),
        "duplicates": tr("Duplicates"),
        "unreadable": tr("Unreadable"),
        "damaged": tr("NaN in the weights"),
        "pickles": tr("Pickle files"),
        "misplaced": tr("Wrong folder"),
    }[place]


def place_tip(place: Place) -> str:
    """Why something is in a list of problems."""
    return {
        "duplicates": tr("Files with the same content."),
        "unreadable": tr("Damaged or incomplete files."),
        "damaged": tr("Download these files again."),
        "pickles": tr("They can run code. Convert them to safetensors."),
        "misplaced": tr("Other programs look for them in another folder."),
    }.get(place, "")


def sort_words(sort: Sort) -> str:
    return {
        "used": tr("Last used"),
        "name": tr("Name"),
        "family": tr("Family"),
        "size": tr("File size"),
        "health": tr("Health"),
        "precision": tr("Precision"),
    }[sort]


def family_words(family: str) -> str:
    """Names of families are the same everywhere, but for what has none."""
    return tr("Other") if family == "Other" else family


def stored_words(entry: Entry) -> str:
    """FP16, Q4_K, or the scheme of packed weights; "" where nothing tells."""
    if entry.quantised or entry.dtype in ("", "none"):
        return entry.quantised
    return dtype_words(entry.dtype)


def dtype_words(dtype: str) -> str:
    """FP16, Q4_K."""
    return (
        "FP8"
        if dtype.startswith("float8")
        else text.TYPE_NAMES.get(dtype, dtype.upper() if dtype.startswith(("q", "iq")) else dtype)
    )


def entry_line(entry: Entry) -> str:
    """SDXL · FP16 · 6.9 GB. The demo model's name says what it is."""
    family = "" if entry.path == POCKET else entry.base or (short_family(entry.family) if entry.family else "")
    if entry.pickle:
        family = tr("Pickle file")
    return " · ".join(filter(None, (family, stored_words(entry), figures.size(entry.size))))


def problem_words(row: Row) -> tuple[str, str]:
    """What is wrong with a file and what to do; "" twice for nothing."""
    entry = row.entry
    if row.beside:
        return tr("Pickle file"), tr("It can run code when it is opened. {0} lies beside it.", row.beside)
    if entry.pickle:
        return tr("Pickle file"), tr("It can run code when it is opened. Convert it to safetensors to use it.")
    if entry.error is not None:
        return error_sentence(entry.error), error_remedy(entry.error)
    return "", ""


def weights_words(library: Library, path: str) -> tuple[str, str, str]:
    """Icon, tone and words about the weights of a file, as far as they were read."""
    if library.weighing is not None and library.weighing[0] == path:
        done, most = library.weighing[1:]
        return "loader-circle", "accent-text", tr("Reading weights: {0} %", 100 * done // most if most else 0)
    found = library.weights.get(path)
    if found is None:
        return "circle-dashed", "unknown", tr("Weights not checked.")
    if found.error is not None:
        return "octagon-x", "danger", error_sentence(found.error)
    if found.nonfinite:
        return "octagon-x", "danger", tr("{0} tensors hold NaN.", found.nonfinite, one="1 tensor holds NaN.")
    if found.clipped:
        many = tr("{0} tensors sit at the FP16 limit.", found.clipped, one="1 tensor sits at the FP16 limit.")
        return "triangle-alert", "warn", many
    return "circle-check", "ok", tr("No NaN. Largest weight {0}.", figures.peak(found.peak))


def convert_words(library: Library, path: str) -> str:
    """How far the conversion of a file is; "" while it is not converted."""
    if library.converting is None or library.converting[0] != path:
        return ""
    done, most = library.converting[1:]
    return tr("Converting: {0} %", 100 * done // most if most else 0)


def row_words(row: Row) -> str:
    """What a screen reader calls a card."""
    state = tr("Model health: {0}", health_word(row.state)) if row.badge is not None else ""
    headroom = tr("headroom {0}", figures.bits(row.badge.room_bits)) if row.badge and row.badge.room_bits is not None else ""
    broken = tr("Unreadable") if row.entry.error is not None else ""
    star = tr("Favourite") if row.mark.favourite else ""
    return listed(*filter(None, (row.entry.name, entry_line(row.entry), state, headroom, broken, star)))


def row_tip(row: Row) -> str:
    """Everything about a card in full."""
    what, remedy = problem_words(row)
    health = "" if row.badge is None else health_word(row.state)
    if row.badge is not None and row.badge.room_bits is not None:
        health = listed(health, tr("headroom {0}", figures.bits(row.badge.room_bits)))
    reason = say(row.badge.reason) if row.badge is not None else ""
    return "\n".join(filter(None, (row.entry.name, entry_line(row.entry), health, reason, what, remedy)))


def use_words(row: Row) -> str:
    """What the main button does with an entry; "" for what Create cannot use."""
    if row.entry.error is not None or row.entry.pickle:
        return ""
    usable = ("Checkpoints", "LoRA", "VAE", "ControlNet", "Embeddings", "Upscalers")
    return tr("Use in Create") if row.entry.shelf in usable else ""
