"""Looks for an update and installs it, each when it is asked for: `halftone update` in a process of its own does both."""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from halftone.contract.wording import Words
from halftone.session.events import Noted, Replaced
from halftone.session.ports import Commands, Finished
from halftone.session.store import Store
from halftone.session.update_state import REASONS, Offer, Step, Updating, ended_early, refusal

_log = logging.getLogger(__name__)


class _Error(msgspec.Struct):
    code: str
    message: str
    values: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    """What the process prints at its end."""

    found: Offer | None = None
    error: _Error | None = None


class _Came(msgspec.Struct):
    """What it prints meanwhile, a line each."""

    stage: Step = ""
    done: int = 0
    total: int = 0
    line: str = ""


_NOTHING: Final = Updating()
_DAMAGED: Final = "HALFTONE_DAMAGED"
"""The launcher names in it an update that could not start (`installer.versions`)."""


class Updates:
    def __init__(self, store: Store, commands: Commands) -> None:
        self._store = store
        self._commands = commands
        self._kill: Callable[[], object] | None = None
        store.subscribe(lambda state: state.settings.update_source, lambda _place: self._forget())

    def begin(self, environ: Mapping[str, str] = os.environ) -> None:
        """Say that this version runs in the place of a newer one that is damaged."""
        if damaged := environ.get(_DAMAGED):
            self._store.take(Noted(kind="update-damaged", facts=(damaged,)))

    def _forget(self) -> None:
        """What was found at another place is no offer any more."""
        if self._kill is None and self._known.stage != "done":
            self._show(_NOTHING)

    @property
    def _known(self) -> Updating:
        return self._store.state.updating

    def _show(self, updating: Updating) -> None:
        self._store.take(Replaced(part=updating))

    def check(self) -> None:
        """Read the manifest at the place of the settings; nothing else is fetched."""
        if self._kill is None:
            self._show(Updating(stage="checking"))
            self._run(self._checked, "--check")

    def install(self) -> None:
        """Install what was found and shown, and nothing else."""
        offer = self._known.offer
        if self._kill is None and self._known.stage in ("found", "failed") and offer is not None:
            self._show(Updating(stage="installing", offer=offer))
            self._run(self._installed, "--yes", "--progress", "--agreed", offer.agreed, heard=self._heard)

    def cancel(self) -> None:
        """Stop what runs. An update may be killed at any moment: the next one clears what it left. In its last step, which is
        short, it may be in already, so that one is waited for."""
        offer = self._known.offer
        if self._known.step != "switch" and self.stop():
            self._show(Updating(stage="found", offer=offer) if offer is not None else _NOTHING)

    def stop(self) -> bool:
        """Kill the process, if there is one. Returns whether there was."""
        kill, self._kill = self._kill, None
        if kill is not None:
            kill()
        return kill is not None

    def _run(self, ended: Callable[[Finished], object], *words: str, heard: Callable[[bytes], object] | None = None) -> None:
        place = self._store.state.settings.update_source
        self._kill = self._commands.start("update", "--json", f"--from={place}", *words, ended=ended, heard=heard)

    def _checked(self, end: Finished) -> None:
        self._kill = None
        answer, error = _answer(end, "")
        if error is not None:
            self._show(Updating(stage="failed", error=error))
        elif answer.found is None:
            self._show(Updating(stage="up-to-date"))
        else:
            self._show(Updating(stage="found", offer=answer.found))

    def _heard(self, printed: bytes) -> None:
        """The last whole line says how far it is."""
        for line in reversed(printed.splitlines(keepends=True)):
            if line.endswith(b"\n"):
                with suppress(msgspec.MsgspecError):
                    came = msgspec.json.decode(line, type=_Came)
                    self._show(replace(self._known, step=came.stage, done=came.done, total=came.total, line=came.line))
                return

    def _installed(self, end: Finished) -> None:
        self._kill = None
        _, error = _answer(end, self._known.step)
        if error is not None:
            self._show(Updating(stage="failed", offer=self._known.offer, error=error))
        else:
            self._show(Updating(stage="done", offer=self._known.offer))


def _answer(end: Finished, step: Step) -> tuple[_Answer, Words | None]:
    """What it answered, and why it failed. step: the last one that was heard of."""
    try:
        answer = msgspec.json.decode(end.output, type=_Answer)
    except msgspec.MsgspecError:
        detail = _last_line(end.errors) or str(end.code)
        _log.error("the update ended early: %s", detail)
        return _Answer(), ended_early(detail, step)
    if answer.error is None:
        return answer, None
    if answer.error.code in REASONS:
        return answer, refusal(answer.error.code, answer.error.values)
    return answer, ended_early(answer.error.message, step)


def _last_line(errors: bytes) -> str:
    """The last line that is no report of progress."""
    for line in reversed(errors.strip().splitlines()):
        try:
            msgspec.json.decode(line, type=_Came)
        except msgspec.MsgspecError:
            return line.decode("utf-8", "replace")
    return ""
