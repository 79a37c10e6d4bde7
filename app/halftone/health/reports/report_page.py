"""A check as files to share: JSON with every number, and one self-contained page. Neither has a prompt or a path."""

import html
import json
from collections.abc import Iterable, Sequence
from gettext import NullTranslations
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from halftone import __version__
from halftone.contract.facts import CheckReport, DTypeReport, Finding, SelfTestReport
from halftone.contract.plan import Cure, Plan, rescaled_modules
from halftone.contract.request import file_name, without_places
from halftone.contract.vocabulary import DTYPE_NAMES
from halftone.contract.wording import ENGLISH, Words, number, spelled_out
from halftone.health.explain import finding_words, further_words
from halftone.health.headroom import build, log2_peak, room_bits
from halftone.health.judge import cured_by, cured_room, disk_price, headroom_bits, is_cured, least_room, over_and_tight
from halftone.health.part_names import bits, elapsed, plain_component
from halftone.health.precision import auto_follows_model
from halftone.health.reports.chart_svg import chart_svg
from halftone.health.reports.report_sentences import (
    CURE_TITLES,
    DTYPE_STATES,
    exactness_words,
    finding_state,
    size_words,
    slower_words,
    used_words,
    verdict_words,
)
from halftone.health.troubles import helps_words, known_on, library_versions, origin_words, trouble_object
from halftone.library.add_ons.inversions import inversion_name
from halftone.settings.declared import DECLARED, Setting
from halftone.settings.disk import size_text
from halftone.settings.places import resources

_HIGHEST: Final = 40
"""Layers in the table of the highest."""
Head = Sequence[tuple[str, bool]]
"""Columns of a table: their titles, and whether they hold numbers."""


class Language(msgspec.Struct, frozen=True):
    """A page's language. catalogue: of templates; code: as in HTML."""

    catalogue: NullTranslations = ENGLISH
    code: str = "en"

    def say(self, template: str, *values: Words | str | int | float) -> str:
        """The sentence, safe inside HTML."""
        return self.words(Words(template, values))

    def words(self, words: Words) -> str:
        return html.escape(words.text(self.catalogue))


IN_ENGLISH: Final = Language()
_MEASURED: Final = "{0} layers and blocks. Of the innermost, {1} above the {2} limit, {3} tight; least headroom {4} bits."
_CURED: Final = (
    "{0} layers and blocks. Of the innermost before the cure, {1} above the {2} limit, {3} tight; least headroom {4} bits, "
    "with the cure {5} bits."
)


def anonymous(report: CheckReport) -> CheckReport:
    """The report without paths of this machine."""
    name = Path(report.model.path).name or report.model.name
    model = msgspec.structs.replace(report.model, path=name, id=name)
    loras = tuple(msgspec.structs.replace(lora, path=file_name(lora.path)) for lora in report.loras)
    return msgspec.structs.replace(without_places(report), model=model, loras=loras)


def as_json(report: CheckReport) -> bytes:
    """Every number of the report, and what is known of its combination elsewhere."""
    known = known_on(report.model, report.device, report.precision, report.numerics)
    content = cast("dict[str, Any]", spelled_out(json.loads(msgspec.json.encode(anonymous(report)))))
    for finding, shown in zip(report.findings, content["findings"], strict=True):
        shown["message"], shown["remedy"] = map(str, finding_words(finding))
    content["known"] = [trouble_object(trouble) for trouble in known]
    return msgspec.json.format(msgspec.json.encode(content), indent=2)


def as_html(report: CheckReport, tested: SelfTestReport | None = None, language: Language = IN_ENGLISH) -> str:
    """One self-contained page. tested: the self-test of the same device."""
    say = language.say
    verdict, tone = verdict_words(report)
    body = [
        f'<h1 class="{tone}">{language.words(verdict)}</h1>',
        *_facts(report, language),
        _part(say("Headroom by layer"), _chart(report, language)),
        _part(say("Findings before the cure" if is_cured(report) else "Findings"), _findings(report, language)),
        _part(say("Plan"), _plan(report, language)),
        _part(say("Cures"), _cures(report, language)),
        _part(say("Reported by other users, not measured here"), _known(report, language)),
        _part(say("What this device can do"), _device(report, tested, language)),
        _part(say("Settings and versions"), _settings(report, language)),
        _part(say("Highest layers"), _layers(report, language)),
    ]
    return page(say("Model health: {0}", report.model.name), body, language)


def page(title: str, body: Iterable[str], language: Language) -> str:
    """A whole page. title, body: HTML already."""
    return (
        f'<!doctype html>\n<html lang="{language.code}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>'
        f"<style>{page_style()}</style></head>\n<body><main>{''.join(body)}</main></body></html>\n"
    )


def page_style() -> str:
    """A page's rules, with the colours of both themes of the window."""
    tokens = cast("dict[str, dict[str, dict[str, str]]]", json.loads((resources() / "theme" / "tokens.json").read_bytes()))

    def colours(theme: str) -> str:
        named = {**tokens["color"][theme], **{f"chart-{name}": value for name, value in tokens["chart"][theme].items()}}
        return ":root {" + " ".join(f"--{name}: {value};" for name, value in named.items()) + "}"

    dark = f"@media screen and (prefers-color-scheme: dark) {{ {colours('dark')} }}"
    return f"{colours('light')}\n{dark}\n{(resources() / 'theme' / 'report.css').read_text('utf-8')}"


def _part(title: str, content: str) -> str:
    return f"\n<h2>{title}</h2>\n<section>{content}</section>" if content else ""


def _facts(report: CheckReport, language: Language) -> Iterable[str]:
    model, device = report.model, report.device
    depth = language.say("quick check") if report.depth == "quick" else language.say("thorough check")
    when = html.escape(report.checked_at[:16].replace("T", " "))
    driver = language.say("Driver {0}", device.driver) if device.driver else ""
    first = [model.base or model.family, model.format, DTYPE_NAMES.get(cast("Any", model.stored_dtype), model.stored_dtype)]
    first.append(size_text(model.size_bytes))
    yield f'<p class="muted">{html.escape(" · ".join(part for part in first if part))}</p>'
    second = [html.escape(f"{device.name} ({device.backend})"), driver, html.escape(f"PyTorch {device.torch_version}")]
    second += [when, f"{depth}, {html.escape(elapsed(report.seconds))}", html.escape(size_words(report, language.catalogue))]
    yield f'<p class="muted">{" · ".join(part for part in second if part)}</p>'
    nets, adapters = (", ".join(f"{one.name} {one.scale:g}" for one in used) for used in (report.controls, report.ip_adapters))
    used = (
        Words("Checked with the transformer {0}.", (file_name(report.transformer or ""),)),
        Words("Checked with the VAE {0}.", (file_name(report.vae or ""),)),
        Words("Checked with ControlNets: {0}", (nets,)),
        Words("Checked with IP-Adapters: {0}", (adapters,)),
        Words("Checked with LoRAs: {0}", (", ".join(f"{lora.name} {lora.shown_weight}" for lora in report.loras),)),
        Words("Checked with synthetic inputs: {0}", (", ".join(language.say(name) for name in report.made_up),)),
        Words("Checked with embeddings: {0}", (", ".join(map(inversion_name, report.inversions)),)),
    )
    yield from (f"<p>{language.words(one)}</p>" for one in used if one.values[0])


def _chart(report: CheckReport, language: Language) -> str:
    if not report.layers:
        return f"<p>{language.say('No layers measured yet.')}</p>"
    data = build(report.layers, report.precision, report.findings, None if report.plan.is_plain else report.plan)
    rooms = [room_bits(log2_peak(layer.peak), report.precision) for layer in report.layers]
    over, tight = over_and_tight([(layer.component, layer.module) for layer in report.layers], rooms)
    room = least_room(report)
    values = (len(report.layers), over, DTYPE_NAMES[report.precision], tight, "\u2013" if room is None else bits(room))
    said = Words(_MEASURED, values).text(language.catalogue)
    if is_cured(report):
        now = cured_room(report)
        said = Words(_CURED, (*values, "\u2013" if now is None else bits(now))).text(language.catalogue)
    legend = language.say("Peak of each layer, in running order. Ring: origin. Dashed box: cure.")
    return f'{chart_svg(data, said, language.catalogue)}<p>{html.escape(said)}</p><p class="muted small">{legend}</p>'


def _findings(report: CheckReport, language: Language) -> str:
    say = language.say
    if not report.findings:
        return f"<p>{say('No findings.')}</p>"
    rows = [_finding(index, finding, report, language) for index, finding in enumerate(report.findings, start=1)]
    head = [("", True), (say("State"), False), (say("What"), False), (say("Peak"), True), (say("Room"), True)]
    return _table(head, rows, "findings")


def _finding(index: int, finding: Finding, report: CheckReport, language: Language) -> list[str]:
    state, tone = finding_state(finding)
    what, remedy = finding_words(finding)
    if is_cured(report) and cured_by(report.plan, finding):
        remedy = Words("Fixed by the cure in use.")
    place = ".".join(part for part in (finding.component, finding.module) if part)
    told = [language.words(what), f"<code>{html.escape(place)}</code>"]
    if finding.step is not None:
        told.append(language.say("Appeared at step {0}.", finding.step))
    if (further := further_words(finding)) is not None:
        told.append(language.words(further))
    told.append(f'<span class="muted">{language.words(remedy)}</span>')
    room = headroom_bits(finding.peak, finding.dtype)
    return [
        str(index),
        f'<span class="state {tone}">{language.say(state)}</span>',
        "<br>".join(told),
        "" if finding.peak is None else html.escape(number(finding.peak)),
        "" if room is None else language.say("{0} bits", bits(room)),
    ]


def _plan(report: CheckReport, language: Language) -> str:
    say, plan = language.say, report.plan
    rows = [(language.words(plain_component(name)), _treatment(name, plan, language)) for name in plan.dtypes]
    rows += [(say("Setting"), html.escape(f"{name} = {value}")) for name, value in plan.settings.items()]
    if plan.error is not None:
        rows.append((say("Error against FP32"), html.escape(number(plan.error))))
    held = say("It passed the check.") if plan.verified else say("It did not pass the check.")
    used = say("Not applied by hand; a recovered picture may still use it.")
    if report.applied:
        used = language.words(used_words(report))
    why = "".join(f"<li>{language.words(reason)}</li>" for reason in plan.reasons)
    stands = "" if plan.is_plain else f"<p>{held} {used}</p>"
    return f"{_pairs(rows)}{stands}{f'<ul>{why}</ul>' if why else ''}"


def _treatment(name: str, plan: Plan, language: Language) -> str:
    """What a plan does with one component."""
    told = [html.escape(DTYPE_NAMES[plan.dtypes[name]])]
    if layers := rescaled_modules(plan.rescale.get(name, {})):
        told.append(language.words(Words("{0} layers rescaled", (len(layers),), one="1 layer rescaled")))
    if whole := plan.wide_modules(name):
        told.append(f"{language.say('in FP32')}: {_codes(whole, name)}")
    if results := plan.wide_results(name):
        told.append(f"{language.say('only the result in FP32')}: {_codes(results, name)}")
    if scaled := plan.scaled_layers(name):
        told.append(f"{language.say('input scaled by a power of two, result in FP32')}: {_codes(list(scaled), name)}")
    return " · ".join(told)


def _codes(modules: Sequence[str], component: str) -> str:
    return ", ".join(f"<code>{html.escape(module or component)}</code>" for module in modules)


def _cures(report: CheckReport, language: Language) -> str:
    say = language.say
    real = [cure for cure in report.cures if cure.kind != "none"]
    if not real:
        return f"<p>{say('The check found no cure.') if report.findings else say('No cure is needed.')}</p>"
    head = [(say("Cure"), False), (say("Time"), True), (say("Memory"), True), (say("Disk"), True), (say("Picture"), True)]
    table = _table(head, [_cure(cure, language) for cure in real], "cures")
    return f'{table}<p class="muted small">{say("The memory is computed, not measured.")}</p>'


def _cure(cure: Cure, language: Language) -> list[str]:
    say = language.say
    title = say(CURE_TITLES[cure.kind])
    if cure.suggested:
        title += f' <span class="state ok">{say("Suggested")}</span>'
    if (exactness := exactness_words(cure.plan)) is not None and not cure.refusal:
        title += f'<br><span class="muted">{language.words(exactness)}</span>'
    if cure.refusal:
        title += f'<br><span class="muted">{language.words(cure.refusal)}</span>'
    missing, time = say("Not measured"), slower_words(cure)
    return [
        title,
        missing if time is None else language.words(time),
        missing if cure.memory_bytes is None else _more(cure.memory_bytes),
        missing if (disk := disk_price(cure)) is None else _more(disk),
        missing if cure.psnr is None else html.escape(f"{number(round(cure.psnr))}\u00a0dB"),
    ]


def _more(count: int) -> str:
    return f"+{size_text(count)}" if count else "0"


def _known(report: CheckReport, language: Language) -> str:
    known = known_on(report.model, report.device, report.precision, report.numerics)
    items = (
        f"<li>{language.say(one.what)} {language.words(helps_words(one))}"
        f'<br><span class="muted small">{language.words(origin_words(one))}</span></li>'
        for one in known
    )
    return f"<ul>{''.join(items)}</ul>" if known else ""


def _device(report: CheckReport, tested: SelfTestReport | None, language: Language) -> str:
    say = language.say
    if tested is None or tested.device.id != report.device.id:
        return f"<p>{say('No self-test of this device.')}</p>"
    head = [(say("Type"), False), (say("State"), False), (say("Speed"), True)]
    wrong = sum(test.outcome not in {"right", "missing"} for test in tested.tests)
    when = tested.measured_at[:16].replace("T", " ")
    auto = say("Auto uses {0}.", DTYPE_NAMES[tested.auto])
    if auto_follows_model(tested):
        auto = say("Auto uses FP16, or BF16 for models that need its range.")
    count = say("{0} tests, {1} failed, measured {2}", len(tested.tests), wrong, when)
    return f"{_table(head, [_dtype(one, language) for one in tested.dtypes])}<p>{auto}</p><p class='muted small'>{count}</p>"


def _dtype(report: DTypeReport, language: Language) -> list[str]:
    state, tone = DTYPE_STATES[report.state]
    told = f'<span class="state {tone}">{language.say(state)}</span>'
    if (test := report.failing) is not None:
        told += f" <code>{html.escape(f'{test.operation} {test.size}: {test.outcome}')}</code>"
    speed = "" if report.speed is None else language.say("about {0} × FP32", f"{report.speed:.1f}")
    return [DTYPE_NAMES[report.dtype], told, speed]


def _settings(report: CheckReport, language: Language) -> str:
    own = [setting for setting in DECLARED if setting.page == "Numerics"]
    rows = [(language.say(setting.title), _value(setting, getattr(report.numerics, setting.field), language)) for setting in own]
    versions = {**library_versions(), "halftone": __version__}
    versions.pop("torch", None)  # that of the check stands with the device
    libraries = " · ".join(f"{name} {version}" for name, version in versions.items())
    return _pairs([*rows, (language.say("Libraries installed now"), html.escape(libraries))])


def _value(setting: Setting, value: str | bool, language: Language) -> str:
    label = next((choice.label for choice in setting.choices if choice.value == value), str(value))
    shown = language.say(label) if setting.choices else language.say("On") if value else language.say("Off")
    return shown if value == setting.default else f"<strong>{shown}</strong> ({language.say('changed')})"


def _layers(report: CheckReport, language: Language) -> str:
    say = language.say
    highest = sorted(report.layers, key=lambda layer: log2_peak(layer.peak), reverse=True)[:_HIGHEST]
    head = [(say("Layer"), False), (say("Kind"), False), (say("Peak"), True), (say("Room"), True)]
    rows: list[list[str]] = []
    for layer in highest:
        name = ".".join(part for part in (layer.component, layer.module) if part)
        room = headroom_bits(layer.peak, report.precision)
        cells = f"<code>{html.escape(name)}</code>", html.escape(layer.kind), html.escape(number(layer.peak))
        rows.append([*cells, "" if room is None else say("{0} bits", bits(room))])
    return _table(head, rows) if rows else ""


def _pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, which are HTML already."""
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in rows)}</dl>"


def _table(head: Head, rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Cells are HTML already. kind: a class of its own in the style sheet."""
    own = f' class="{kind}"' if kind else ""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = (' class="n"' if numbers else "" for _, numbers in head)
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table{own}><thead><tr>{cells('th', [words for words, _ in head])}</tr></thead><tbody>{lines}</tbody></table>"
