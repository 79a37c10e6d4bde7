"""What two parts of the window say otherwise of the same thing. `truths` compares every part that is built with the state."""

from collections.abc import Iterator
from typing import Final, TypeVar

from PySide6.QtWidgets import QWidget

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.i18n import language, system_language
from halftone.gui.kit.switches import Segmented
from halftone.gui.models.models_page import ModelsPage
from halftone.gui.settings.program_section import ProgramSection
from halftone.gui.settings.settings_page import SettingsPage
from halftone.gui.shell.workspace import Workspace
from halftone.session.pictures.draft import Draft

P = TypeVar("P", bound=QWidget)
_FIELDS: Final = ("steps", "guidance", "batch", "seed")
"""Of the draft, each with a field of the form with the same name."""


def truths(workspace: Workspace, controller: Controller) -> list[str]:
    """Every disagreement, in words."""
    looks = (_draft, _model, _queue, _canvas, _generate, _precision, _models, _gallery, _look, _settings)
    return [words for look in looks for words in look(workspace, controller)]


def _draft(workspace: Workspace, controller: Controller) -> Iterator[str]:
    form, draft = workspace.create_page.form, controller.state.draft
    for name, shown in (("prompt", form.prompt), ("negative", form.negative)):
        if shown.toPlainText() != getattr(draft, name):
            yield f"the {name} differs from the draft"
    for name in _FIELDS:
        shown, wanted = getattr(form, name).value(), getattr(draft, name)
        if shown != wanted:
            yield f"{name}: another in the form than in the draft"
    yield from _add_ons(workspace, draft)


def _add_ons(workspace: Workspace, draft: Draft) -> Iterator[str]:
    part = workspace.create_page.form.lora_part
    if part.items() != draft.loras:
        yield "the LoRAs of the form differ from the draft"


def _model(workspace: Workspace, controller: Controller) -> Iterator[str]:
    model, card = controller.model, workspace.create_page.form.model_part.row.card
    if model is None:
        return
    if card.name != model.name:
        yield "the form names another model than the one in use"
    badge = controller.session.checks.badge(model)
    if card.state != badge.state:
        yield f"the badge on Create is {card.state}, the one of the model {badge.state}"
    if workspace.top.tabs["health"].count() != (badge.state in ("overflows", "broken")):
        yield "the tab Health counts otherwise than the badge"


def _queue(workspace: Workspace, controller: Controller) -> Iterator[str]:
    state, queue, ring = controller.state, workspace.create_page.queue, workspace.top.ring
    if len({job.id for job in state.jobs}) != len(state.jobs):
        yield "a job stands twice in the queue"
    if [job.id for job in queue.model.items] != [job.id for job in state.jobs]:
        yield "the list of the queue differs from the queue"
    if state.jobs and not queue.count.text().startswith(str(len(state.jobs))) and language() == "en":
        yield "the queue counts otherwise than its list"
    if queue.isHidden() == bool(state.jobs):
        yield "the queue is shown while it is empty, or hidden while it is not"
    if queue.pause.isChecked() != state.paused:
        yield "the button that pauses differs from the queue"
    if ring.isHidden() == bool(state.running):
        yield "the ring of the top bar is shown without a job, or hidden with one"


def _canvas(workspace: Workspace, controller: Controller) -> Iterator[str]:
    page = workspace.create_page
    current = page.history.list.current()
    marked = "" if current is None else page.history.model.key(current)
    if page.centre.marked and page.centre.marked in page.history.paths() and marked != page.centre.marked:
        yield "the history marks another picture than the canvas shows"
    if page.centre.sight == "picture" and page.centre.canvas.isHidden():
        yield "a picture is in sight, and the canvas is hidden"
    if page.history.paths() != [made.facts.path for made in controller.state.history.pictures]:
        yield "the history lists other pictures than the state"


def _generate(workspace: Workspace, controller: Controller) -> Iterator[str]:
    del controller
    form = workspace.create_page.form
    refusal = form.refusal()
    for name, shown in (("Generate", form.generate_button), ("the arrow beside it", form.more)):
        if shown.isEnabled() == bool(refusal):
            yield f"{name} is enabled against {refusal!r}"
    if form.footer.why_not.isHidden() == bool(refusal):
        yield "the reason beside Generate is shown without need, or hidden"


def _precision(workspace: Workspace, controller: Controller) -> Iterator[str]:
    part, state = workspace.create_page.form.numerics_part, controller.state
    status = workspace.status.precision.accessibleName() or workspace.status.precision.text()
    if part.row.value.text() not in status:
        yield f"the precision is {part.row.value.text()!r} in the form, {status!r} in the status bar"
    if part.built and part.precision.value() != (state.once or "settings"):
        yield "the choice of the precision differs from the one in force"


def _models(workspace: Workspace, controller: Controller) -> Iterator[str]:
    page = _built(workspace, ModelsPage)
    if page is None or not page.isVisible() or page.rows.busy:
        return
    facts = {facts.id: facts for facts in controller.models}
    listed = page.table.rows.rows if page.as_table.isChecked() else page.cards.items
    for row in listed:
        if (model := facts.get(row.entry.path)) is not None and row.state != controller.session.checks.badge(model).state:
            yield "a badge on Models differs from the one of the model"
    shown = page.shown
    if shown is not None and shown.entry.path not in {row.entry.path for row in listed}:
        yield "the panel of Models shows a model that is not listed"


def _gallery(workspace: Workspace, controller: Controller) -> Iterator[str]:
    page, state = _built(workspace, GalleryPage), controller.state.gallery
    if page is None or not page.isVisible() or not state.read or not state.rows.whole:
        return
    if list(page.grid.rows.ids) != list(state.rows.ids):
        yield "the grid of Gallery lists other pictures than the state"
    if set(page.grid.selection()) != set(state.selected):
        yield "the grid of Gallery marks other pictures than are selected"
    if len(state.rows) > state.total:
        yield "Gallery lists more pictures than it counts"


def _look(workspace: Workspace, controller: Controller) -> Iterator[str]:
    del workspace
    settings = controller.settings
    if settings.theme != "system" and theme.current().name != settings.theme:
        yield f"the window is {theme.current().name}, the setting {settings.theme}"
    wanted = system_language() if settings.language == "system" else settings.language
    if language() != wanted:
        yield f"the window speaks {language()}, the setting is {wanted}"


def _settings(workspace: Workspace, controller: Controller) -> Iterator[str]:
    page = _built(workspace, SettingsPage)
    if page is None:
        return
    for section in page.findChildren(ProgramSection):
        for field in ("theme", "language", "text_size"):
            row = section.rows.get(field)
            if row is None or not isinstance(row.control, Segmented):
                continue
            if row.control.value() != getattr(controller.settings, field):
                yield f"Settings shows another {field} than the one in force"


def _built(workspace: Workspace, kind: type[P]) -> P | None:
    return next((one for one in workspace.stack.children() if isinstance(one, kind)), None)
