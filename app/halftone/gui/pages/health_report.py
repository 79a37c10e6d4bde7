"""The check as files: JSON with every number, and one self-contained page to read. Neither holds a prompt or a path."""

import contextlib
import html
import itertools
from pathlib import Path

import msgspec
from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QImage, QPainter

from halftone.contract.facts import CheckReport
from halftone.gui.i18n import tr
from halftone.gui.pages import health_view, health_words
from halftone.gui.theme import Theme
from halftone.gui.widgets import figures, headroom_chart_paint, headroom_chart_words
from halftone.gui.widgets.headroom_chart_model import build, lay_out, log2_peak, room_bits
from halftone.gui.widgets.headroom_chart_words import type_name
from halftone.health.explain import further_words
from halftone.health.judge import disk_price
from halftone.settings.atomic import create_atomically, write_atomically

_STYLE = """
:root { color-scheme: light dark; --bg: #f4f5f6; --card: #fff; --line: #d9dbdf;
  --text: #1b1d20; --muted: #5c616a; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #191a1d; --card: #212327; --line: #3d4047; --text: #e8e9ec; --muted: #969aa3; }
}
body { font: 14px/1.5 Inter, "Segoe UI", system-ui, sans-serif; background: var(--bg); color: var(--text);
  margin: 0; padding: 32px; }
main { max-width: 1080px; margin: auto; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 28px 0 8px; }
p { margin: 4px 0; } .muted { color: var(--muted); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; overflow-x: auto; }
img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } code { font-size: 12px; overflow-wrap: anywhere; }
"""


def anonymous(report: CheckReport) -> CheckReport:
    """The report without the model's place on this machine."""
    name = Path(report.model.path).name or report.model.name
    model = msgspec.structs.replace(report.model, path=name, id=name)
    return msgspec.structs.replace(report, model=model)


def as_json(report: CheckReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(anonymous(report)), indent=2)


def chart_png(report: CheckReport, width: int = 1040, height: int = 320) -> bytes:
    """The chart as a picture on white, at twice the size for sharp screens."""
    data = build(report.layers, report.precision, report.findings, report.plan, headroom_chart_words.cure_label(report.plan))
    frame = headroom_chart_paint.frame_for(data, width, height, compact=False)
    image = QImage(width * 2, height * 2, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(2.0)
    style = Theme("light")
    image.fill(style.color("surface-raised"))
    painter = QPainter(image)
    boxes = lay_out(data, frame.plot.left(), frame.plot.width(), 5.4, 11.0, after=False)
    headroom_chart_paint.paint_base(painter, style, frame, data, boxes, after=False, share=1.0)
    headroom_chart_paint.paint_cure(painter, style, frame, boxes)
    discs = headroom_chart_paint.place_discs(frame, data, boxes, after=False)
    headroom_chart_paint.paint_discs(painter, style, discs, None, None)
    painter.end()
    store = QByteArray()
    buffer = QBuffer(store)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # pyright: ignore[reportCallIssue, reportArgumentType] - the stub says bytes, the binding takes str
    return bytes(store.data())


def as_html(report: CheckReport) -> str:
    """One page with everything in it."""
    view = health_view.of_report(report, None)
    image = QByteArray(chart_png(report)).toBase64().toStdString()
    device = report.device
    facts = [device.name, device.driver and tr("Driver {0}", device.driver), f"PyTorch {device.torch_version}"]
    body = [
        f"<h1>{_esc(report.model.name)}: {_esc(view.title)}</h1>",
        f"<p>{_esc(view.text)}</p>",
        f'<p class="muted">{_esc(view.checked)} · {_esc(" · ".join(str(one) for one in facts if one))}</p>',
        f"<h2>{_esc(tr('Headroom by layer'))}</h2>",
        f'<section><img alt="{_esc(_summary(report))}" src="data:image/png;base64,{image}"></section>',
        f"<h2>{_esc(tr('Findings'))}</h2>",
        f"<section>{_findings(report)}</section>",
        f"<h2>{_esc(tr('Cures'))}</h2>",
        f"<section>{_cures(report)}</section>",
        f"<h2>{_esc(tr('Highest layers'))}</h2>",
        f"<section>{_layers(report)}</section>",
    ]
    title = _esc(tr("Model health: {0}", report.model.name))
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>{''.join(body)}</main></body></html>"
    )


def _esc(text: str) -> str:
    return html.escape(text)


def _summary(report: CheckReport) -> str:
    return headroom_chart_words.summary(build(report.layers, report.precision, report.findings), after=False)


def _table(head: list[tuple[str, bool]], rows: list[list[str]]) -> str:
    """head: words and whether the column holds numbers. Cells are HTML already."""
    tops = "".join(f'<th class="n">{_esc(words)}</th>' if number else f"<th>{_esc(words)}</th>" for words, number in head)
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="n">{cell}</td>' if number else f"<td>{cell}</td>" for cell, (_, number) in zip(cells, head, strict=True)
        )
        + "</tr>"
        for cells in rows
    )
    return f"<table><thead><tr>{tops}</tr></thead><tbody>{lines}</tbody></table>"


def _findings(report: CheckReport) -> str:
    if not report.findings:
        return f"<p>{_esc(tr('No finding.'))}</p>"
    rows: list[list[str]] = []
    for number, one in enumerate(report.findings, start=1):
        word, _, _ = health_words.finding_badge(one.code)
        peak = "" if one.peak is None else figures.peak(one.peak)
        room = "" if one.peak is None else figures.bits(room_bits(log2_peak(one.peak), one.dtype))
        where = f"{_esc(health_words.finding_title(one))}<br><code>{_esc(one.component)}.{_esc(one.module)}</code>"
        if (further := further_words(one)) is not None:
            where += f"<br><span class='muted'>{_esc(further.text(tr))}</span>"
        rows.append([str(number), _esc(word), where, _esc(peak), _esc(room)])
    return _table([("", False), (tr("State"), False), (tr("Place"), False), (tr("Peak"), True), (tr("Room"), True)], rows)


def _cures(report: CheckReport) -> str:
    name = type_name(report.precision)
    rows = [
        [
            f"{_esc(health_words.cure_title(cure))}<br><span class='muted'>{_esc(health_words.cure_line(cure, name))}</span>",
            _esc(health_words.price_time(cure)),
            _esc(health_words.price_bytes(cure.memory_bytes)),
            _esc(health_words.price_bytes(disk_price(cure))),
            _esc(health_words.price_picture(cure)),
        ]
        for cure in health_view.offered(report.cures)
    ]
    if not rows:
        return f"<p>{_esc(tr('No cure is needed.') if report.verdict == 'healthy' else tr('No cure can help.'))}</p>"
    head = [(tr("Cure"), False), (tr("Time"), True), (tr("Memory"), True), (tr("Disk"), True), (tr("Picture"), True)]
    return _table(head, rows)


def _layers(report: CheckReport) -> str:
    top = sorted(report.layers, key=lambda layer: log2_peak(layer.peak), reverse=True)[:40]
    rows = [
        [
            f"<code>{_esc(layer.component)}.{_esc(layer.module)}</code>",
            _esc(layer.kind),
            _esc(figures.peak(layer.peak)),
            _esc(figures.bits(room_bits(log2_peak(layer.peak), report.precision))),
        ]
        for layer in top
    ]
    return _table([(tr("Layer"), False), (tr("Kind"), False), (tr("Peak"), True), (tr("Room"), True)], rows)


def save(report: CheckReport, path: Path) -> tuple[Path, Path]:
    """Write the page and the JSON next to each other; returns both. Runs on another thread. Raises OSError.

    Only `path` itself, about which the user was asked, may be replaced; the other file takes a name that is free.
    """
    stem = path.with_suffix("") if path.suffix.lower() in (".html", ".htm", ".json") else path
    page = path if path.suffix.lower() in (".html", ".htm") else stem.with_name(stem.name + ".html")
    data = path if path.suffix.lower() == ".json" else stem.with_name(stem.name + ".json")
    return _write(page, as_html(report).encode(), path), _write(data, as_json(report), path)


def _write(wanted: Path, data: bytes, agreed: Path) -> Path:
    """Write to `wanted` if that was agreed, otherwise to the first free name like it."""
    if wanted == agreed:
        write_atomically(wanted, data)
        return wanted
    for number in itertools.count(1):
        place = wanted if number == 1 else wanted.with_stem(f"{wanted.stem}-{number}")
        with contextlib.suppress(FileExistsError):
            create_atomically(place, data)
            return place
    raise AssertionError
