"""A window over a real worker process that plays a script, and what tests wait for."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from pytestqt.qtbot import QtBot
from tests.helpers import samples, scripted

from halftone.client.protocol import GRACE_SECONDS
from halftone.contract.facts import PictureFacts
from halftone.gui import theme
from halftone.gui.controller import Controller, PageName
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import set_language
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.library import records
from halftone.session.events import Noted
from halftone.settings.store import Settings

Part = TypeVar("Part", bound=FoldedPart)
PATIENCE: Final = 30_000


def link(script: Mapping[str, Sequence[scripted.AnyAction]] | None = None, grace: float = GRACE_SECONDS) -> WorkerLink:
    """A worker that plays the script."""
    return WorkerLink("--engine", scripted.ENGINE, environment=scripted.environment(script or {}), grace=grace)


def opened(part: Part) -> Part:
    """A part of the form of Create once its row was opened: what stands in it is made then."""
    part.row.setChecked(True)
    return part


class Stage:
    """Window, controller and worker; `close` leaves nothing behind."""

    def __init__(
        self,
        qtbot: QtBot,
        script: Mapping[str, Sequence[scripted.AnyAction]] | None = None,
        *,
        settings: Settings | None = None,
        measured: bool = True,
        grace: float = GRACE_SECONDS,
        early: Sequence[Noted] = (),
    ) -> None:
        """early: messages that come before the workspace moves in."""
        self.qtbot = qtbot
        set_language("en")
        theme.begin("dark")
        if measured:
            report = samples.self_test_report()
            records.save_selftest(msgspec.structs.replace(report, device=samples.CPU))
        self.link = link(script, grace)
        self.controller = Controller(self.link, settings or Settings(first_run_done=True))
        self.window = MainWindow()
        for notice in early:
            self.controller.take(notice)
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        self.page = self.workspace.create_page
        qtbot.addWidget(self.window, before_close_func=lambda _window: self.close())
        self.window.show()
        self.controller.session.start()
        self.wait(lambda: self.controller.state.worker == "ready" and self.controller.state.device is not None)
        self.wait(lambda: self.controller.model is not None)

    def shows(self, page: PageName) -> bool:
        """Whether this page is the one in the window."""
        return self.workspace.stack.currentWidget() is self.workspace.page(page)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until the condition holds; fails the test when it does not."""
        self.qtbot.waitUntil(condition, timeout=PATIENCE)

    def idle(self) -> None:
        """Until no job is left and nothing is read or written in the background."""
        self.wait(lambda: not self.controller.state.jobs and not self.controller.background.busy)

    @property
    def latest(self) -> PictureFacts:
        """The picture that was made last."""
        latest = self.controller.state.history.latest
        assert latest is not None
        return latest.facts

    def picture(self, prompt: str = "a red sun over green hills") -> None:
        """Make one picture, from prompt to history."""
        before = len(self.page.history.paths())
        self.page.form.prompt.setPlainText(prompt)
        self.page.generate()
        self.idle()
        self.wait(lambda: len(self.page.history.paths()) > before)

    def close(self) -> None:
        """The worker ends, whatever it did; the window closes without asking."""
        self.controller.session.queue.clear_waiting()
        self.controller.session.stop()
        self.qtbot.waitUntil(lambda: not self.controller.background.busy, timeout=PATIENCE)
