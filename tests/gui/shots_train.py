"""The Train page in its states, for looking at: `python tests/gui/shots_train.py FOLDER [part of a name]`."""

# ruff: noqa: E402 - the platform and the path must be set before Qt and Halftone are imported

import math
import os
import random
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import msgspec
from tests.gui.shots import Stage, landscape, png, reader
from tests.helpers import samples

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import MemoryFacts
from halftone.contract.messages import (
    JobEnded,
    JobStarted,
    MemoryChanged,
    PhaseChanged,
    TestPicture,
    TrainBegins,
    TrainCaught,
    TrainHeld,
    TrainSaved,
    TrainStep,
    TrainUnsaved,
)
from halftone.contract.training import Caught, Omen, TrainConfig, TrainPicture, TrainReport
from halftone.gui.train.train_page import TrainPage
from halftone.health.training.training_record import packed_curve

CONFIG: Final = TrainConfig(
    model="pocket", pictures="/pictures/paper cut", output="/loras", name="Paper cut style", size=512, test_prompt="a paper cut"
)
PROMPT: Final = "a paper cut landscape with a rising sun"


def page_of(stage: Stage) -> TrainPage:
    stage.controller.go("train")
    page = stage.workspace.page("train")
    assert isinstance(page, TrainPage)
    return page


def empty(stage: Stage) -> None:
    page_of(stage)


def filled(stage: Stage) -> None:
    page = page_of(stage)
    page.form.take(CONFIG)
    page.form.more.setChecked(True)


def begin(stage: Stage, config: TrainConfig = CONFIG, first: int = 1) -> str:
    page_of(stage)
    stage.controller.session.training.start(config)
    job = stage.controller.session.training.job
    assert job is not None
    pictures = tuple(TrainPicture(name=f"IMG_{n:04}.png", width=640, height=512, caption="a hill") for n in range(42))
    stage.play(JobStarted(job=job.id, kind="train"))
    begins = TrainBegins(
        job=job.id, config=config, pictures=pictures, omens=(), dtype="float16", folder="/loras/run", first=first
    )
    stage.play(begins)
    return job.id


def train(stage: Stage, steps: int = 912, bad: tuple[int, ...] = (742,), config: TrainConfig = CONFIG) -> str:
    """A training that is so far; without a test picture before the 200th step."""
    job, dice = begin(stage, config), random.Random(7)
    for step in range(1, steps + 1):
        trend = 0.085 + 0.08 * math.exp(-step / config.steps * 4.2)
        near = any(0 <= one - step < 6 for one in bad)
        norm = 0.2 * math.exp(dice.gauss(0, 0.25)) * (30 if near else 1)
        if step in bad:
            stage.play(TrainCaught(job=job, caught=samples.caught(step)))
        loss = trend + dice.gauss(0, 0.008)
        stage.play(
            TrainStep(job=job, step=step, steps=config.steps, loss=loss, norm=norm, rate=1e-4, scale=32768.0, seconds=0.543)
        )
        if step % 200 == 0:
            stage.play(TrainSaved(job=job, step=step, path=f"/loras/run/{step}.safetensors"))
            shown = png(landscape(512, 420, step // 100 + 3))
            stage.play(TestPicture(job=job, step=step, path="/none.png", prompt=PROMPT, seed=7), shown)
    return job


def running(stage: Stage) -> None:
    train(stage, bad=())


def caught(stage: Stage) -> None:
    train(stage)


def opened(stage: Stage) -> None:
    train(stage)
    page_of(stage).refresh()
    page_of(stage).card.fold.setChecked(True)


def asks(stage: Stage) -> None:
    job = train(stage, bad=())
    again = msgspec.structs.replace(samples.caught(913), tries=3, did="stopped", items=("IMG_0193.png", "IMG_0007.png"))
    stage.play(TrainCaught(job=job, caught=again, asks=True))
    stage.play(TrainHeld(job=job, on=True, step=912))


def held(stage: Stage) -> None:
    job = train(stage, steps=300, bad=())
    stage.play(TrainHeld(job=job, on=True, step=300))


def loading(stage: Stage) -> None:
    page_of(stage)
    stage.controller.session.training.start(CONFIG)
    job = stage.controller.session.training.job
    assert job is not None
    stage.play(JobStarted(job=job.id, kind="train"))
    stage.play(PhaseChanged(job=job.id, phase="load", done=2_100_000_000, total=6_900_000_000))


def reading(stage: Stage) -> None:
    """Captions and pictures, by the model."""
    loading(stage)
    job = stage.controller.session.training.job
    assert job is not None
    stage.play(PhaseChanged(job=job.id, phase="encode", done=31, total=85))


def refused(stage: Stage) -> None:
    """A training that could not begin."""
    checked(stage)
    page_of(stage).start()
    job = stage.controller.session.training.job
    assert job is not None
    stage.play(JobStarted(job=job.id, kind="train"))
    error = ErrorFacts(code="output-not-folder", facts={"path": "/loras/Paper cut style"})
    stage.play(JobEnded(job=job.id, outcome="failed", error=error))


def unsaved(stage: Stage) -> None:
    """What cannot be written, and a test picture that cannot be made."""
    job = train(stage, bad=())
    full = ErrorFacts(code="disk-full", facts={"need": "128 MB", "free": "3 MB", "folder": "/loras"})
    stage.play(TrainUnsaved(job=job, step=910, error=full))
    stage.play(TestPicture(job=job, step=912, path="", prompt=PROMPT, seed=7, error=full))


def table(stage: Stage) -> None:
    """The steps in a table."""
    train(stage)
    page = page_of(stage)
    page.refresh()
    page.card.acted.emit("close")
    page.header.as_table.setChecked(True)


def no_room(stage: Stage) -> None:
    """A training that does not fit."""
    checked(stage)
    stage.play(MemoryChanged(memory=MemoryFacts(total=150_000_000, own=0, others=20_000_000)))
    page_of(stage).form.take(msgspec.structs.replace(page_of(stage).form.config(), batch=8))
    stage.settle(500)


def resumed(stage: Stage) -> None:
    """One that went on: the curve from before stands there."""
    page_of(stage)
    stage.controller.session.training.start(CONFIG)
    job, dice = stage.controller.session.training.job, random.Random(7)
    assert job is not None
    stage.play(JobStarted(job=job.id, kind="train"))
    losses = array("f", [0.085 + 0.08 * math.exp(-step / 380) + dice.gauss(0, 0.008) for step in range(600)])
    norms = array("f", [0.2 * math.exp(dice.gauss(0, 0.25)) for _ in range(600)])
    pictures = tuple(TrainPicture(name=f"IMG_{n:04}.png", width=640, height=512, caption="a hill") for n in range(42))
    begins = TrainBegins(
        job=job.id, config=CONFIG, pictures=pictures, omens=(), dtype="float16", folder="/loras/run", first=601,
        caught=(samples.caught(320),),
    )  # fmt: skip
    stage.play(begins, packed_curve(losses, norms))
    for step in range(601, 700):
        loss = 0.1 + dice.gauss(0, 0.008)
        stage.play(
            TrainStep(job=job.id, step=step, steps=CONFIG.steps, loss=loss, norm=0.2, rate=1e-4, scale=32768.0, seconds=0.543)
        )


def waiting(stage: Stage) -> None:
    stage.prompt("a jug")
    stage.running()
    page_of(stage)
    stage.controller.session.training.start(CONFIG)


def report(steps: int, *bad: Caught, path: str = "/loras/Paper cut style.safetensors") -> TrainReport:
    return TrainReport(
        name=CONFIG.name, path=path, folder="/loras/run", steps=steps, steps_wanted=1600, loss=0.09, seconds=860.0, caught=bad
    )


def done(stage: Stage) -> None:
    job = train(stage, steps=1600)
    stage.play(JobEnded(job=job, outcome="done", report=report(1600, samples.caught(742))))


def kept(stage: Stage) -> None:
    job = train(stage, steps=912, bad=())
    stage.play(TrainSaved(job=job, step=912, path="/loras/Paper cut style.safetensors"))
    stage.play(JobEnded(job=job, outcome="done", report=report(912)))


def failed(stage: Stage) -> None:
    job = train(stage, steps=912)
    stage.play(JobEnded(job=job, outcome="failed", error=ErrorFacts(code="worker-lost", facts={"cause": "9", "log": "a.log"})))


def hovered(stage: Stage) -> None:
    train(stage)
    page = page_of(stage)
    page.refresh()
    stage.settle()
    page.chart.chart._go_to(500)


def long(stage: Stage) -> None:
    train(stage, steps=6000, bad=(900, 2500, 2510, 5990), config=msgspec.structs.replace(CONFIG, steps=10_000))


OMEN: Final = Omen(
    code="rate-too-high", certain=False, value=0.01, limit=0.0005, dtype="float16", remedies=("lower-rate", "warm-up", "cosine")
)


def checked(stage: Stage) -> None:
    """A folder with some pictures to look at."""
    folder = Path(stage.folder) / "paper cut"
    folder.mkdir()
    for number in range(12):
        landscape(512, 420, number).save(str(folder / f"IMG_{number:04}.png"))
        (folder / f"IMG_{number:04}.txt").write_text("a paper cut landscape" if number % 4 else "", "utf-8")
    (folder / "IMG_0193.png").write_bytes(samples.png(600, 600, (255, 255, 255)))
    (folder / "broken.jpg").write_bytes(b"no picture")
    page = page_of(stage)
    page.form.take(msgspec.structs.replace(CONFIG, pictures=str(folder)))
    stage.settle(700)


def foreseen(stage: Stage) -> None:
    job = begin(stage)
    begins = stage.controller.session.training.run.record
    assert begins is not None
    assert begins.begins is not None
    fast = msgspec.structs.replace(CONFIG, learning_rate=0.01)
    stage.play(msgspec.structs.replace(begins.begins, job=job, omens=(OMEN,), config=fast))


STATES: Final[dict[str, Callable[[Stage], None]]] = {
    "empty": empty,
    "filled": filled,
    "checked": checked,
    "foreseen": foreseen,
    "loading": loading,
    "reading": reading,
    "refused": refused,
    "unsaved": unsaved,
    "table": table,
    "no-room": no_room,
    "resumed": resumed,
    "waiting": waiting,
    "running": running,
    "caught": caught,
    "opened": opened,
    "asks": asks,
    "held": held,
    "done": done,
    "kept": kept,
    "failed": failed,
    "hovered": hovered,
    "long": long,
}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "-light": {"theme_name": "light"},
    "-zh": {"language": "zh_CN"},
    "-small": {"size": (1024, 640)},
    "-small-zh": {"size": (1024, 640), "language": "zh_CN", "theme_name": "light"},
}


def main() -> None:
    from halftone.gui.main import make_app

    asked = reader().parse_args()
    folder, wanted = asked.folder, asked.names
    folder.mkdir(parents=True, exist_ok=True)
    app = make_app(sys.argv[:1])
    for state, act in STATES.items():
        for look, options in LOOKS.items():
            name = state + look
            if wanted and not any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in wanted):
                continue
            stage = Stage(**options)
            act(stage)
            stage.settle()
            stage.shoot(folder / f"{name}.png")
    app.quit()


if __name__ == "__main__":
    main()
