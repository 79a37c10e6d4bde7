"""A training as one page: it needs nothing from elsewhere and tells no prompt and no path."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
from tests.helpers import samples

from halftone.contract.training import TrainConfig, TrainPicture
from halftone.health.training.training_export import as_html, chart_svg
from halftone.health.training.training_record import RunRecord

CONFIG = msgspec.structs.replace(
    samples.TRAIN, model="/home/me/models/pocket", pictures="/home/me/secret", word="sks-word", test_prompt="a private hill"
)


def record(config: TrainConfig = CONFIG, *, bad: int | None = 7) -> RunRecord:
    made = RunRecord(config)
    for event in samples.training(config, bad=bad):
        made.take(event)
    return made


def test_the_page_tells_the_run() -> None:
    page = as_html(record(), samples.train_report(CONFIG))
    assert "<h1" in page
    assert "Training finished, 20 steps, 1 NaN stopped." in page
    assert "A NaN was stopped at step 7. Nothing was lost." in page
    assert "learning_rate" in page
    assert "<svg" in page


def test_nothing_private_and_nothing_from_elsewhere() -> None:
    page = as_html(record(), samples.train_report(CONFIG))
    for hidden in ("/home/me", "secret", "sks-word", "private hill", "IMG_0193"):
        assert hidden not in page
    assert not re.search(r"(src|href)=|@import|url\(", page)


def test_a_run_without_an_end_and_without_events() -> None:
    page = as_html(record(bad=None))
    assert "Step 20 of 20" in page
    assert "No NaN." in page


def test_the_chart_is_whole_and_the_page_closes_what_it_opens() -> None:
    svg = ElementTree.fromstring(chart_svg(record()))
    kinds = [element.get("class") for element in svg.iter()]
    assert kinds.count("bad") == 1
    assert {"raw", "smooth", "norm", "clip", "event"} <= set(kinds)
    HTMLParser().feed(as_html(record()))


def test_an_unwatched_run_shows_no_green_dot() -> None:
    svg = chart_svg(record(msgspec.structs.replace(CONFIG, guard="off")))
    assert 'class="made"' not in svg
    assert ">off<" in svg


def test_of_a_run_that_nobody_watched_the_page_claims_nothing() -> None:
    off = msgspec.structs.replace(CONFIG, guard="off")
    blind = msgspec.structs.replace(samples.train_report(off), caught=(), guarded=False, bad_losses=3)
    page = as_html(record(off, bad=None), blind)
    assert "No NaN." not in page
    assert "The NaN guard was off." in page
    assert '<h1 class="warn">' in page
    assert '<h1 class="warn">' in as_html(record(off, bad=None))
    assert '<h1 class="ok">' in as_html(record(bad=None))


def test_pictures_that_were_not_used_are_not_counted() -> None:
    made = record()
    assert made.begins is not None
    broken = TrainPicture(name="b.png", problem="unreadable")
    made.take(msgspec.structs.replace(made.begins, pictures=(*made.begins.pictures, broken)))
    assert f"{len(made.begins.pictures) - 1} pictures" in as_html(made)


def test_names_are_safe_in_html() -> None:
    page = as_html(record(msgspec.structs.replace(CONFIG, name="<script>x</script>")))
    assert "<script>" not in page
