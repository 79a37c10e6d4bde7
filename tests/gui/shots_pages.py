"""Pictures of every state of the Health, Device and Settings pages: `python tests/gui/shots_pages.py FOLDER [part of a name]`."""

# ruff: noqa: E402 - the platform and the path must be set before Qt and Halftone are imported

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from halftone.contract.wording import Words

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(prefix="halftone-shots-")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import msgspec
from PySide6.QtWidgets import QApplication, QWidget
from tests.gui.health import kit
from tests.gui.shots import reader

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import Finding
from halftone.contract.messages import FindingMade, LayersMeasured, PhaseChanged, SelfTest, TestDone
from halftone.contract.request import Numerics
from halftone.gui import i18n, theme
from halftone.gui.device.device_page import DevicePage
from halftone.gui.health.health_page import HealthPage
from halftone.gui.settings.settings_page import SettingsPage
from halftone.session.events import Replaced
from halftone.session.update_state import Offer, Updating, refusal
from halftone.settings.store import Settings

Shot = tuple[str, Callable[[], QWidget]]


def unchecked() -> HealthPage:
    return HealthPage(kit.desk(self_test=kit.measured())[0])


def overflows() -> HealthPage:
    return HealthPage(kit.desk(report=kit.report(), self_test=kit.measured())[0])


def unpriced() -> HealthPage:
    """As a quick check ends: only the suggested cure was run."""
    first, *others = kit.report().cures
    cures = (first, *(msgspec.structs.replace(cure, time_ratio=None, psnr=None) for cure in others))
    return HealthPage(kit.desk(report=kit.report(cures=cures), self_test=kit.measured())[0])


def elsewhere() -> HealthPage:
    """Checked in another precision than the one in use."""
    settings = Settings(last_model=kit.MODEL.id, numerics=Numerics(precision="float32"))
    return HealthPage(kit.desk(report=kit.report(), self_test=kit.measured(), settings=settings)[0])


def looked_at_elsewhere() -> HealthPage:
    page = elsewhere()
    page.verdict.show_other.click()
    return page


def opened() -> HealthPage:
    page = overflows()
    page.findings.view.toggle(0)
    return page


def offset() -> HealthPage:
    """A layer whose offset swallows the picture, and a rescaling that is not exact."""
    finding = Finding(
        code="flat-output",
        component="vae",
        module="decoder.mid_block.attentions.0.to_out.0",
        dtype="float16",
        peak=60012.0,
        limit=65504.0,
        facts={"shows": "decoder.conv_norm_out"},
    )
    first, second, *others = kit.report().cures
    near = msgspec.structs.replace(first, plan=msgspec.structs.replace(first.plan, deviation={"vae": 0.0031}), time_spread=0.12)
    region = msgspec.structs.replace(second, time_ratio=1.31, time_spread=0.06)
    report = kit.report(findings=(finding,), layers=kit.layers(over=False), cures=(near, region, *others))
    page = HealthPage(kit.desk(report=report, self_test=kit.measured())[0])
    page.findings.view.toggle(0)
    return page


def after() -> HealthPage:
    page = overflows()
    page.chart.when.button("after").click()
    return page


def table() -> HealthPage:
    page = overflows()
    page.chart.as_table.click()
    return page


def healthy() -> HealthPage:
    return HealthPage(kit.desk(report=kit.healthy(), self_test=kit.measured())[0])


def in_float32() -> HealthPage:
    """Healthy there, though FP16 would not hold it."""
    settings = Settings(last_model=kit.MODEL.id, numerics=Numerics(precision="float32"))
    return HealthPage(kit.desk(report=kit.in_float32(), self_test=kit.measured(), settings=settings)[0])


def tight() -> HealthPage:
    report = kit.report(verdict="tight", findings=kit.report().findings[3:], layers=kit.layers(over=False))
    return HealthPage(kit.desk(report=report, self_test=kit.measured())[0])


def cured() -> HealthPage:
    return HealthPage(kit.desk(report=kit.report(applied=True), self_test=kit.measured())[0])


def cured_opened() -> HealthPage:
    page = cured()
    page.findings.view.toggle(0)
    return page


def stale() -> HealthPage:
    report = kit.report(numerics=Numerics(fp16_accumulation=True))
    return HealthPage(kit.desk(report=report, self_test=kit.measured())[0])


def broken() -> HealthPage:
    finding = Finding(
        code="weights-nonfinite",
        component="unet",
        module="down_blocks.1.attentions.0.m300",
        dtype="float16",
        peak=None,
        limit=None,
    )
    return HealthPage(
        kit.desk(
            report=kit.report(verdict="broken", findings=(finding,), layers=kit.layers(over=False)), self_test=kit.measured()
        )[0]
    )


def checking() -> HealthPage:
    controller, link = kit.desk(self_test=kit.measured())
    page = HealthPage(controller)
    page.start_check()
    job = kit.examine_of(link).job
    done = kit.layers()[:1300]
    link.tell(PhaseChanged(job=job, phase="range", done=1300, total=1818))
    link.tell(LayersMeasured(job=job, layers=done, done=1300, total=1818))
    link.tell(FindingMade(job=job, finding=kit.report().findings[3]))
    return page


def in_another_program(program: str) -> Callable[[], HealthPage]:
    def make() -> HealthPage:
        page = overflows()
        page.elsewhere.turn()
        page.elsewhere.programs.button(program).click()
        return page

    return make


def failed() -> HealthPage:
    page = checking()
    controller = page._controller
    running = controller.state.running
    assert running is not None
    assert isinstance(controller.session._link, kit.NotingLink)
    error = ErrorFacts(code="device-lost", facts={"device": "cuda:0", "detail": "the driver was reset"})
    kit.end(controller.session._link, running.id, "failed", error=error)
    return page


def device() -> DevicePage:
    return DevicePage(kit.desk(self_test=kit.measured())[0])


def device_first_run() -> DevicePage:
    page = device()
    page.set_first_run(True)
    page.tests.matrix.select(3, 9)
    return page


def device_measuring() -> DevicePage:
    controller, link = kit.desk()
    page = DevicePage(controller)
    page.set_first_run(True)
    job = link.last(SelfTest)
    assert isinstance(job, SelfTest)
    for index, result in enumerate(kit.known_answers()[:37]):
        link.tell(TestDone(job=job.job, result=result, done=index + 1, total=100))
    return page


def device_faulty() -> DevicePage:
    bad = [("float16", "matmul"), ("float16", "attention"), ("float16", "attention-backend"), ("float16", "copies")]
    tests = kit.known_answers(bad)
    failing = next(one for one in tests if one.outcome == "wrong")
    dtypes = list(kit.measured().dtypes)
    dtypes[1] = type(dtypes[1])(dtype="float16", state="wrong", reason=Words("Right."), speed=2.0, failing=failing)
    return DevicePage(kit.desk(self_test=kit.measured(dtypes=tuple(dtypes), tests=tests, auto="bfloat16"))[0])


def device_processor() -> DevicePage:
    report = kit.measured(kit.CPU, auto="float32", tests=kit.known_answers(())[:80], seconds=8.2)
    return DevicePage(kit.desk(kit.CPU, self_test=report)[0])


def numerics_changed() -> SettingsPage:
    changed = Settings(last_model=kit.MODEL.id, numerics=Numerics(precision="float32", tf32=True, nan_check="off"))
    page = SettingsPage(kit.desk(self_test=kit.measured(), settings=changed)[0])
    page.show_section("Numerics")
    return page


def lora_folders() -> SettingsPage:
    changed = Settings(
        last_model=kit.MODEL.id,
        model_folders=(kit.MODEL.id, "/mnt/models"),
        lora_folders=("/home/me/loras", "/mnt/a/folder/with/a/very/long/name/that/does/not/fit"),
    )
    page = SettingsPage(kit.desk(self_test=kit.measured(), settings=changed)[0])
    page.show_section("Folders")
    return page


def searched() -> SettingsPage:
    page = SettingsPage(kit.desk(self_test=kit.measured())[0])
    page.focus_search()
    page.search.setText("vae")
    page.show_setting(page._hits[0])
    return page


_OFFER = Offer(
    version="0.3.0",
    current="0.1.0",
    date="2026-11-25",
    source="https://updates.example.org/halftone/halftone-linux-x86_64.update",
    size=31_240_000,
    unpacked=78_100_000,
    environment=True,
    agreed="",
    notes={
        "en": "Several sizes in one queue.\nThe gallery keeps its place.",
        "zh_CN": "一个队列可有多种尺寸。\n图库会保留位置。",
    },
)


def updates(state: Updating) -> Callable[[], SettingsPage]:
    def make() -> SettingsPage:
        page = settings_page("Updates")()
        controller = page._controller
        controller.session.store.take(Replaced(part=state))
        page.refresh()
        return page

    return make


def settings_page(name: str) -> Callable[[], SettingsPage]:
    def make() -> SettingsPage:
        page = SettingsPage(kit.desk(self_test=kit.measured())[0])
        page.show_section(name)
        return page

    return make


SHOTS: tuple[Shot, ...] = (
    ("health-elsewhere", elsewhere),
    ("health-looked-at-elsewhere", looked_at_elsewhere),
    ("health-unchecked", unchecked),
    ("health-overflows", overflows),
    ("health-unpriced", unpriced),
    ("health-opened", opened),
    ("health-elsewhere-comfyui", in_another_program("comfyui")),
    ("health-elsewhere-a1111", in_another_program("a1111")),
    ("health-elsewhere-diffusers", in_another_program("diffusers")),
    ("health-offset", offset),
    ("health-after", after),
    ("health-table", table),
    ("health-healthy", healthy),
    ("health-in-fp32", in_float32),
    ("health-tight", tight),
    ("health-cured", cured),
    ("health-cured-opened", cured_opened),
    ("health-stale", stale),
    ("health-broken", broken),
    ("health-checking", checking),
    ("health-failed", failed),
    ("device", device),
    ("device-first-run", device_first_run),
    ("device-measuring", device_measuring),
    ("device-faulty", device_faulty),
    ("device-processor", device_processor),
    ("settings-numerics", settings_page("Numerics")),
    ("settings-numerics-changed", numerics_changed),
    ("settings-general", settings_page("General")),
    ("settings-appearance", settings_page("Appearance")),
    ("settings-notifications", settings_page("Notifications")),
    ("settings-shortcuts", settings_page("Shortcuts")),
    ("settings-search", searched),
    ("settings-folders", settings_page("Folders")),
    ("settings-folders-loras", lora_folders),
    ("settings-updates", settings_page("Updates")),
    ("settings-updates-found", updates(Updating(stage="found", offer=_OFFER))),
    (
        "settings-updates-installing",
        updates(Updating(stage="installing", offer=_OFFER, step="download", done=12_000_000, total=31_240_000)),
    ),
    (
        "settings-updates-environment",
        updates(Updating(stage="installing", offer=_OFFER, step="environment", line="[2/4] PyTorch 2.13.0")),
    ),
    ("settings-updates-failed", updates(Updating(stage="failed", offer=_OFFER, error=refusal("self-check", ["0.3.0", "x"])))),
    ("settings-updates-done", updates(Updating(stage="done", offer=_OFFER))),
    ("settings-about", settings_page("About")),
)


def variants(name: str) -> Iterator[tuple[str, theme.ThemeName, tuple[int, int], str, int]]:
    """Suffix, theme, size of the page, language and text size."""
    yield "", "dark", (1440, 830), "en", 100
    if name.startswith("settings"):
        yield "-150", "dark", (1024, 570), "en", 150
        yield "-200", "light", (1440, 830), "en", 200
        yield "-200-zh", "dark", (1440, 830), "zh_CN", 200
        yield "-light", "light", (1440, 830), "en", 100
        yield "-zh", "dark", (1440, 830), "zh_CN", 100
        yield "-small", "dark", (1024, 570), "en", 100
    elif name in (
        "health-overflows",
        "health-looked-at-elsewhere",
        "health-unpriced",
        "health-offset",
        "health-in-fp32",
        "device-faulty",
        "device-first-run",
        "health-cured",
        "device",
    ):
        yield "-light", "light", (1440, 830), "en", 100
        yield "-small", "dark", (1024, 570), "en", 100
        yield "-tall", "dark", (1024, 1500), "en", 100
        yield "-zh", "dark", (1440, 830), "zh_CN", 100


def shoot(
    make: Callable[[], QWidget], file: Path, dress: theme.ThemeName, size: tuple[int, int], language: str, text_size: int
) -> None:
    for old in Path(os.environ["HALFTONE_DATA"]).rglob("*.json"):
        old.unlink()
    i18n.set_language("zh_CN" if language == "zh_CN" else "en")
    theme.set_text_size(text_size)
    theme.set_theme(dress)
    page = make()
    theme.dress()  # each page is a window of its own here
    page.resize(*size)
    page.show()
    for _ in range(6):
        QApplication.processEvents()
    chart = getattr(getattr(page, "chart", None), "chart", None)
    if chart is not None:
        chart.flush()
    page.grab().save(str(file))
    page.close()
    page.deleteLater()
    QApplication.processEvents()


def main(folder: Path, wanted: str) -> None:
    app = QApplication.instance() or QApplication([])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SHOTS:
        for suffix, dress, size, language, text_size in variants(name):
            if wanted in name + suffix:
                shoot(make, folder / f"{name}{suffix}.png", dress, size, language, text_size)
    app.quit()


if __name__ == "__main__":
    asked = reader().parse_args()
    main(asked.folder, next(iter(asked.names), ""))
