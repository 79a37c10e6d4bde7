"""A training as one page to share: the chart, what was stopped, and the settings. It has no prompt and no path."""

import html
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Final

from halftone import __version__
from halftone.contract.training import WATCHED, TrainConfig, TrainReport
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.contract.wording import number
from halftone.health.part_names import elapsed
from halftone.health.reports.report_page import IN_ENGLISH, Language, page
from halftone.health.training import training_curve as curve
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import (
    ROWS,
    caught_title,
    cost_words,
    did_words,
    place_words,
    report_words,
    why_words,
)

_WIDTH: Final = 1040.0
_HEIGHT: Final = 560.0
_LEFT, _RIGHT = 110.0, 1010.0
_LOSS: Final = (34.0, 260.0)
_NORM: Final = (310.0, 400.0)
_STRIP: Final = 450.0
_ROW: Final = 17.0
_COLUMNS: Final = 900
_PRIVATE: Final = frozenset({"pictures", "output", "word", "test_prompt", "left_out"})
"""Fields of TrainConfig with paths and words of the user's."""


def as_html(record: RunRecord, report: TrainReport | None = None, language: Language = IN_ENGLISH) -> str:
    """One self-contained page. report: of a finished training."""
    say = language.say
    tone = "warn" if record.stopped or record.config.guard == "off" else "ok"
    title = language.words(report_words(report)) if report else say("Step {0} of {1}", record.step, record.steps)
    body = [
        f'<h1 class="{tone}">{title}</h1>',
        *_facts(record, report, language),
        f"\n<h2>{say('Chart')}</h2>\n<section>{chart_svg(record, language)}</section>",
        f"\n<h2>{say('What happened')}</h2>\n<section>{_events(record, language)}</section>",
        f"\n<h2>{say('Settings')}</h2>\n<section>{_settings(record.config, language)}</section>",
    ]
    return page(say("Training: {0}", record.config.name), body, language)


def _facts(record: RunRecord, report: TrainReport | None, language: Language) -> Iterable[str]:
    say = language.say
    parts = [say("LoRA {0} on {1}", record.config.name, PurePath(record.config.model.replace("\\", "/")).name)]
    if record.begins is not None:
        parts.append(DTYPE_NAMES[record.begins.dtype])
        parts.append(say("{0} pictures", sum(1 for picture in record.begins.pictures if not picture.problem)))
    if report is not None:
        parts += [html.escape(elapsed(report.seconds)), say("loss {0}", f"{report.loss:.4g}")]
    parts.append(f"Halftone {html.escape(__version__)}")
    yield f'<p class="muted">{" · ".join(parts)}</p>'


def _events(record: RunRecord, language: Language) -> str:
    if not record.caught and record.config.guard == "off":
        return f"<p>{language.say('The NaN guard was off.')}</p>"
    if not record.caught:
        return f"<p>{language.say('No NaN.')}</p>"
    rows: list[str] = []
    for one in record.caught:
        why = " ".join(language.words(words) for words in why_words(one)[:1])
        cost = language.say("Cost: {0}", cost_words(one))
        rows.append(
            f'<tr><td class="n">{html.escape(number(one.step))}</td><td>{language.words(caught_title(one))}<br>'
            f'<span class="muted">{why} {language.words(did_words(one))} {cost}</span></td>'
            f"<td>{language.words(place_words(one.name))}<br><code>{html.escape(one.name)}</code></td></tr>"
        )
    step, what, where = (language.say(words) for words in ("Step", "What happened", "Where"))
    head = f'<tr><th class="n">{step}</th><th>{what}</th><th>{where}</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _settings(config: TrainConfig, language: Language) -> str:
    """All by the names that a configuration file has."""
    values = {name: getattr(config, name) for name in TrainConfig.__struct_fields__ if name not in _PRIVATE}
    values["model"] = PurePath(config.model.replace("\\", "/")).name
    rows = "".join(f"<tr><td><code>{name}</code></td><td>{html.escape(str(value))}</td></tr>" for name, value in values.items())
    note = f'<p class="muted small">{language.say("Paths and prompts are not on this page.")}</p>'
    return f"<table><tbody>{rows}</tbody></table>{note}"


# --- the chart ------------------------------------------------------------------------------------------------------


def chart_svg(record: RunRecord, language: Language = IN_ENGLISH) -> str:
    """An <svg> element: loss, gradient norm and the guard's strip over one axis of steps."""
    steps = max(1, record.steps)

    def x_of(step: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * step / steps

    title = language.say("Step {0} of {1}", record.step, record.steps)
    parts = [
        *_loss(record, x_of, steps, language),
        *_norm(record, x_of, steps, language),
        *_strip(record, x_of, steps, language),
        *(_text(x_of(step), _HEIGHT - 12, number(step), "axis", "middle") for step in curve.step_ticks(steps, 9)),
        *_lines(record, x_of, language),
    ]
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _loss(record: RunRecord, x_of: Callable[[float], float], steps: int, language: Language) -> Iterable[str]:
    raw, smooth = curve.bin_values(record.losses, steps, _COLUMNS // 2), curve.sample_values(record.smoothed, steps, _COLUMNS)
    low, high = curve.value_range(raw)
    top, bottom = _LOSS

    def y_of(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    yield _text(0, 18, language.say("Loss"), "title")
    for value in curve.value_ticks(low, high, 4) if raw else ():
        yield _grid(y_of(value), f"{value:g}")
    yield _path([point for one in raw for point in _span(one, x_of, y_of)], "raw")
    yield _path([(x_of(one.step), y_of(one.last)) for one in smooth], "smooth")


def _norm(record: RunRecord, x_of: Callable[[float], float], steps: int, language: Language) -> Iterable[str]:
    bins, clip = curve.bin_values(record.norms, steps, _COLUMNS // 2), record.config.clip
    low, high = curve.log_range(bins, clip)
    top, bottom = _NORM

    def y_of(value: float) -> float:
        shown = min(max(math.log10(value) if value > 0 else low, low), high)
        return bottom - (shown - low) / (high - low) * (bottom - top)

    yield _text(0, top - 16, language.say("Gradient norm"), "title")
    for power in range(low, high + 1, max(1, round((high - low) / 4))):
        yield _grid(y_of(10.0**power), number(10.0**power))
    yield _path([point for one in bins for point in _span(one, x_of, y_of)], "norm")
    if clip > 0:
        yield f'<line class="clip" x1="{_LEFT:g}" y1="{y_of(clip):.1f}" x2="{_RIGHT:g}" y2="{y_of(clip):.1f}"/>'
        yield _text(_RIGHT, y_of(clip) - 5, language.say("clipped above {0}", f"{clip:g}"), "axis", "end")


def _strip(record: RunRecord, x_of: Callable[[float], float], steps: int, language: Language) -> Iterable[str]:
    yield _text(0, _STRIP - 16, language.say("NaN guard"), "title")
    if record.config.guard == "off":
        yield _text(_LEFT, _STRIP + 10, language.say("off"), "axis")
        return
    strip = curve.strip_of(record.step, steps, 90, record.caught)
    for index, row in enumerate(WATCHED):
        y = _STRIP + _ROW * index
        yield _text(_LEFT - 10, y + 4, language.words(ROWS[row]), "axis", "end")
        yield from _dots(strip, frozenset(strip.bad[row]), y, x_of, steps)


def _dots(strip: curve.Strip, bad: frozenset[int], y: float, x_of: Callable[[float], float], steps: int) -> Iterable[str]:
    for dot in range(strip.dots):
        x = x_of(min(strip.per * (dot + 0.5), steps))
        if dot in bad:
            yield f'<circle class="bad" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
            yield f'<path class="cross" d="M{x - 2.5:.1f} {y - 2.5:.1f}l5 5m0 -5l-5 5"/>'
        else:
            made = dot < strip.done
            yield f'<circle class="{"made" if made else "ahead"}" cx="{x:.1f}" cy="{y:.1f}" r="{2.3 if made else 1:g}"/>'


def _lines(record: RunRecord, x_of: Callable[[float], float], language: Language) -> Iterable[str]:
    caught = [one for one in record.caught if one.did != "warned"]
    bottom = _STRIP + _ROW * (len(WATCHED) - 1)
    for step in sorted({one.step for one in caught}):
        yield f'<line class="event" x1="{x_of(step):.1f}" y1="{_LOSS[0]:g}" x2="{x_of(step):.1f}" y2="{bottom:g}"/>'
    if caught:
        words = language.say("stopped at {0}", caught[-1].step)
        late = x_of(caught[-1].step) > _RIGHT - 120
        x = x_of(caught[-1].step) + (-6 if late else 6)
        yield _text(x, _LOSS[0] + 12, words, "event-name halo", "end" if late else "start")


def _span(one: curve.Bin, x_of: Callable[[float], float], y_of: Callable[[float], float]) -> Iterable[tuple[float, float]]:
    """From the lowest to the highest value of a bin."""
    yield x_of(one.step), y_of(one.low)
    if one.high != one.low:
        yield x_of(one.step), y_of(one.high)


def _path(points: Sequence[tuple[float, float]], kind: str) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>' if points else ""


def _grid(y: float, words: str) -> str:
    line = f'<line class="grid" x1="{_LEFT:g}" y1="{y:.1f}" x2="{_RIGHT:g}" y2="{y:.1f}"/>'
    return line + _text(_LEFT - 10, y + 4, html.escape(words), "axis", "end")


def _text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """words: HTML already."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'
