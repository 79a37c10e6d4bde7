"""The Models page over real files: what it finds, shows and does."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QMenu, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot
from tests.bench.truths import truths
from tests.gui import lists
from tests.gui.stage import Stage
from tests.gui.stage import opened as opened_part
from tests.gui.windows import windows_shown
from tests.helpers import samples
from tests.helpers.headers import header, write_sparse
from tests.helpers.model_files import ramp, safetensors, write_folder

from halftone.contract.errors import sentence
from halftone.contract.vocabulary import POCKET
from halftone.contract.wording import Words
from halftone.gui.controller import PageName
from halftone.gui.kit.stock_widgets import ElidedLabel
from halftone.gui.models.model_cards import act_of
from halftone.gui.models.model_table import COLUMNS, fitting
from halftone.gui.models.model_words import problem_words
from halftone.gui.models.models_page import ModelsPage
from halftone.gui.models.picker import ModelPicker, pick
from halftone.gui.models.side_panel import lines_of
from halftone.gui.text import notice_message
from halftone.library import records
from halftone.library.index.descriptions import Description
from halftone.library.index.facts import Mark
from halftone.library.index.programs import Install
from halftone.library.index.scan import scan
from halftone.library.index.store import Index
from halftone.library.models import describe
from halftone.session.events import Replaced
from halftone.session.models.listing import Listing, Query
from halftone.session.models.watched import Library, Watched, own_models
from halftone.settings.store import Settings

_LAYER = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"
_XL = "lora_unet_input_blocks_4_1_transformer_blocks_0_attn2_to_k"
LORA = header(f"{_LAYER}.lora_down.weight[8,768]", f"{_LAYER}.lora_up.weight[320,8]")


def library(root: Path) -> Path:
    """A checkpoint, a LoRA with trigger words, an embedding, a pickle and a damaged file."""
    root.mkdir(parents=True, exist_ok=True)
    write_folder(root / "whole")
    write_sparse(root / "style.safetensors", LORA)
    (root / "style.json").write_text('{"activation text": "cut paper, layered"}')
    QImage(64, 32, QImage.Format.Format_RGB32).save(str(root / "style.preview.png"))
    write_sparse(root / "word.safetensors", header("emb_params[2,768]"))
    (root / "old.ckpt").write_bytes(b"\x80\x02")
    (root / "broken.safetensors").write_bytes(b"abc")
    return root


def scanned(root: Path) -> Library:
    with Index() as index:
        (found,) = scan(index, [str(root)])
        entries = tuple(index.entries([str(root)]))
    return Library(entries=entries, watched=(Watched(root=str(root), files=found.files),), read=True)


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    return Stage(qtbot)


def opened(stage: Stage, known: Library | None = None) -> ModelsPage:
    if known is not None:
        stage.controller.take(Replaced(part=known))
    stage.controller.go("models")
    page = cast("ModelsPage", stage.workspace.page("models"))
    stage.wait(lambda: not page.rows.busy and bool(page.rows.listing.rows))
    return page


def chosen(stage: Stage, page: ModelsPage, place: str) -> list[str]:
    page.choose("place", place)
    stage.wait(lambda: page.rows.query.place == place and not page.rows.busy)
    return [row.entry.name for row in page.cards.items]


def test_each_kind_stands_on_its_shelf_and_problems_in_lists(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    assert sorted(row.entry.name for row in page.cards.items) == ["Pocket (demo)", "whole"]
    assert page.shown is not None
    assert page.shown.entry.path == POCKET, "the model in use is selected at first"
    assert chosen(stage, page, "LoRA") == ["style"]
    assert chosen(stage, page, "Embeddings") == ["word"]
    assert chosen(stage, page, "pickles") == ["old"]
    assert page.inspector.convert.isVisible()
    assert not page.inspector.use.isEnabled()
    assert chosen(stage, page, "unreadable") == ["broken"]
    assert page.inspector.problem.isVisible()
    counts = {row.text(): row.accessibleName() for row in (page.side.row("place", "LoRA"), page.side.row("place", "pickles"))}
    assert counts == {"LoRA": "LoRA, 1", "Pickle files": "Pickle files, 1"}


def test_search_and_filters_narrow_the_list_and_can_be_cleared(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    QTest.keyClick(page, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert page.search.hasFocus()
    QTest.keyClicks(page.search, "WHOLE")
    stage.wait(lambda: [row.entry.name for row in page.cards.items] == ["whole"])
    QTest.keyClicks(page.search, " nothing")
    stage.wait(page.empty.isVisible)
    assert page.empty.text() == "No model matches."
    page.clear.click()
    stage.wait(lambda: len(page.cards.items) == 2)
    page.side.row("health", "unchecked").click()
    stage.wait(lambda: page.rows.query.health == "unchecked" and not page.rows.busy)
    assert len(page.cards.items) == 2
    page.side.row("health", "healthy").click()
    stage.wait(page.empty.isVisible)
    page.side.row("health", "healthy").click()
    stage.wait(lambda: len(page.cards.items) == 2)


def test_a_click_selects_and_a_double_click_uses(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage, scanned(root))
    lists.click(page.grid, str(root / "whole"))
    assert page.inspector.row is not None
    assert page.inspector.row.entry.name == "whole"
    assert chosen(stage, page, "LoRA") == ["style"]
    at = lists.place(page.grid, str(root / "style.safetensors")) - QPoint(0, 30)
    QTest.mouseDClick(page.grid.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert stage.shows("create")
    assert stage.page.form.lora_part.row.isChecked()


def test_keys_reach_everything(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    page.grid.setFocus()
    page.grid.setCurrentIndex(page.cards.index(0))
    QTest.keyClick(page.grid, Qt.Key.Key_Right)
    assert page.inspector.row is page.cards.items[1]
    QTest.keyClick(page.grid, Qt.Key.Key_Left)
    QTest.keyClick(page.grid, Qt.Key.Key_F7)
    assert page.inspector.isHidden()
    QTest.keyClick(page.grid, Qt.Key.Key_F7)
    assert page.inspector.isVisible()
    QTest.keyClick(page.grid, Qt.Key.Key_Return)
    assert stage.shows("create")


def test_trigger_words_go_into_the_prompt_once(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    chosen(stage, page, "LoRA")
    stage.controller.session.drafting.edit(prompt="a house,")
    for _ in range(2):
        page.inspector.word_chosen.emit("cut paper")
    assert stage.controller.state.draft.prompt == "a house, cut paper"
    assert page.inspector.row is not None
    assert page.inspector.row.entry.description.triggers == ("cut paper", "layered")


def test_notes_and_favourites_are_kept(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage, scanned(root))
    lists.click(page.grid, str(root / "whole"))
    page.inspector.star.click()
    page.inspector.note.setPlainText("good hands")
    page.inspector.note.save()
    mark = stage.controller.state.library.marks[str(root / "whole")]
    assert (mark.favourite, mark.note) == (True, "good hands")
    stage.idle()
    assert chosen(stage, page, "favourites") == ["whole"]


def test_the_badge_follows_the_stored_check_and_the_precision(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    known = scanned(root)
    entry = next(one for one in known.entries if one.name == "whole")
    facts = msgspec.structs.replace(
        samples.POCKET, id=entry.path, path=entry.path, name="whole", fingerprint=entry.fingerprint, family=entry.family
    )
    device = stage.controller.state.device
    assert device is not None
    precision = stage.controller.session.checks.precision_of(facts)[0]
    report = samples.check_report(facts, fragile=True)
    records.save_report(msgspec.structs.replace(report, device=device, precision=precision, numerics=stage.controller.numerics))
    page = opened(stage, known)
    stage.wait(lambda: any(row.state == "overflows" for row in page.cards.items))
    row = next(row for row in page.cards.items if row.state == "overflows")
    assert row.entry.name == "whole"
    lists.click(page.grid, entry.path)
    assert page.inspector.health.property("card") == "danger"
    page.inspector.health.open.click()
    assert stage.shows("health")


def test_the_table_has_the_same_rows_and_sorts(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    page.as_table.click()
    assert page.views.currentWidget() is page.table
    assert page.table.rows.rowCount() == 2
    page.table.sorted.emit("name")
    stage.wait(lambda: not page.rows.busy)
    first = [row.entry.name for row in page.table.rows.rows]
    page.table.sorted.emit("name")
    stage.wait(lambda: [row.entry.name for row in page.table.rows.rows] == first[::-1])
    assert page.table.rows.data(page.table.rows.index(0, 0)) in ("whole", "Pocket (demo)")


def marked(page: ModelsPage) -> list[str]:
    return [row.entry.name for row in page.selected_rows()]


def test_the_cards_the_table_and_the_panel_agree(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    first, second = (row.entry for row in page.rows.listing.rows)
    lists.click(page.grid, first.path)
    page.as_table.click()
    assert marked(page) == [first.name]
    page.table.selectRow(1)
    page.as_cards.click()
    assert page.shown is not None
    assert page.shown.entry == second
    assert marked(page) == [second.name]
    page.as_table.click()
    page.search.setText(first.name)
    stage.wait(lambda: len(page.table.rows.rows) == 1 and not page.rows.busy)
    assert page.shown.entry == first
    assert truths(stage.workspace, stage.controller) == []


def test_several_rows_of_the_table_stay_selected_when_one_changes(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    page.as_table.click()
    page.table.selectAll()
    path = page.rows.listing.rows[1].entry.path
    stage.controller.session.library.mark(path, favourite=True)
    stage.wait(lambda: any(row.mark.favourite for row in page.table.rows.rows))
    assert len(page.selected_rows()) == 2


def test_checks_of_all_wait_in_the_queue(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    assert page.check_all.accessibleName() == "Check 2 models"
    stage.controller.session.queue.pause(True)
    page.check_all.click()
    stage.wait(lambda: len([job for job in stage.controller.state.jobs if job.kind == "Examine"]) == 2)
    page.refresh()
    assert page.check_all.isHidden()


def test_models_that_cannot_be_checked_are_named_with_the_reason(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    stage.controller.session.queue.pause(True)
    (tmp_path / "cut.safetensors").write_bytes(b"\xff" * 40)
    whole = next(row.entry.path for row in page.rows.listing.rows if row.entry.name == "whole")
    page.check([str(tmp_path / "cut.safetensors"), whole, str(tmp_path / "gone")])
    stage.wait(lambda: stage.workspace.toasts.shown is not None)
    assert [job.model for job in stage.controller.state.jobs if job.kind == "Examine"] == [whole]
    bar = stage.workspace.toasts.shown
    assert bar is not None
    assert bar.message.title == "2 models were not checked."
    cut, gone = (sentence(error) for _, error in stage.controller.state.notices[-1].refused)
    assert bar.message.text == f"cut: {cut} gone: {gone}"
    assert bar.message.lasting


def test_delete_moves_to_the_bin_and_undo_brings_it_back(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = library(tmp_path / "models")
    page = opened(stage, scanned(root))
    chosen(stage, page, "LoRA")
    page.grid.setFocus()
    page.grid.setCurrentIndex(page.cards.index(0))
    QTest.keyClick(page.grid, Qt.Key.Key_Delete)
    stage.idle()
    assert not (root / "style.safetensors").exists(), stage.controller.state.notices
    notice = stage.controller.state.notices[-1]
    assert notice.kind == "models-deleted"
    if len(notice.facts) > 2:  # the bin tells its place there
        stage.workspace.act(notice, "undo")
        stage.wait(lambda: all((root / f"style.{end}").exists() for end in ("safetensors", "json", "preview.png")))
        assert stage.controller.state.gallery.total == 0, "a model's preview is no picture of the gallery"


def test_delete_counts_the_models_that_moved_and_names_the_others(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = library(tmp_path / "models")
    for name in ("a", "b"):
        write_sparse(root / f"{name}.safetensors", LORA)
    page = opened(stage, scanned(root))
    assert sorted(chosen(stage, page, "LoRA")) == ["a", "b", "style"]
    (root / "a.safetensors").unlink()
    page.grid.selectAll()
    page.delete()
    (question,) = page.findChildren(QMessageBox)
    question.buttons()[0].click()
    stage.wait(lambda: any(one.kind == "not-deleted" for one in stage.controller.state.notices))
    stage.idle()
    moved, left = (notice_message(notice) for notice in stage.controller.state.notices[-2:])
    assert moved.title == "Moved to the bin: 2 models."
    assert (left.title, left.text) == ("Not moved to the bin: a.safetensors.", "The file no longer exists.")
    assert not (root / "b.safetensors").exists()
    assert not (root / "style.json").exists()
    stage.wait(lambda: not page.cards.items)


def test_a_menu_deletes_what_it_was_opened_for(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = library(tmp_path / "models")
    for name in ("a", "b"):
        write_sparse(root / f"{name}.safetensors", LORA)
    page = opened(stage, scanned(root))
    assert sorted(chosen(stage, page, "LoRA")) == ["a", "b", "style"]
    rows = {Path(row.entry.path).stem: row for row in page.rows.listing.rows}
    page.grid.setCurrentIndex(page.cards.index(page.rows.listing.numbers[rows["a"].entry.path]))
    page.open_menu(rows["b"], QPoint(0, 0))
    (menu,) = page.findChildren(QMenu)
    assert [one.entry.path for one in page.selected_rows()] == [rows["b"].entry.path]
    next(action for action in menu.actions() if action.text().startswith("Move to bin")).trigger()
    menu.close()
    stage.wait(lambda: not (root / "b.safetensors").exists())
    assert (root / "a.safetensors").exists()
    stage.idle()


def test_undo_says_what_did_not_come_back(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = library(tmp_path / "models")
    page = opened(stage, scanned(root))
    chosen(stage, page, "LoRA")
    page.grid.setCurrentIndex(page.cards.index(0))
    page.delete()
    stage.wait(lambda: bool(stage.controller.state.notices))
    notice = stage.controller.state.notices[-1]
    places = dict(zip(notice.facts[1::2], notice.facts[2::2], strict=True))
    Path(places[str(root / "style.safetensors")]).unlink()
    (root / "style.json").write_text("new")
    stage.workspace.act(notice, "undo")
    stage.wait(lambda: any(one.kind == "not-restored" for one in stage.controller.state.notices))
    said = notice_message(stage.controller.state.notices[-1])
    assert said.title == "Not restored: style.safetensors, style.json."
    assert said.text == ("style.safetensors: It is no longer in the bin. style.json: A file with this name exists already.")
    assert (root / "style.preview.png").exists()
    assert (root / "style.json").read_text() == "new"


def test_the_demo_model_is_never_deleted(stage: Stage) -> None:
    page = opened(stage)
    page.grid.setCurrentIndex(page.cards.index(0))
    before = len(stage.controller.state.notices)
    page.delete()
    assert len(stage.controller.state.notices) == before
    words = [action.text() for action in page.menu_of(page.cards.items[0]).actions()]
    assert "Move to bin" not in words


def test_a_dropped_folder_is_watched_and_a_scan_fills_the_page(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage)
    assert page.notes.invitation.isVisible()
    stage.controller.session.library.start()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(root))])
    drop = QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    page.dropEvent(drop)
    assert stage.controller.settings.model_folders == (str(root),)
    stage.wait(lambda: len(page.cards.items) == 2)
    assert not page.notes.invitation.isVisible()
    page.side.remove_folder.emit(str(root))
    stage.wait(lambda: len(page.cards.items) == 1)


def test_programs_that_were_found_can_be_added_or_not(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage)
    offers = tuple(Install(name, f"/{name}", (str(tmp_path / name),)) for name in ("ComfyUI", "A1111"))
    stage.controller.take(Replaced(part=Library(offers=offers, read=True)))
    stage.wait(page.notes.offers.isVisible)
    boxes = page.notes.offers.findChildren(QCheckBox)
    boxes[1].setChecked(False)
    page.notes.offers.add.click()
    assert stage.controller.settings.model_folders == (str(tmp_path / "ComfyUI"),)
    assert stage.controller.settings.library_asked
    assert stage.controller.state.library.offers == ()


def test_a_narrow_window_puts_the_panel_away(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    stage.window.resize(1024, 640)
    stage.wait(page.inspector.isHidden)
    assert page.width() <= 1024
    page.unfold.click()
    assert page.inspector.isVisible()
    written = page.search.fontMetrics().horizontalAdvance(page.search.placeholderText())
    stage.wait(lambda: page.search.width() - 44 >= written)  # the rest holds the icon and the margins


@pytest.mark.parametrize("place", ["Checkpoints", "LoRA", "recent", "pickles"])
def test_the_chosen_place_is_always_listed(place: str) -> None:
    lines = lines_of(Listing(), Query(place=place), "Health on this GPU")  # type: ignore[arg-type]
    assert [line.value for line in lines if not isinstance(line, str) and line.chosen] == [place]


def test_a_picker_offers_what_fits_and_closes(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    (root / "plain.safetensors").write_bytes(safetensors({"weight": ramp(4, 4)}))
    stage.controller.take(Replaced(part=scanned(root)))
    taken: list[str] = []
    picker = pick(stage.page.form.model_part.row, stage.controller, "checkpoint", taken.append)
    stage.wait(lambda: len(picker.cards.items) == 2)
    QTest.keyClicks(picker.search, "whole")
    stage.wait(lambda: len(picker.cards.items) == 1)
    QTest.keyClick(picker.search, Qt.Key.Key_Return)
    assert taken == [str(root / "whole")]


def test_a_picker_of_loras_begins_with_those_that_fit_and_stays_open(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    wide = header(f"{_XL}.lora_down.weight[8,640]", f"{_XL}.lora_up.weight[640,8]")
    write_sparse(root / "other.safetensors", wide)
    stage.controller.take(Replaced(part=scanned(root)))
    part = opened_part(stage.page.form.lora_part)
    with windows_shown() as seen:
        part.library_button.click()
        picker = part.library_button.findChild(ModelPicker)
        assert picker is not None
        stage.wait(lambda: [row.entry.name for row in picker.cards.items] == ["style"])
    assert seen == [picker], "nothing flashes up beside it"
    picker.fitting.button("all").click()
    stage.wait(lambda: len(picker.cards.items) == 2)
    assert picker.isVisible()
    QTest.keyClick(picker.search, Qt.Key.Key_Down)
    QTest.keyClick(picker.grid, Qt.Key.Key_Escape)
    assert part.library_button.findChild(ModelPicker) is None or not picker.isVisible()


def test_settings_keep_the_panels(qtbot: QtBot) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, splitters={"models": "240,800,340"}))
    page = opened(stage)
    assert page.splitter_state()["models"].count(",") == 2
    stage.close()


def test_how_far_a_scan_came_lists_nothing_again(stage: Stage) -> None:
    page = opened(stage)
    stage.wait(lambda: not page.rows.busy)
    known = stage.controller.state.library
    stage.controller.session.store.take(Replaced(part=replace(known, watched=(Watched(root="/m", scanning=(3, 9)),))))
    assert not page.rows.busy
    stage.wait(lambda: "3" in page.summary())
    stage.controller.session.store.take(Replaced(part=replace(stage.controller.state.library, marks={"/m/a": Mark(note="x")})))
    assert page.rows.busy
    stage.wait(lambda: not page.rows.busy)


def test_the_page_says_that_models_are_read_for_the_first_time(stage: Stage) -> None:
    page = opened(stage, Library(watched=(Watched(root="/m", scanning=(0, 0)),)))
    assert page.notes.reading.isVisible()
    assert page.notes.reading.words.text() == "Reading models…"
    stage.controller.take(Replaced(part=Library(read=True, watched=(Watched(root="/m", scanning=(812, 2400)),))))
    stage.wait(lambda: page.notes.reading.words.text() == "Reading models: 812 of 2\u202f400")
    assert (page.notes.reading.meter.value(), page.notes.reading.meter.maximum()) == (812, 2400)
    page.choose("place", "LoRA")
    stage.wait(page.empty.isVisible)
    assert page.empty.text() == "Reading models…"
    stage.controller.take(Replaced(part=Library(read=True, watched=(Watched(root="/m"),))))
    stage.wait(lambda: not page.notes.isVisible())
    stage.wait(lambda: page.empty.text() == "Nothing in LoRA.")


def test_troubles_are_said_and_can_be_tried_again(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage, replace(scanned(root), failed=Words("The disk is full. Free some space.")))
    assert page.notes.trouble.words.text() == "The list of models cannot be read. The disk is full. Free some space."
    stage.controller.take(Replaced(part=replace(scanned(root), watch_ended=True)))
    stage.wait(lambda: "ended twice" in page.notes.trouble.words.text())
    page.notes.trouble.again.emit()
    stage.wait(lambda: not page.notes.trouble.isVisible())


def folder_names(page: ModelsPage) -> list[str]:
    """The watched folders that can be seen."""
    made = page.side.findChildren(ElidedLabel)
    return [one.accessibleName() for one in made if one.isVisible() and not one.visibleRegion().isEmpty()]


@pytest.mark.parametrize("place", ["models", "settings"])
def test_watched_folders_stay_listed_in_another_language(stage: Stage, tmp_path: Path, place: PageName) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    stage.wait(lambda: folder_names(page) == ["models"])
    stage.controller.go(place)
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, language="zh_CN"))
    stage.wait(lambda: stage.workspace.page("models") is not page)
    stage.controller.go("models")
    again = cast("ModelsPage", stage.workspace.page("models"))
    stage.wait(again.isVisible)
    stage.wait(lambda: folder_names(again) == ["models"])


@pytest.mark.parametrize("table", [False, True])
def test_search_order_and_selection_stay_in_another_language(stage: Stage, tmp_path: Path, table: bool) -> None:
    root = library(tmp_path / "models")
    for name in ("style a", "style b"):
        write_sparse(root / f"{name}.safetensors", LORA)
    page = opened(stage, scanned(root))
    chosen(stage, page, "LoRA")
    (page.as_table if table else page.as_cards).click()
    page.table.sorted.emit("name")
    page.table.sorted.emit("name")
    page.search.setText("style")
    stage.wait(lambda: page.rows.query.words == "style" and page.rows.ready)
    assert [row.entry.name for row in page.rows.listing.rows] == ["style b", "style a", "style"]
    (page.table if table else page.grid).setCurrentIndex((page.table.rows if table else page.cards).index(1, 0))
    (page.table if table else page.grid).chosen.emit(page.rows.listing.rows[1])
    query = page.rows.query
    for place in ("models", "create"):
        stage.controller.go(place)
        before = stage.workspace.page("models")
        language = "zh_CN" if place == "models" else "en"
        stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, language=language))
        stage.wait(lambda before=before: stage.workspace.page("models") is not before)
        stage.controller.go("models")
        again = cast("ModelsPage", stage.workspace.page("models"))
        stage.wait(lambda again=again: again.rows.ready and bool(again.rows.listing.rows))
        assert again.search.text() == "style"
        assert again.rows.query == query
        assert again.sort.currentData() == "name"
        assert again.as_table.isChecked() == table
        assert again.shown is not None
        assert again.shown.entry.name == "style a"
        assert [row.entry.name for row in again.selected_rows()] == ["style a"]


def test_the_folder_of_halftones_own_models_is_not_listed(stage: Stage) -> None:
    own = write_folder(Path(own_models(), "pocket-fragile"))
    page = opened(stage, scanned(Path(own_models())))
    stage.wait(lambda: any(row.entry.path == str(own) for row in page.cards.items))
    assert page.side.isVisible()
    assert folder_names(page) == []
    assert page.notes.invitation.isVisible(), "the user has no folder yet"
    row = next(row for row in page.cards.items if row.entry.path == str(own))
    assert not any("from the list" in action.text() for action in page.menu_of(row).actions())


def test_a_search_offers_matches_of_other_kinds(stage: Stage, tmp_path: Path) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    QTest.keyClicks(page.search, "cut paper")
    stage.wait(page.notes.hits.isVisible)
    assert not page.cards.items
    (offer,) = page.notes.hits.findChildren(QPushButton)
    assert offer.text() == "1 match in LoRA"
    offer.click()
    stage.wait(lambda: [row.entry.name for row in page.cards.items] == ["style"])
    assert page.search.text() == "cut paper"
    assert not page.notes.hits.isVisible()


def test_a_pickle_beside_a_safetensors_file_can_still_be_converted(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    write_sparse(root / "old.safetensors", LORA)
    page = opened(stage, scanned(root))
    assert chosen(stage, page, "pickles") == ["old"]
    assert page.inspector.convert.isVisible()
    (row,) = page.cards.items
    assert problem_words(row)[1] == "It can run code when it is opened. old.safetensors lies beside it."
    assert act_of(row) == "convert"
    assert any("Convert" in action.text() for action in page.menu_of(row).actions())
    library_now = stage.controller.state.library
    stage.controller.take(Replaced(part=replace(library_now, converting=(row.entry.path, 1, 4))))
    stage.wait(lambda: page.inspector.convert.text() == "Converting: 25 %")
    assert not page.inspector.convert.isEnabled()
    stage.controller.take(Replaced(part=replace(library_now, converting=None)))
    stage.wait(page.inspector.convert.isEnabled)
    assert page.inspector.convert.text() == "Convert to safetensors"


def test_models_and_create_call_a_model_by_the_same_name(stage: Stage, tmp_path: Path) -> None:
    root = tmp_path / "models"
    cached = write_folder(root / "models--maker--model" / "snapshots" / "0123abcd")
    known = scanned(root)
    titled = Description(title="A title from a website")
    page = opened(stage, replace(known, entries=tuple(msgspec.structs.replace(one, description=titled) for one in known.entries)))
    stage.wait(lambda: len(page.cards.items) == 2)
    (row,) = (row for row in page.cards.items if row.entry.path == str(cached))
    assert (row.entry.name, describe(str(cached)).name) == ("maker/model", "maker/model")
    lists.click(page.grid, str(cached))
    assert page.inspector.title.accessibleName() == "maker/model"
    page.search.setText("website")
    stage.wait(lambda: [one.entry.path for one in page.cards.items] == [str(cached)])


def test_a_hidden_page_lists_nothing_and_catches_up(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage)
    stage.controller.go("create")
    stage.controller.take(Replaced(part=scanned(root)))
    assert not page.rows.busy
    stage.idle()
    assert len(page.rows.listing.rows) == 1
    stage.controller.go("models")
    stage.wait(lambda: len(page.cards.items) == 2)


def test_models_to_check_are_counted_when_they_change(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(stage, scanned(library(tmp_path / "models")))
    stage.idle()
    counts: list[int] = []
    monkeypatch.setattr(page, "selected_rows", lambda: counts.append(1) or [])
    for _ in range(3):
        page.soon()
        page.refresh()
    assert counts == []
    stage.controller.session.queue.pause(True)
    page.check_all.click()
    stage.wait(page.check_all.isHidden)
    assert len(counts) <= 2, "once for each model that was queued"


def test_the_check_of_a_files_weights_can_be_stopped(stage: Stage, tmp_path: Path) -> None:
    root = library(tmp_path / "models")
    page = opened(stage, scanned(root))
    lists.click(page.grid, str(root / "whole"))
    assert not page.inspector.file.stop.isVisible()
    page.inspector.file.check.click()
    stage.wait(page.inspector.file.stop.isVisible)
    page.inspector.file.stop.click()
    stage.wait(page.inspector.file.check.isVisible)
    assert stage.controller.state.library.weighing is None


@pytest.mark.parametrize(
    ("wide", "shown"),
    [
        (900, ("name", "family", "precision", "size", "health", "used")),
        (760, ("name", "family", "precision", "size", "health")),
        (600, ("name", "family", "size", "health")),
        (500, ("name", "family", "health")),
        (400, ("name", "health")),
        (100, ("name", "health")),
    ],
)
def test_a_narrow_table_leaves_out_columns_rather_than_names(wide: int, shown: tuple[str, ...]) -> None:
    assert fitting(wide) == shown


def test_the_table_grows_with_the_text(qtbot: QtBot) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, text_size=200))
    page = opened(stage)
    stage.window.resize(1024, 640)
    page.as_table.click()
    stage.wait(lambda: page.table.isColumnHidden(COLUMNS.index("used")))
    assert page.table.columnWidth(0) >= 2 * 150
    assert page.table.rowHeight(0) == 60
