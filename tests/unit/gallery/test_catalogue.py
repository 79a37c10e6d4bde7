"""The gallery lists, searches and marks pictures, and follows the history."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.pictures import picture_facts

from halftone.contract.request import Lora, PictureRequest
from halftone.gallery.catalogue import Catalogue, words_of
from halftone.gallery.facts import FAVOURITE, Query, Shown
from halftone.gallery.history import History

NOON = datetime(2026, 3, 4, 12).timestamp()
DAY = date(2026, 3, 4).toordinal()


def shown(name: str, **changes: object) -> Shown:
    fields: dict[str, object] = {"path": f"/p/{name}.png", "made": NOON, "width": 512, "height": 768, "text": name}
    return Shown(**{**fields, **changes})  # pyright: ignore[reportArgumentType]


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    with Catalogue(tmp_path / "gallery.sqlite") as opened:
        yield opened


def names(catalogue: Catalogue, query: Query) -> list[str]:
    rows = catalogue.rows(query)
    paths = catalogue.paths([row.id for row in rows])
    return [Path(paths[row.id]).stem for row in rows]


def test_the_newest_picture_comes_first_with_its_day_and_size(catalogue: Catalogue) -> None:
    catalogue.add([shown("old", made=NOON - 86400), shown("new"), shown("older", made=NOON - 3 * 86400)])
    rows = catalogue.rows()
    assert [row.day for row in rows] == [DAY, DAY - 1, DAY - 3]
    assert (rows[0].width, rows[0].height) == (512, 768)
    assert names(catalogue, Query()) == ["new", "old", "older"]


PICTURES = (
    shown("a", text="A red Lighthouse at dusk", model="harbor", loras=("grain",), recovered=True, made=NOON),
    shown("b", text="a red house", model="harbor", made=NOON - 1),
    shown("c", text="灯塔 和 海", model="pocket", video=True, made=NOON - 86400),
    shown("d", text="100% _wild_ 'quote'", own=False, stamp=7, made=NOON - 2 * 86400),
)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (Query(), "abcd"),
        (Query(words="red"), "ab"),
        (Query(words="RED house"), "ab"),
        (Query(words='"red house"'), "b"),
        (Query(words="red -lighthouse"), "b"),
        (Query(words='-"red house"'), "acd"),
        (Query(words="灯塔"), "c"),
        (Query(words="灯"), "c"),
        (Query(words="100% _wild_"), "d"),
        (Query(words="'quote'"), "d"),
        (Query(words="nothing like it"), ""),
        (Query(model="harbor"), "ab"),
        (Query(lora="grain"), "a"),
        (Query(kind="video"), "c"),
        (Query(kind="picture"), "abd"),
        (Query(result="recovered"), "a"),
        (Query(own=True), "abc"),
        (Query(days=(DAY - 1, DAY)), "abc"),
        (Query(words="red", model="harbor", result="recovered"), "a"),
    ],
)
def test_what_a_query_finds(catalogue: Catalogue, query: Query, wanted: str) -> None:
    catalogue.add(PICTURES)
    assert "".join(names(catalogue, query)) == wanted


def test_a_picture_that_is_listed_again_takes_its_own_place(catalogue: Catalogue) -> None:
    catalogue.add([shown("a", text="first", loras=("grain",), thumbnail=b"1")])
    catalogue.add([shown("a", text="second", thumbnail=b"2")])
    assert len(rows := catalogue.rows()) == 1
    assert catalogue.rows(Query(words="first")) == []
    assert catalogue.thumbnails([rows[0].id, 99]) == {rows[0].id: b"2"}
    assert catalogue.loras() == []


def test_what_is_dropped_leaves_nothing_but_its_marks(catalogue: Catalogue) -> None:
    catalogue.add([shown("a", thumbnail=b"1", loras=("grain",))])
    catalogue.mark(["/p/a.png"])
    catalogue.drop(["/p/a.png"])
    assert (catalogue.rows(), catalogue.loras(), catalogue.thumbnails([1])) == ([], [], {})
    catalogue.add([shown("a")])
    assert catalogue.marks_of("/p/a.png") == {FAVOURITE}


def test_favourites_and_collections(catalogue: Catalogue) -> None:
    catalogue.add(PICTURES)
    catalogue.mark(["/p/a.png", "/p/c.png"])
    catalogue.mark(["/p/b.png", "/p/gone.png"], "Best of")
    assert names(catalogue, Query(mark=FAVOURITE)) == ["a", "c"]
    assert names(catalogue, Query(mark="Best of")) == ["b"]
    assert catalogue.collections() == [("Best of", 1)]
    catalogue.mark(["/p/a.png"], on=False)
    assert names(catalogue, Query(mark=FAVOURITE)) == ["c"]


def test_models_and_loras_by_how_often_they_were_used(catalogue: Catalogue) -> None:
    catalogue.add(PICTURES)
    assert catalogue.models() == [("harbor", 2), ("pocket", 1)]
    assert catalogue.loras() == [("grain", 1)]


def test_the_history_is_followed(catalogue: Catalogue) -> None:
    request = PictureRequest(
        prompt="a red {house|tower}", model="/m/Harbor XL.safetensors", loras=(Lora(path="/l/grain.safetensors"),)
    )
    with History() as history:
        for index in range(3):
            facts = picture_facts(path=f"/p/{index}.png", seed=2**64 - 1 - index, prompt="a red tower", state="recovered")
            history.add(facts, request, b"png")
        assert catalogue.follow(history) == 3
        assert catalogue.follow(history) == 0
        history.add(picture_facts(path="/p/new.png"), request, b"")
        assert catalogue.follow(history) == 1
    assert len(catalogue.rows(Query(words="tower", model="Harbor XL", lora="grain", result="recovered"))) == 3
    assert list(catalogue.thumbnails([row.id for row in catalogue.rows()]).values()) == [b"png"] * 3


def test_a_history_that_was_begun_anew_is_followed(catalogue: Catalogue, tmp_path: Path) -> None:
    for name, count in (("old", 3), ("empty", 0), ("new", 2)):
        with History(tmp_path / f"{name}.sqlite") as history:
            for index in range(count):
                history.add(picture_facts(path=f"/p/{name}{index}.png"), PictureRequest(prompt="a"), b"")
            assert catalogue.follow(history) == count
    assert set(names(catalogue, Query())) == {"old0", "old1", "old2", "new0", "new1"}


def test_pictures_that_the_history_forgot_are_not_followed_again(catalogue: Catalogue, tmp_path: Path) -> None:
    with History(tmp_path / "history.sqlite") as history:
        for name in ("there", "gone"):
            (tmp_path / name).touch()
            history.add(picture_facts(path=str(tmp_path / name)), PictureRequest(prompt="a"), b"")
        catalogue.follow(history)
        (tmp_path / "gone").unlink()
        assert history.forget_missing() == 1
        assert catalogue.follow(history) == 0


def test_a_list_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "gallery.sqlite"
    Catalogue(path).__exit__(None, None, None)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(sqlite3.OperationalError, match="newer Halftone"):
        Catalogue(path)


@pytest.mark.logs("was damaged")
def test_a_list_that_is_no_database_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "gallery.sqlite"
    path.write_bytes(b"no database" * 400)
    with Catalogue(path) as catalogue, History(tmp_path / "history.sqlite") as history:
        history.add(picture_facts(path="/p/a.png"), PictureRequest(prompt="a"), b"")
        assert catalogue.follow(history) == 1
    assert (tmp_path / "gallery-damaged-1.sqlite").read_bytes() == b"no database" * 400


@pytest.mark.logs("2 marks were saved")
def test_marks_outlive_damage_to_the_list(tmp_path: Path) -> None:
    path = tmp_path / "gallery.sqlite"
    with Catalogue(path) as catalogue:
        catalogue.add([shown(str(number)) for number in range(200)])
        catalogue.mark(["/p/1.png", "/p/2.png"])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'shown'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(sqlite3.DatabaseError), Catalogue(path) as catalogue:
        catalogue.paths([1])
    for _ in range(2):
        with Catalogue(path) as catalogue:
            assert catalogue.rows() == []
            assert catalogue.marks_of("/p/1.png") == {FAVOURITE}
    assert not (tmp_path / "gallery-damaged-2.sqlite").exists()


@given(st.text())
def test_any_text_can_be_searched_for(text: str) -> None:
    assert all(word and word == word.strip() for word, _ in words_of(text))


@given(made=st.floats(allow_nan=False, allow_infinity=False), text=st.text())
def test_any_time_and_any_words_can_be_listed(tmp_path_factory: pytest.TempPathFactory, made: float, text: str) -> None:
    clean = text.encode(errors="replace").decode()
    with Catalogue(tmp_path_factory.getbasetemp() / "any.sqlite") as catalogue:
        catalogue.add([shown("a", made=made, text=clean)])
        assert len(catalogue.rows()) == 1


def test_the_first_hits_of_a_frequent_word_are_those_of_the_whole_list(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halftone.gallery.catalogue._NEWEST", 6)
    words = ("red sun", "red", "sun", "a red sun", "blue", "red -sun", "red sun", "blue sun")
    catalogue.add(shown(str(n), text=text, made=NOON - n, model="m" if n % 2 else "o") for n, text in enumerate(words))
    for asked in ("red", "sun", "re", "red sun", "red -sun", "blue", "-red"):
        for model in ("", "m"):
            query = Query(words=asked, model=model)
            every = names(catalogue, query)
            for most in range(1, 7):
                rows = catalogue.rows(query, most)
                found = catalogue.paths([row.id for row in rows])
                assert [Path(found[row.id]).stem for row in rows] == every[:most]
                assert list(catalogue.columns(query, most).ids) == [row.id for row in rows]


def test_a_frequent_word_does_not_ask_the_search_index(catalogue: Catalogue) -> None:
    catalogue.add(shown(str(n), text="a red sun", made=NOON - n) for n in range(9))
    asked: list[str] = []
    catalogue._database.set_trace_callback(asked.append)
    assert len(catalogue.rows(Query(words="red"), 5)) == 5
    assert not any("MATCH" in statement for statement in asked)
    assert len(catalogue.rows(Query(words="red"), 20)) == 9
    assert any("MATCH" in statement for statement in asked)
