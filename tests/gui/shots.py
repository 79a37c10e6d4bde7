"""Renders the window in its main states to PNG files, for looking at: `python tests/gui/shots.py FOLDER [name …]`.

The worker is played back from events, so that every picture shows the same moment. Run with QT_QPA_PLATFORM=offscreen.
"""

# ruff: noqa: E402 - the platform and the path must be set before Qt and Halftone are imported

import collections
import math
import os
import random
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, cast

from halftone.contract.wording import Words

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import msgspec
from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QEventLoop,
    QIODevice,
    QMimeData,
    QPoint,
    QPointF,
    Qt,
    QThreadPool,
    QTimer,
    QUrl,
)
from PySide6.QtGui import QColor, QDragEnterEvent, QImage, QImageWriter, QLinearGradient, QPainter
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from tests.gui import lists
from tests.helpers import samples
from tests.helpers.hub import save_flux
from tests.helpers.model_files import ramp, safetensors

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import (
    DTypeReport,
    GuardEvent,
    LayerPeak,
    LoraCause,
    MemoryFacts,
    PictureFacts,
    SelfTestReport,
    Shortage,
)
from halftone.contract.messages import (
    AnyCommand,
    AnyEvent,
    JobEnded,
    JobStarted,
    MemoryChanged,
    PhaseChanged,
    PictureReady,
    PreviewReady,
    Ready,
    SelfTest,
    StepDone,
)
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Control, Hires, IpAdapter, Lora, Upscaled
from halftone.contract.vocabulary import ReceiptState
from halftone.gallery.history import History
from halftone.gui.create.create_page import CreatePage
from halftone.gui.create.form.model_picker import ModelCard
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.library.families.known_families import SDXL
from halftone.settings.places import resources

GPU: Final = msgspec.structs.replace(
    samples.CPU, id="cuda:0", backend="cuda", name="NVIDIA GeForce RTX 3060", memory_total=12 * 10**9, driver="572.16"
)
MEMORY: Final = MemoryFacts(total=12 * 10**9, own=5 * 10**9, others=10**9)
PLAN: Final = Plan(dtypes={"text_encoder": "float16", "unet": "float16", "vae": "float16"})


def self_test(faulty: bool = False) -> SelfTestReport:
    state = "wrong" if faulty else "works"
    return msgspec.structs.replace(
        samples.self_test_report(),
        device=GPU,
        dtypes=(
            DTypeReport(dtype="float32", state="works", reason=Words("Right."), speed=1.0),
            DTypeReport(dtype="float16", state=state, reason=Words("Right."), speed=2.4),
            DTypeReport(dtype="bfloat16", state="works", reason=Words("Right."), speed=2.3),
        ),
        auto="float32" if faulty else "float16",
        auto_reason=Words("FP16: passed every test and was the fastest."),
    )


def landscape(width: int, height: int, seed: int) -> QImage:
    """Hills before a sunset: something to look at that needs no model."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    dice = random.Random(seed)
    hue = dice.random()
    sky = QLinearGradient(0, 0, 0, height)
    sky.setColorAt(0, QColor.fromHsvF(hue, 0.45, 0.45))
    sky.setColorAt(1, QColor.fromHsvF((hue + 0.12) % 1, 0.35, 0.95))
    painter.fillRect(0, 0, width, height, sky)
    painter.setPen(QColor(0, 0, 0, 0))
    painter.setBrush(QColor(255, 244, 220))
    painter.drawEllipse(round(width * dice.uniform(0.25, 0.75)), round(height * 0.2), width // 9, width // 9)
    for layer in range(4):
        painter.setBrush(QColor.fromHsvF((hue + 0.05 * layer) % 1, 0.5, 0.42 - 0.09 * layer))
        base = height * (0.5 + 0.12 * layer)
        for x in range(0, width, 2):
            y = base + math.sin(x / width * 6 + layer * 2 + seed) * height * 0.05
            painter.drawRect(x, round(y), 2, height - round(y))
    painter.end()
    return image


def png(image: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(buffer.data().data())


def decoder_layers() -> tuple[LayerPeak, ...]:
    names = [f"decoder.mid_block.resnets.{i}" for i in range(4)]
    names += [f"decoder.up_blocks.{block}.resnets.{i}.conv2" for block in range(4) for i in range(6)]
    layers: list[LayerPeak] = []
    for index, name in enumerate(names):
        peak = 60 * 2 ** (index * 0.62) if index < 20 else 212000 * 0.42 ** (index - 20)
        layers.append(LayerPeak(component="vae", module=name, kind="Conv2d", peak=peak))
    return tuple(layers)


EVENT: Final = GuardEvent(
    step=None,
    component="vae",
    module="decoder.up_blocks.2.resnets.1.conv2",
    kind="nonfinite",
    action="decoded-again",
    cure="float32-component",
    peak=212000.0,
    limit=65504.0,
    seconds=2.1,
    layers=decoder_layers(),
)


class Stage:
    """A window over a link that plays events instead of a process."""

    def __init__(
        self,
        *,
        theme_name: str = "dark",
        language: str = "en",
        size: tuple[int, int] = (1440, 900),
        first: bool = False,
        text_size: int = 100,
    ):
        from halftone.gui import theme
        from halftone.gui.controller import Controller
        from halftone.gui.i18n import set_language
        from halftone.gui.process import Link
        from halftone.gui.shell.window import MainWindow
        from halftone.gui.shell.workspace import Workspace
        from halftone.library import records
        from halftone.settings.store import Settings

        class Played(Link):
            def __init__(self) -> None:
                super().__init__()
                self.sent: list[AnyCommand] = []

            def start(self) -> None:
                return

            def send(self, command: AnyCommand) -> None:
                self.sent.append(command)

            def stop(self) -> None:
                return

        self.overlay: QWidget | None = None
        """A window beside the main one that is to be seen."""
        self.folder = tempfile.mkdtemp()
        os.environ["HALFTONE_DATA"] = self.folder
        set_language(language)  # pyright: ignore[reportArgumentType]
        theme.set_theme(theme_name)  # pyright: ignore[reportArgumentType]
        self.link = Played()
        self.seq = 0
        if not first:
            records.save_selftest(self_test())
        settings = Settings(first_run_done=not first, theme=theme_name, language=language, text_size=text_size)  # pyright: ignore[reportArgumentType]
        self.controller = Controller(self.link, settings)
        self.window = MainWindow()
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        self.window.resize(*size)
        self.window.show()
        self.controller.session.start()
        self.play(Ready(version="0.1.0", protocol=1, pid=1, devices=(GPU,)))
        self.play(MemoryChanged(memory=MEMORY))
        self.settle()

    def play(self, event: AnyEvent, blob: bytes = b"") -> None:
        self.seq += 1
        self.link.arrived.emit(msgspec.structs.replace(event, seq=self.seq), blob)

    def settle(self, wait: int = 250) -> None:
        QThreadPool.globalInstance().waitForDone()
        loop = QEventLoop()
        QTimer.singleShot(wait, loop.quit)
        loop.exec()

    @property
    def page(self) -> CreatePage:
        return self.workspace.create_page

    def prompt(self, words: str, negative: str = "text, watermark, people, frame") -> None:
        self.page.form.prompt.setPlainText(words)
        self.page.form.negative.setPlainText(negative)

    def picture(
        self,
        seed: int,
        state: ReceiptState = "clean",
        events: tuple[GuardEvent, ...] = (),
        side: int = 512,
        seconds: float = 20.6,
        latents: str | None = None,
        kept_step: int | None = None,
        ran: tuple[Words, ...] = (),
    ) -> None:
        """A whole job, from request to picture. latents: of one that is not finished, and has no file."""
        request = msgspec.structs.replace(self.page.form.request(), seed=seed)
        job = self.controller.session.queue.generate(request)
        self.play(JobStarted(job=job, kind="generate", plan=PLAN))
        self.play(PhaseChanged(job=job, phase="denoise", total=28))
        image = landscape(side, side, seed)
        path = Path(self.folder) / f"{seed}.png"
        image.save(str(path))
        facts = PictureFacts(
            path="" if latents else str(path), latents=latents, kept_step=kept_step,
            seed=seed, index=0, width=1024, height=1024, state=state,
            dtypes={"text_encoder": "float16", "unet": "float16", "vae": "float32" if events else "float16"},
            black=False, finite=True, dark=False, room_bits=3.6, seconds=seconds, steps=28, events=events, ran=ran,
        )  # fmt: skip
        small = png(image.scaled(192, 192))
        black = QImage(96, 96, QImage.Format.Format_RGB32)
        black.fill(0)
        failed = png(black) if events else b""
        self.play(PictureReady(job=job, facts=facts, thumbnail_size=len(small), failed_size=len(failed)), small + failed)
        self.play(JobEnded(job=job, outcome="done"))
        self.settle(60)

    def running(self, step: int = 17, total: int = 28) -> str:
        """A job in the middle of its steps, with two behind it."""
        job = self.controller.session.queue.generate(self.page.form.request())
        for words in ("The same jug with dried poppies, evening", "A red and white lighthouse on a rocky islet"):
            self.controller.session.queue.generate(msgspec.structs.replace(self.page.form.request(), prompt=words, batch=3))
        self.play(JobStarted(job=job, kind="generate", plan=PLAN))
        self.play(PhaseChanged(job=job, phase="load", done=1, total=1))
        self.play(PhaseChanged(job=job, phase="encode"))
        self.play(PhaseChanged(job=job, phase="denoise", total=total))
        for number in range(1, step + 1):
            peak = 900 + 8000 * math.sin(number / 17 * 2.4) ** 2
            self.play(StepDone(job=job, step=number, steps=total, peak=peak, finite=True, seconds=0.66))
        noisy = landscape(512, 512, 9).scaled(64, 64).scaled(128, 128).convertToFormat(QImage.Format.Format_RGB888)
        rows = b"".join(bytes(cast("memoryview", noisy.constScanLine(y)))[: 128 * 3] for y in range(128))
        self.play(PreviewReady(job=job, step=step, width=128, height=128), rows)
        self.settle()
        return job

    def history(self, count: int = 8) -> None:
        for seed in range(1, count + 1):
            self.picture(seed)

    def shoot(self, file: Path) -> None:
        self.settle()
        image = self.window.grab()
        popup = QApplication.activePopupWidget() or self.overlay
        if popup is not None:
            painter = QPainter(image)
            painter.drawPixmap(self.window.mapFromGlobal(popup.pos()), popup.grab())
            painter.end()
            popup.close()
        image.save(str(file))
        self.window.close()
        self.controller.background.deleteLater()
        self.window.deleteLater()
        self.settle(20)


LIGHTHOUSE: Final = "A red and white lighthouse on a rocky islet at dusk, calm sea, long exposure, soft clouds, 35 mm film"
JUG: Final = "A blue glazed stoneware jug and two ripe pears on a linen cloth, window light from the left, old master still life"
ZH: Final = "一只蓝釉陶壶和两个熟透的梨，放在亚麻布上，左侧窗光，古典静物画"


def empty(stage: Stage) -> None:
    stage.page.focus_prompt()


def done(stage: Stage) -> None:
    stage.prompt(LIGHTHOUSE)
    stage.history()


def generating(stage: Stage) -> None:
    stage.prompt(JUG)
    stage.history(5)
    stage.running()


def recovered(stage: Stage) -> None:
    stage.prompt(JUG)
    stage.history(5)
    stage.picture(9, "recovered", (EVENT,), seconds=22.8)
    stage.page.centre.banner.fold.setChecked(True)


def black(stage: Stage) -> None:
    """As the banner comes: its details are closed."""
    stage.prompt(ZH if stage.controller.settings.language == "zh_CN" else JUG)
    stage.history(5)
    stage.picture(9, "recovered", (EVENT,), seconds=22.8)


def fixing(stage: Stage) -> str:
    """The first step of a fix. Returns its job."""
    black(stage)
    stage.page.centre.banner.first_button().click()  # pyright: ignore[reportOptionalMemberAccess]
    job = stage.controller.state.fix.job
    stage.play(JobStarted(job=job, kind="examine"))
    for phase in ("load", "scan", "range", "plan"):
        stage.play(PhaseChanged(job=job, phase=phase, done=1, total=2))
    stage.settle()
    return job


def fixing_again(stage: Stage) -> str:
    """The second step: the same picture. Returns its job."""
    model = stage.controller.model
    assert model is not None
    plan = Plan(rescale={"vae": {"decoder.conv_in.weight": -3}}, verified=True)
    cure = Cure(kind="rescale", plan=plan, suggested=True, time_ratio=1.0, memory_bytes=0)
    report = msgspec.structs.replace(
        samples.check_report(model, fragile=True), device=GPU, plan=plan, cures=(cure,), precision="float16"
    )
    stage.play(JobEnded(job=fixing(stage), outcome="done", report=report))
    stage.settle()
    job = stage.controller.state.fix.job
    stage.play(JobStarted(job=job, kind="generate", plan=PLAN))
    stage.play(PhaseChanged(job=job, phase="denoise", total=28))
    stage.play(StepDone(job=job, step=17, steps=28, peak=900.0, finite=True, seconds=0.66))
    return job


def fixed(stage: Stage) -> None:
    """Both pictures of the seed."""
    job = fixing_again(stage)
    image = landscape(512, 512, 9)
    for x in range(0, 512, 8):
        image.setPixelColor(x, x, QColor(200, 200, 200))
    path = Path(stage.folder) / "clean.png"
    image.save(str(path))
    facts = msgspec.structs.replace(samples.picture_facts(str(path)), seed=9, width=1024, height=1024, cures={"vae": "rescale"})
    small = png(image.scaled(192, 192))
    stage.play(PictureReady(job=job, facts=facts, thumbnail_size=len(small)), small)
    stage.play(JobEnded(job=job, outcome="done"))
    stage.settle()


def fixed_receipt(stage: Stage) -> None:
    """The receipt of the clean picture, with its undo."""
    fixed(stage)
    stage.page.centre.receipt.setChecked(True)


def fix_failed(stage: Stage) -> None:
    """The second step ran out of memory."""
    error = ErrorFacts(code="out-of-memory", facts={"detail": "memory ran out at 1024 × 1024"})
    stage.play(JobEnded(job=fixing_again(stage), outcome="failed", error=error))


def recovered_zh(stage: Stage) -> None:
    stage.prompt(ZH, "文字，水印，裁切，多余物体")
    stage.history(5)
    stage.picture(9, "recovered", (EVENT,), seconds=22.8)
    stage.page.centre.banner.fold.setChecked(True)


def unfinished_zh(stage: Stage) -> None:
    """A picture whose step failed, kept with all that its steps go on from."""
    stage.prompt(ZH, "文字，水印，裁切，多余物体")
    stage.history(5)
    lost = msgspec.structs.replace(
        EVENT, step=18, component="unet", module="mid_block.resnets.0.conv1", action="asked", cure="none", sound_in_float32=True
    )
    stage.picture(9, "asking", (lost,), latents=str(Path(stage.folder) / "9-0.safetensors"), kept_step=17)
    stage.page.centre.banner.fold.setChecked(True)


RAN: Final = (
    Words("The VAE decodes in tiles: without them about {0} would be needed, more than is free.", ("9.4\u00a0GB",)),
    Words("The refiner makes the last {0} steps; it was loaded after the base model was unloaded.", (6,)),
    Words("Seed {0}: drawn at random.", ("8",)),
)


def receipt(stage: Stage) -> None:
    """Open, with how the picture ran."""
    stage.prompt(LIGHTHOUSE)
    stage.history(7)
    stage.picture(8, ran=RAN)
    stage.page.centre.receipt.setChecked(True)


def lacking_on_health(stage: Stage) -> None:
    """The card of a model that lacks a small file, where its health is looked at."""
    lacking(stage)
    stage.controller.go("health")
    stage.settle()


def numerics(stage: Stage) -> None:
    done(stage)
    stage.page.form.numerics_part.row.setChecked(True)
    stage.page.form.size_field.width_box.setValue(1001)


def loras(stage: Stage) -> None:
    """Two LoRAs, and a file that is none."""
    done(stage)
    part = stage.page.form.lora_part
    names = (("Soft grain", 0.6), ("A LoRA with a very long name that does not fit into the panel v12 final", -0.35))
    part.set_items(tuple(Lora(path=f"/models/{name}.safetensors", weight=weight) for name, weight in names))
    part.row.setChecked(True)
    part.add("/models/nothing.safetensors")


def vae(stage: Stage) -> None:
    """Another VAE, and a file that is none."""
    done(stage)
    part = stage.page.form.vae_part
    part.set_file(str(resources() / "pocket" / "vae"))
    part.row.setChecked(True)
    part.choose("/models/nothing.safetensors")


def controls(stage: Stage) -> None:
    """Two ControlNets, one without its picture."""
    done(stage)
    part = stage.page.form.control_part
    edges, lighthouse = "/nets/control_v11p_sd15_canny.safetensors", "/pictures/a lighthouse at dusk.png"
    long = "/nets/A ControlNet with a very long name that does not fit into the panel"
    part.set_items(
        (Control(path=edges, image=lighthouse, scale=0.8, preprocessor="canny"), Control(path=long, image="", end=0.6))
    )
    part.row.setChecked(True)


def groups(stage: Stage) -> None:
    """The groups of the form, one folded with something in it."""
    done(stage)
    form = stage.page.form
    form.edit(loras=(Lora(path="/models/Soft grain.safetensors", weight=0.6),), variation_strength=0.2)
    for group in form.groups[1:]:
        group.row.setChecked(True)
    form.groups[1].row.setChecked(False)
    stage.settle()
    form.area.verticalScrollBar().setValue(9999)


def completion(stage: Stage) -> None:
    """Tags that could be meant."""
    from halftone.library.prompts.completion import Known
    from halftone.library.prompts.tag_files import Tags

    done(stage)
    prompt = stage.page.form.prompt
    tags = [("long_hair", 4_350_743, ("longhair",)), ("looking_at_viewer", 3_273_000, ()), ("lotus", 9_120, ("lotus_flower",))]
    prompt.known = lambda: Known(("Low light",), (), ("lomography",), Tags(tags))
    prompt.setPlainText("")
    prompt.setFocus()
    QTest.keyClicks(prompt, "a girl, lo")
    QTest.keyClick(prompt, Qt.Key.Key_Down)
    stage.settle()
    stage.overlay = prompt.popup


def earlier(stage: Stage) -> None:
    """The prompts of finished pictures."""
    for words in (LIGHTHOUSE, JUG):
        stage.prompt(words)
        stage.history(1)
    stage.page.form.prompts.history_button.click()


def presets(stage: Stage) -> None:
    """What is to be kept under a name."""
    from halftone.gui.create.form.preset_menu import PresetDialog

    done(stage)
    stage.page.form.prompts.presets.ask(["Portrait"])
    (dialog,) = stage.window.findChildren(PresetDialog)
    dialog.name.setText("Portrait")
    stage.settle()
    stage.overlay = dialog


def refiner(stage: Stage) -> None:
    """A second model for the last steps, and why another was not taken."""
    done(stage)
    stage.page.form.follow(msgspec.structs.replace(samples.POCKET, family=SDXL.name))
    part = stage.page.form.refiner_part
    stage.page.form.edit(refiner="/models/sd_xl_refiner_1.0.safetensors", refiner_at=0.75)
    part.row.setChecked(True)
    part.choose("/models/nothing.safetensors")


def hires(stage: Stage) -> None:
    """A second, larger pass, in the form and while a picture is made."""
    stage.prompt(JUG)
    stage.history(5)
    part = stage.page.form.hires_part
    stage.page.form.edit(hires_on=True, hires=Hires(scale=2.0, steps=12, strength=0.55))
    part.row.setChecked(True)
    job = stage.running()
    stage.play(StepDone(job=job, step=18, steps=28, peak=3000.0, finite=True, seconds=0.7, in_pass=1, passes=2, ahead=48.0))


def clash(stage: Stage) -> None:
    """A mask, and a second pass that cannot be used with it."""
    done(stage)
    stage.page.form.edit(hires_on=True)
    stage.page.form.start_part.choose(str(Path(stage.folder) / "8.png"))
    stage.settle()
    start = stage.controller.state.draft.start
    stage.page.form.edit(start=msgspec.structs.replace(start, outpaint=(64, 0, 64, 0)))
    stage.settle()


def ip_adapters(stage: Stage) -> None:
    """Two IP-Adapters, one without a picture, and one that is none."""
    done(stage)
    part = stage.page.form.ip_adapter_part
    shown = ("/pictures/a lighthouse at dusk.png", "/pictures/a very long name of a picture that does not fit.png")
    long = "/adapters/ip-adapter-plus-face_sdxl_vit-h of a long name.safetensors"
    part.set_items((IpAdapter(path="/adapters/plus.safetensors", images=shown, scale=0.6), IpAdapter(path=long, images=())))
    part.row.setChecked(True)


def by_a_lora(stage: Stage) -> None:
    """A picture that was stopped, and the LoRA that is the cause."""
    loras(stage)
    cause = LoraCause(names=("Soft grain",), weight=0.6, share=0.5)
    lost = msgspec.structs.replace(EVENT, action="stopped", cure="none", plan=None, sound_in_float32=False, why="float32")
    stage.picture(9, "not-recovered", (msgspec.structs.replace(lost, lora=cause),), seconds=22.8)
    stage.page.centre.receipt.setChecked(False)


def cured(stage: Stage) -> None:
    """The demo model with a cure in use."""
    stage.prompt(LIGHTHOUSE)
    stage.history()
    row = stage.page.form.model_part.row
    row.show_model(ModelCard("Pocket (demo)", "FP16 · 20 MB", "cured"))
    stage.page.form.model_part.note_line.hide()


def nothing(stage: Stage) -> None:
    del stage


def no_room(stage: Stage) -> None:
    """M6: a size that does not fit, and the foot of the form that said so before."""
    done(stage)
    short = Shortage(phase="decode", step=None, then="stopped", width=4096, height=4096, fits=(2048, 1984))
    facts = msgspec.structs.replace(
        samples.picture_facts("", "not-recovered"), path="", events=(), shortages=(short,), latents="/kept.safetensors"
    )
    stage.page.form.size_field.set_value((4096, 4096))
    stage.page.form.generate_button.click()
    stage.settle()
    job = stage.controller.state.jobs[0].id if stage.controller.state.jobs else "x"
    stage.play(JobStarted(kind="generate", plan=PLAN, job=job))
    stage.play(PictureReady(facts=facts, thumbnail_size=0, failed_size=0, job=job))
    stage.play(JobEnded(outcome="done", job=job))
    stage.play(MemoryChanged(memory=MemoryFacts(total=3 * 10**8, own=10**8, others=0)))
    stage.settle()


def paint(stage: Stage) -> None:
    """A part of the newest picture is painted over, to be made anew."""
    done(stage)
    stage.page.centre.toolbar.inpaint.click()
    stage.settle()
    canvas = stage.page.centre.editor.canvas
    box = canvas.own_rect()

    def at(x: float, y: float) -> QPoint:
        return QPoint(round(box.left() + x * box.width()), round(box.top() + y * box.height()))

    QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=at(0.3, 0.3))
    for x, y in ((0.4, 0.26), (0.5, 0.3), (0.56, 0.38)):
        QTest.mouseMove(canvas, at(x, y))
    QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=at(0.56, 0.38))
    QTest.mouseClick(canvas, Qt.MouseButton.RightButton, pos=at(0.42, 0.3))
    QTest.mouseMove(canvas, at(0.7, 0.6))
    stage.settle(400)


def outpaint(stage: Stage) -> None:
    """And it is extended at the right and at the top."""
    paint(stage)
    for grip in stage.page.centre.editor.canvas.grips:
        if grip.grip == (1, -1):
            grip.taken.emit()
            grip.moved.emit(QPointF(140, -70))
            grip.left.emit()
            grip.setFocus()
    stage.page.form.start_part.row.setChecked(True)


def dragged(stage: Stage) -> None:
    """A picture of another program is dragged over the page."""
    done(stage)
    path = str(Path(stage.folder) / "lighthouse at dusk.png")
    image = landscape(768, 512, 4)
    image.setText(
        "parameters", "a lighthouse at dusk\nSteps: 28, Sampler: Euler a, CFG scale: 6, Seed: 42, Size: 768x512, Version: v1.10"
    )
    image.save(path)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path)])
    keys, buttons, copy = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton, Qt.DropAction.CopyAction
    QApplication.sendEvent(stage.page, QDragEnterEvent(QPoint(5, 5), copy, data, buttons, keys))
    stage.settle()
    card = stage.page.dropped.targets.cards["settings"]
    QApplication.sendEvent(card, QDragEnterEvent(QPoint(5, 5), copy, data, buttons, keys))


def taken(stage: Stage) -> None:
    """And its settings are taken."""
    dragged(stage)
    stage.page.dropped.targets.cards["settings"].click()
    stage.settle()


UPSCALER: Final = "/models/upscalers/4x-UltraSharp.safetensors"


def larger(stage: Stage) -> None:
    """The newest picture is being made larger."""
    done(stage)
    shown = stage.page.centre.shown
    assert shown is not None
    stage.page.acts.upscaling.start(shown.facts.path, UPSCALER)
    job = stage.controller.state.jobs[0].id
    stage.play(JobStarted(kind="upscale", job=job))
    stage.play(PhaseChanged(phase="upscale", done=7, total=16, job=job))


def made_larger(stage: Stage) -> None:
    """And it is, with its receipt open."""
    larger(stage)
    job, shown = stage.controller.state.jobs[0].id, stage.page.centre.shown
    assert shown is not None
    how = Upscaled(source=shown.facts.path, upscaler=UPSCALER, scale=4)
    path = str(Path(stage.folder) / "8-4x.png")
    landscape(2048, 2048, 8).save(path)
    facts = msgspec.structs.replace(shown.facts, path=path, width=4096, height=4096, upscaled=how, room_bits=None, seconds=8.4)
    small = png(landscape(192, 192, 8))
    facts = msgspec.structs.replace(facts, dtypes={"upscaler": "float16"}, steps=0)
    stage.play(PictureReady(facts=facts, thumbnail_size=len(small), job=job), small)
    stage.play(JobEnded(outcome="done", job=job))
    stage.settle()
    stage.page.centre.receipt.setChecked(True)


def offered(stage: Stage) -> None:
    """The models to make it larger with."""
    folder = Path(stage.folder) / "upscalers"
    folder.mkdir()
    for name in ("4x-UltraSharp", "2x DAT photo"):
        (folder / f"{name}.safetensors").write_bytes(safetensors({"body.0.weight": ramp(4, 4)}))
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, upscaler_folders=(str(folder),)))
    done(stage)
    stage.page.centre.toolbar.upscale.click()
    stage.settle()


def cut_short(stage: Stage) -> None:
    """A second pass that did not fit."""
    done(stage)
    shown = stage.page.centre.shown
    assert shown is not None
    why = ErrorFacts(code="out-of-memory", facts={"detail": "memory ran out at 4096 × 4096"})
    job = stage.controller.session.queue.generate(stage.page.form.request())
    facts = msgspec.structs.replace(shown.facts, cut_short=why, latents="/kept.safetensors")
    stage.play(JobStarted(kind="generate", plan=PLAN, job=job))
    small = png(landscape(192, 192, 8))
    stage.play(PictureReady(facts=facts, thumbnail_size=len(small), job=job), small)
    stage.play(JobEnded(outcome="done", job=job))
    stage.settle()


def lacking(stage: Stage) -> None:
    """A model that lacks a small file was opened."""
    done(stage)
    stage.controller.session.models.select(str(save_flux(Path(stage.folder) / "flux1-dev-fp8.safetensors")))
    stage.settle()


def lacking_listed(stage: Stage) -> None:
    """It stands in the list, and could not be fetched."""
    folder = Path(stage.folder) / "models"
    folder.mkdir()
    path = save_flux(folder / "flux1-dev-fp8.safetensors")
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, model_folders=(str(folder),)))
    stage.settle()
    stage.controller.session.models.select(str(path))
    stage.settle()
    stage.controller.session.small_files.take(str(path))
    stage.settle()
    stage.page.form.model_part.row.click()


def models(stage: Stage) -> None:
    done(stage)
    stage.page.form.model_part.row.click()


def picture_menu(stage: Stage) -> None:
    """The keyboard in the history, and the menu of a picture in it."""
    done(stage)
    history = stage.page.history
    history.list.setFocus()
    QTest.keyClick(history.list, Qt.Key.Key_Down)
    lists.right_click(history.list, history.paths()[4])


def queued(stage: Stage) -> None:
    """More jobs than the queue has room for, one of them without a title."""
    generating(stage)
    queue = stage.controller.session.queue
    queue.submit(SelfTest(job="measure", device=GPU.id))
    for _ in range(4):
        queue.generate(stage.page.form.request())


WORDS: Final = ("A red and white lighthouse on a rocky islet at dusk, calm sea", JUG, "A small house on a hill, paper art")
SHAPES: Final = ((512, 512), (512, 512), (768, 512), (512, 768), (896, 512), (512, 640))


def filled_gallery(stage: Stage, count: int = 46) -> GalleryPage:
    """Pictures of four days, with all that may have happened to one."""
    from halftone.gallery.catalogue import Catalogue
    from halftone.gallery.facts import FAVOURITE

    now = datetime.now(UTC)
    with History() as history:
        for seed in range(1, count + 1):
            width, height = SHAPES[seed * 7 % len(SHAPES)]
            image, path = landscape(width, height, seed), Path(stage.folder) / f"{seed}.png"
            image.save(str(path))
            request = msgspec.structs.replace(
                stage.page.form.request(), prompt=WORDS[seed % 3], negative="text, watermark, frame", seed=seed, guidance=6.0
            )
            facts = msgspec.structs.replace(
                samples.picture_facts(str(path), "recovered" if seed % 9 == 0 else "clean"),
                seed=2718281 + seed, width=width * 2, height=height * 2, room_bits=3.6, seconds=20.6, steps=28,
                dtypes={"text_encoder": "float16", "unet": "float16", "vae": "float16"},
                cures={"vae": "rescale"} if seed % 14 == 0 else {}, events=(EVENT,) if seed % 9 == 0 else (),
            )  # fmt: skip
            small = png(image.scaled(256, 256, Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation))
            entry = history.add(facts, request, small)
            made_at = (now - timedelta(hours=1.7 * (count - seed))).astimezone().isoformat(timespec="seconds")
            with history._database as database:
                database.execute("UPDATE picture SET made_at = ? WHERE id = ?", (made_at, entry.id))
    with Catalogue() as catalogue:
        catalogue.mark([str(Path(stage.folder) / "40.png")], FAVOURITE)
        catalogue.mark([str(Path(stage.folder) / f"{seed}.png") for seed in (3, 40)], "Lighthouses")
    stage.controller.go("gallery")
    stage.settle()
    stage.settle()
    return cast("GalleryPage", stage.workspace.page("gallery"))


def gallery(stage: Stage) -> None:
    filled_gallery(stage).grid.select_only(0)
    stage.settle()


def gallery_several(stage: Stage) -> None:
    page = filled_gallery(stage)
    page.grid.restore(list(page.grid.rows.ids[1:3]))
    stage.settle()


def gallery_large(stage: Stage) -> None:
    gallery(stage)
    cast("GalleryPage", stage.workspace.page("gallery")).act("large")
    stage.settle()


def gallery_compared(stage: Stage) -> None:
    page = filled_gallery(stage)
    page.grid.restore(list(page.grid.rows.ids[:4]))
    stage.settle()
    page.act("compare")
    stage.settle()


def gallery_menu(stage: Stage) -> None:
    gallery(stage)
    page = cast("GalleryPage", stage.workspace.page("gallery"))
    page.open_menu(page.grid.mapToGlobal(page.grid.rect().topLeft()) + QPoint(140, 120))


def gallery_empty(stage: Stage) -> None:
    stage.controller.go("gallery")
    stage.settle()


def gallery_no_hit(stage: Stage) -> None:
    filled_gallery(stage, 6).filters.search.setText("submarine")
    stage.settle()


def gallery_drawer(stage: Stage) -> None:
    page = filled_gallery(stage)
    page.grid.select_only(0)
    page.toggle_right()
    stage.settle()


def gallery_gone(stage: Stage) -> None:
    """A picture whose file is missing, and one of another program that says nothing."""
    page = filled_gallery(stage, 20)
    (Path(stage.folder) / "18.png").unlink()
    folder = Path(stage.folder) / "others"
    folder.mkdir()
    landscape(640, 480, 77).save(str(folder / "photo.png"))
    page.add_folder(str(folder))
    stage.settle()
    page.grid.select_only(page.grid.rows.ids.index(18))
    stage.settle()


SHOTS: Final[dict[str, tuple[dict[str, object], Callable[[Stage], object]]]] = {
    "empty": ({}, empty),
    "done": ({}, done),
    "generating": ({}, generating),
    "paint": ({}, paint),
    "paint-light": ({"theme_name": "light"}, paint),
    "paint-small-zh": ({"language": "zh_CN", "size": (1024, 640)}, outpaint),
    "paint-small": ({"size": (1024, 640)}, paint),
    "outpaint": ({}, outpaint),
    "dragged": ({}, dragged),
    "dragged-light": ({"theme_name": "light"}, dragged),
    "dragged-small-zh": ({"language": "zh_CN", "size": (1024, 640)}, dragged),
    "taken": ({}, taken),
    "taken-small-zh": ({"language": "zh_CN", "size": (1024, 640)}, taken),
    "outpaint-light": ({"theme_name": "light"}, outpaint),
    "recovered": ({}, recovered),
    "black": ({}, black),
    "black-small": ({"size": (1024, 640)}, black),
    "black-zh": ({"language": "zh_CN"}, black),
    "fixing": ({}, fixing),
    "fixing-light": ({"theme_name": "light"}, fixing),
    "fixing-again": ({}, fixing_again),
    "fixing-again-small-zh": ({"size": (1024, 640), "language": "zh_CN"}, fixing_again),
    "fixed": ({}, fixed),
    "fixed-light": ({"theme_name": "light"}, fixed),
    "fixed-zh": ({"language": "zh_CN"}, fixed),
    "fixed-small": ({"size": (1024, 640)}, fixed),
    "fixed-small-zh": ({"size": (1024, 640), "language": "zh_CN"}, fixed),
    "fixed-receipt": ({}, fixed_receipt),
    "fix-failed": ({}, fix_failed),
    "fix-failed-small": ({"size": (1024, 640)}, fix_failed),
    "recovered-zh": ({"language": "zh_CN"}, recovered_zh),
    "unfinished-zh": ({"language": "zh_CN"}, unfinished_zh),
    "unfinished-small-zh": ({"language": "zh_CN", "size": (1024, 640)}, unfinished_zh),
    "light": ({"theme_name": "light"}, done),
    "light-recovered": ({"theme_name": "light"}, recovered),
    "small": ({"size": (1024, 640)}, done),
    "small-recovered": ({"size": (1024, 640)}, recovered),
    "small-generating": ({"size": (1024, 640)}, generating),
    "small-cured": ({"size": (1024, 640)}, cured),
    "small-zh": ({"size": (1024, 640), "language": "zh_CN"}, generating),
    "receipt": ({}, receipt),
    "receipt-light": ({"theme_name": "light"}, receipt),
    "receipt-zh": ({"language": "zh_CN"}, receipt),
    "receipt-small": ({"size": (1024, 640)}, receipt),
    "lacking-on-health": ({}, lacking_on_health),
    "lacking-on-health-light": ({"theme_name": "light"}, lacking_on_health),
    "lacking-on-health-zh": ({"language": "zh_CN"}, lacking_on_health),
    "lacking-on-health-small": ({"size": (1024, 640)}, lacking_on_health),
    "numerics": ({}, numerics),
    "text-200": ({"text_size": 200}, done),
    "text-200-light": ({"text_size": 200, "theme_name": "light"}, generating),
    "text-200-zh": ({"text_size": 200, "language": "zh_CN"}, recovered_zh),
    "text-200-numerics": ({"text_size": 200}, numerics),
    "text-150-small": ({"text_size": 150, "size": (1024, 640)}, done),
    "text-150-small-recovered": ({"text_size": 150, "size": (1024, 640)}, recovered),
    "text-80": ({"text_size": 80}, done),
    "loras": ({}, loras),
    "loras-light": ({"theme_name": "light"}, loras),
    "loras-zh": ({"language": "zh_CN"}, loras),
    "loras-small": ({"size": (1024, 640)}, loras),
    "vae": ({}, vae),
    "vae-light": ({"theme_name": "light"}, vae),
    "vae-zh": ({"language": "zh_CN"}, vae),
    "vae-small": ({"size": (1024, 640)}, vae),
    "controls": ({}, controls),
    "controls-light": ({"theme_name": "light"}, controls),
    "controls-zh": ({"language": "zh_CN"}, controls),
    "controls-small": ({"size": (1024, 640)}, controls),
    "groups": ({}, groups),
    "groups-light": ({"theme_name": "light"}, groups),
    "groups-small-zh": ({"size": (1024, 640), "language": "zh_CN"}, groups),
    "completion": ({}, completion),
    "completion-light": ({"theme_name": "light"}, completion),
    "earlier": ({}, earlier),
    "presets": ({}, presets),
    "presets-zh": ({"language": "zh_CN"}, presets),
    "refiner": ({}, refiner),
    "refiner-light": ({"theme_name": "light"}, refiner),
    "refiner-zh": ({"language": "zh_CN"}, refiner),
    "refiner-small": ({"size": (1024, 640)}, refiner),
    "hires": ({}, hires),
    "hires-light": ({"theme_name": "light"}, hires),
    "hires-zh": ({"language": "zh_CN"}, hires),
    "hires-small": ({"size": (1024, 640)}, hires),
    "clash": ({}, clash),
    "clash-small-zh": ({"language": "zh_CN", "size": (1024, 640)}, clash),
    "clash-light": ({"theme_name": "light"}, clash),
    "ip-adapters": ({}, ip_adapters),
    "ip-adapters-light": ({"theme_name": "light"}, ip_adapters),
    "ip-adapters-zh": ({"language": "zh_CN"}, ip_adapters),
    "ip-adapters-small": ({"size": (1024, 640)}, ip_adapters),
    "by-a-lora": ({}, by_a_lora),
    "by-a-lora-light": ({"theme_name": "light"}, by_a_lora),
    "by-a-lora-zh": ({"language": "zh_CN"}, by_a_lora),
    "by-a-lora-small": ({"size": (1024, 640)}, by_a_lora),
    "larger": ({}, larger),
    "larger-light": ({"theme_name": "light"}, larger),
    "larger-zh": ({"language": "zh_CN"}, larger),
    "larger-small": ({"size": (1024, 640)}, larger),
    "made-larger": ({}, made_larger),
    "made-larger-light": ({"theme_name": "light"}, made_larger),
    "made-larger-zh": ({"language": "zh_CN"}, made_larger),
    "made-larger-small": ({"size": (1024, 640)}, made_larger),
    "offered": ({}, offered),
    "offered-light": ({"theme_name": "light"}, offered),
    "offered-zh": ({"language": "zh_CN"}, offered),
    "offered-small": ({"size": (1024, 640)}, offered),
    "cut-short": ({}, cut_short),
    "cut-short-light": ({"theme_name": "light"}, cut_short),
    "cut-short-zh": ({"language": "zh_CN"}, cut_short),
    "cut-short-small": ({"size": (1024, 640)}, cut_short),
    "lacking": ({}, lacking),
    "lacking-light": ({"theme_name": "light"}, lacking),
    "lacking-zh": ({"language": "zh_CN"}, lacking),
    "lacking-small": ({"size": (1024, 640)}, lacking),
    "lacking-listed": ({}, lacking_listed),
    "lacking-listed-small-zh": ({"size": (1024, 640), "language": "zh_CN"}, lacking_listed),
    "models": ({}, models),
    "picture-menu": ({}, picture_menu),
    "picture-menu-small-zh": ({"size": (1024, 640), "language": "zh_CN"}, picture_menu),
    "queued": ({}, queued),
    "queued-light": ({"theme_name": "light"}, queued),
    "queued-small": ({"size": (1024, 640)}, queued),
    "no-room": ({}, no_room),
    "no-room-light": ({"theme_name": "light"}, no_room),
    "no-room-zh": ({"language": "zh_CN"}, no_room),
    "no-room-small": ({"size": (1024, 640)}, no_room),
    "gallery": ({}, gallery),
    "gallery-light": ({"theme_name": "light"}, gallery),
    "gallery-zh": ({"language": "zh_CN"}, gallery),
    "gallery-small": ({"size": (1024, 640)}, gallery),
    "gallery-drawer-zh": ({"size": (1024, 640), "language": "zh_CN"}, gallery_drawer),
    "gallery-several": ({}, gallery_several),
    "gallery-large": ({}, gallery_large),
    "gallery-compared": ({}, gallery_compared),
    "gallery-menu": ({}, gallery_menu),
    "gallery-empty": ({}, gallery_empty),
    "gallery-no-hit-light": ({"theme_name": "light"}, gallery_no_hit),
    "gallery-gone": ({}, gallery_gone),
    "first": ({"first": True}, nothing),
    "empty-zh": ({"language": "zh_CN"}, empty),
}


def reader(names: Sequence[str] = ()) -> ArgumentParser:
    """The command line of a module of screenshots. names: those that may be asked for; any word where there are none."""
    found = ArgumentParser(description="Save screenshots of the window.")
    found.add_argument("folder", type=Path, help="where they are saved")
    known = {"choices": names, "metavar": "NAME"} if names else {}
    found.add_argument("names", nargs="*", help="the pictures; all without any", **known)  # pyright: ignore[reportArgumentType]
    return found


def shoot_all(shots: Mapping[str, tuple[dict[str, object], Callable[[Stage], object]]]) -> None:
    """Make the pictures that the command line names, or all."""
    from halftone.gui.main import make_app

    asked = reader(names=list(shots)).parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    app = make_app(sys.argv[:1])
    for name in asked.names or list(shots):
        options, act = shots[name]
        stage = Stage(**options)  # pyright: ignore[reportArgumentType]
        act(stage)
        stage.shoot(asked.folder / f"{name}.png")
    app.quit()


if __name__ == "__main__":
    shoot_all(SHOTS)
