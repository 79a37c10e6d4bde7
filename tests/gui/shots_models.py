"""Pictures of the Models page: `python -m tests.gui.shots_models FOLDER [name …]`, as `tests.gui.shots` makes those of Create."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import msgspec
from PySide6.QtCore import Qt
from tests.gui import lists
from tests.gui.shots import Stage, landscape, shoot_all

from halftone.contract.errors import ErrorFacts
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.gui.models.models_page import ModelsPage
from halftone.health.judge import Badge
from halftone.library.families.recognise import Kind
from halftone.library.index.descriptions import Description
from halftone.library.index.entries import Entry, PartFile
from halftone.library.index.marks import Mark
from halftone.library.index.programs import Install
from halftone.session.events import Replaced
from halftone.session.models.healths import Health, Healths, InPrecision
from halftone.session.models.watched import Library, Watched

_NOW: Final = 1_790_000_000.0
_FAMILIES: Final = {"SDXL": "SDXL", "SD 1.5": "Stable Diffusion 1.x", "FLUX": "FLUX", "SD 3.5": "SD 3", "Sana": "Sana"}
_CHECKPOINTS: Final = (
    ("Meridian XL 2.1", "SDXL", "float16", 6.9, "overflows", -1.7),
    ("Harbor XL 1.0", "SDXL", "float16", 6.9, "healthy", 3.6),
    ("Paperlight 1.5", "SD 1.5", "float16", 2.1, "healthy", 5.2),
    ("Nightfall", "FLUX", "bfloat16", 23.8, "cured", 4.1),
    ("Clayworks", "Sana", "bfloat16", 3.2, "tight", 1.2),
    ("Ink and Rain", "SD 1.5", "float16", 2.1, "healthy", 4.4),
    ("Orrery", "SD 3.5", "float16", 5.2, "", None),
    ("Toybox XL", "SDXL", "float8_e4m3fn", 3.7, "cured", 3.0),
    ("Herbarium", "SDXL", "float16", 6.9, "healthy", 3.9),
    ("Vitrail", "SD 1.5", "float32", 4.3, "healthy", 6.0),
    ("Understory", "Sana", "float16", 3.2, "overflows", -0.6),
    ("Dune Study XL", "SDXL", "bfloat16", 6.9, "", None),
    ("Litho", "Sana", "bfloat16", 3.2, "", None),
)
_OTHERS: Final[tuple[tuple[str, Kind, str, str], ...]] = (
    ("Paper cut", "LoRA", "SDXL", "SDXL"),
    ("Ink wash 16", "LoRA", "Stable Diffusion 1.x", "SD 1.5"),
    ("Film grain", "LoRA", "FLUX", "FLUX"),
    ("sdxl-vae-fp16-fix", "VAE", "SDXL", ""),
    ("vae-ft-mse", "VAE", "Stable Diffusion 1.x", ""),
    ("depth-xl", "ControlNet", "SDXL", ""),
    ("easy-negative", "embedding", "Stable Diffusion 1.x", ""),
    ("4x-UltraSharp", "upscaler", "", ""),
    ("t5xxl_fp16", "text encoder", "", ""),
)
_PAPER: Final = Description(
    triggers=("paper cut", "layered paper", "cut-out style"),
    weight=0.8,
    notes="Trained on 84 pictures of cut paper. Works best with plain backgrounds.",
)
_REASONS: Final = {
    "healthy": Words("Every layer has at least 2 bits of headroom."),
    "cured": Words("Passed the check with its cure."),
    "tight": Words("No overflow, but less than 2 bits of headroom."),
    "overflows": Words("It overflows or produces NaN. A cure is ready."),
}


def library(stage: Stage) -> tuple[Library, Healths]:
    """Thirteen checkpoints, and some of each other kind."""
    root, entries, healths = Path(stage.folder) / "Models", list[Entry](), dict[str, Health]()
    root.mkdir()
    for number, (name, base, dtype, size, state, bits) in enumerate(_CHECKPOINTS):
        picture = root / f"{name}.preview.png"
        landscape(420, 240, number + 20).save(str(picture))
        entry = Entry(
            path=str(root / "checkpoints" / f"{name}.safetensors"), name=name, size=round(size * 1e9), fingerprint=str(number),
            kind="checkpoint", family=_FAMILIES[base], base=base, dtype=dtype, description=Description(preview=str(picture)),
        )  # fmt: skip
        entries.append(entry)
        if state:
            badge = Badge(cast("object", state), bits, _REASONS[state])  # pyright: ignore[reportArgumentType]
            wide = Badge("healthy", 111.4, _REASONS["healthy"])
            checks: dict[DType, InPrecision] = {
                "float16": InPrecision(badge, "2026-05-12T14:32:00", 52.0),
                "bfloat16": InPrecision(wide, "2026-05-12T14:40:00", 49.0),
            }
            healths[entry.path] = Health(fingerprint=entry.fingerprint, precision="float16", badge=badge, checks=checks)
    for number, (name, kind, family, base) in enumerate(_OTHERS):
        entries.append(
            Entry(
                path=str(root / kind / f"{name}.safetensors"),
                name=name,
                size=(number + 1) * 76_000_000,
                kind=kind,
                family=family,
                base=base,
                dtype="float16",
                lora="LoRA" if kind == "LoRA" else "",
                rank=16 if kind == "LoRA" else 0,
                description=_PAPER if name == "Paper cut" else Description(),
            )
        )
    entries.append(Entry(path=str(root / "old" / "anything-v3.ckpt"), name="anything-v3", size=4_260_000_000, pickle=True))
    broken = ErrorFacts(
        code="model-truncated", facts={"path": "half-loaded.safetensors", "actual": "1.2 GB", "expected": "2.0 GB"}
    )
    entries.append(Entry(path=str(root / "half-loaded.safetensors"), name="half-loaded", size=1_200_000_000, error=broken))
    marks = {
        entry.path: Mark(favourite=number in (1, 3, 8), used=_NOW - number * 9000 if number < 5 else 0.0)
        for number, entry in enumerate(entries)
    }
    marks[entries[3].path] = Mark(favourite=True, used=_NOW, note="Good for night skies. Use guidance 3 to 4.")
    watched = (
        Watched(root=str(root), files=22),
        Watched(root="/media/models/ComfyUI models", files=3),
        Watched(root="/media/External drive", files=40, offline=True),
    )
    return Library(entries=tuple(entries), marks=marks, watched=watched, read=True), Healths(by_model=healths)


def page(stage: Stage) -> ModelsPage:
    stage.controller.go("models")
    found = cast("ModelsPage", stage.workspace.page("models"))
    stage.settle(400)
    return found


def full(stage: Stage) -> ModelsPage:
    known, healths = library(stage)
    shown = page(stage)
    stage.controller.take(Replaced(part=known))
    stage.controller.take(Replaced(part=healths))
    stage.settle(400)
    lists.click(shown.grid, known.entries[3].path)
    stage.settle(400)
    return shown


def split(stage: Stage) -> None:
    """A model whose parts lie in files of their own."""
    known, _ = library(stage)
    shown, entry = page(stage), known.entries[3]
    root = Path(stage.folder) / "Models"
    parts = (
        PartFile("transformer", str(root / "diffusion_models" / "flux-2-klein-4b-Q8_0.gguf"), "q8_0", 4_400_000_000),
        PartFile("vae", str(root / "vae" / "flux2-vae.safetensors"), "float32", 336_000_000),
        PartFile("text_encoder", str(root / "text_encoders" / "qwen_3_4b_fp8_mixed.safetensors"), "float8_e4m3fn", 5_600_000_000),
    )
    entry = msgspec.structs.replace(entry, kind="denoiser", family="FLUX.2", base="FLUX.2 klein 4B", parts=parts)
    entries = (*known.entries[:3], entry, *known.entries[4:])
    stage.controller.take(Replaced(part=replace(known, entries=entries)))
    stage.settle(400)
    lists.click(shown.grid, entry.path)
    stage.settle(400)


def table(stage: Stage) -> None:
    full(stage).as_table.click()
    stage.settle(300)


def searched(stage: Stage) -> None:
    full(stage).search.setText("sdxl overflows")
    stage.settle(500)


def no_hit(stage: Stage) -> None:
    full(stage).search.setText("nothing like this")
    stage.settle(500)


def lora(stage: Stage) -> None:
    shown = full(stage)
    shown.choose("place", "LoRA")
    stage.settle(300)
    lists.click(shown.grid, next(one.entry.path for one in shown.rows.rows if one.entry.name == "Paper cut"))
    stage.settle(200)


def pickle(stage: Stage) -> None:
    shown = full(stage)
    shown.choose("place", "pickles")
    stage.settle(300)
    lists.click(shown.grid, shown.rows.listing.rows[0].entry.path)


def converting(stage: Stage) -> None:
    pickle(stage)
    known = stage.controller.state.library
    path = next(entry.path for entry in known.entries if entry.pickle)
    stage.controller.take(Replaced(part=replace(known, converting=(path, 42, 100))))
    stage.settle(300)


def unreadable(stage: Stage) -> None:
    shown = full(stage)
    shown.choose("place", "unreadable")
    stage.settle(300)
    lists.click(shown.grid, shown.rows.listing.rows[0].entry.path)


def scanning(stage: Stage) -> None:
    full(stage)
    known = stage.controller.state.library
    scanned = (replace(known.watched[0], scanning=(812, 2400)), *known.watched[1:])
    stage.controller.take(Replaced(part=replace(known, watched=scanned)))


def empty(stage: Stage) -> None:
    page(stage)
    stage.controller.take(Replaced(part=msgspec.structs.replace(stage.controller.settings, last_model="pocket")))


def offered(stage: Stage) -> None:
    shown = page(stage)
    offers = (
        Install("ComfyUI", "/home/you/ComfyUI", ("/home/you/ComfyUI/models",)),
        Install("A1111", "/home/you/stable-diffusion-webui", ("/home/you/stable-diffusion-webui/models",)),
    )
    stage.controller.take(Replaced(part=Library(offers=offers, read=True)))
    shown.choose("place", "LoRA")


def menu(stage: Stage) -> None:
    shown = full(stage)
    lists.right_click(shown.grid, shown.rows.listing.rows[1].entry.path)


def drawer(stage: Stage) -> None:
    full(stage).toggle_right()


def focused(stage: Stage) -> None:
    from PySide6.QtTest import QTest

    shown = full(stage)
    shown.grid.setFocus()
    QTest.keyClick(shown.grid, Qt.Key.Key_Right)


def picked(stage: Stage) -> None:
    """The small form that the model row of Create opens."""
    known, healths = library(stage)
    stage.controller.take(Replaced(part=known))
    stage.page.form.model_part.library_link.click()
    stage.settle(300)
    stage.controller.take(Replaced(part=healths))
    stage.settle(300)


def picked_lora(stage: Stage) -> None:
    known, _ = library(stage)
    stage.controller.take(Replaced(part=known))
    stage.page.form.lora_part.row.setChecked(True)
    stage.settle(300)
    stage.page.form.lora_part.library_button.click()
    stage.settle(500)


Act = Callable[[Stage], object]
_SMALL: Final[dict[str, object]] = {"size": (1024, 640)}
_ZH: Final[dict[str, object]] = {"language": "zh_CN"}
SHOTS: Final[dict[str, tuple[dict[str, object], Act]]] = {
    "models": ({}, full),
    "models-split": ({}, split),
    "models-split-small-zh": ({**_SMALL, **_ZH}, split),
    "models-light": ({"theme_name": "light"}, full),
    "models-zh": (_ZH, full),
    "models-small": (_SMALL, full),
    "models-small-zh": ({**_SMALL, **_ZH}, full),
    "models-drawer": (_SMALL, drawer),
    "models-table": ({}, table),
    "models-table-light": ({"theme_name": "light"}, table),
    "models-search": ({}, searched),
    "models-no-hit": ({}, no_hit),
    "models-lora": ({}, lora),
    "models-lora-zh": (_ZH, lora),
    "models-pickle": ({}, pickle),
    "models-converting-light-zh": ({"theme_name": "light", **_ZH}, converting),
    "models-unreadable-light": ({"theme_name": "light"}, unreadable),
    "models-scanning": ({}, scanning),
    "models-empty": ({}, empty),
    "models-offered": ({}, offered),
    "models-offered-small-zh": ({**_SMALL, **_ZH}, offered),
    "models-menu": ({}, menu),
    "models-focus": ({}, focused),
    "picker": ({}, picked),
    "picker-light-zh": ({"theme_name": "light", **_ZH}, picked),
    "picker-lora-small": (_SMALL, picked_lora),
}

if __name__ == "__main__":
    shoot_all(SHOTS)
