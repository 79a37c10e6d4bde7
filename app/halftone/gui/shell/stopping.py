"""What Esc and the cancel buttons stop: only what is seen, and with a question where much work would be lost."""

import time
from typing import Final, Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.session.state import Job

ASK_AFTER: Final = 60.0
"""Seconds of work above which stopping asks first."""
_PAGES: Final = {"Generate": "create", "Upscale": "create", "Examine": "health", "Repair": "health", "SelfTest": "device"}


def on_page(page: str, job: Job | None) -> Job | None:
    """The job that Esc stops on a page: the running one, if this page is where it is followed."""
    return job if job is not None and _PAGES.get(job.kind) == page else None


def way_to_stop(job: Job, now: float) -> Literal["cancel", "ask"]:
    """now: seconds of the clock of the job's times. What is being stopped already is not asked about again."""
    worked = 0.0 if job.started is None else now - job.started
    return "ask" if worked > ASK_AFTER and job.stopping != "cancel" else "cancel"


def stop(parent: QWidget, controller: Controller, job: Job) -> None:
    """Cancel a running job, after a question where it is due; nothing waits for the answer."""
    if way_to_stop(job, time.monotonic()) == "cancel":
        controller.session.queue.cancel(job.id)
        return
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setText(tr("Stop this job? Over a minute of work would be lost."))
    yes = box.addButton(tr("Stop"), QMessageBox.ButtonRole.DestructiveRole)
    box.setDefaultButton(box.addButton(tr("Continue"), QMessageBox.ButtonRole.RejectRole))
    yes.clicked.connect(lambda: controller.session.queue.cancel(job.id))
    box.open()
