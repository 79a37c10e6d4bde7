"""The page of a check: whole, safe, on its own, and without what nobody else should see."""

import json
import math
import re
from gettext import NullTranslations
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest
from tests.helpers.reports import DEVICE, MODEL, check_report, self_test_report

from halftone.contract.facts import CheckReport, Finding, LayerPeak
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Lora, Numerics
from halftone.contract.wording import Words
from halftone.health.reports.report_page import Language, as_html, as_json

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Notes what stands on a page; open and closed elements have to match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "data", "action") or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def overflowing(**changes: object) -> CheckReport:
    """A decoder that overflows, with its cure."""
    peaks = {"unet.conv_in": 100.0, "vae.decoder.conv_in": 3e5, "vae.decoder.mid_block": 2e5, "vae.decoder.x": 2e4}
    layers = tuple(LayerPeak(component=name.split(".")[0], module=name.partition(".")[2], kind="Conv2d", peak=peak)
                   for name, peak in peaks.items())  # fmt: skip
    finding = Finding(
        code="activation-overflow", component="vae", module="decoder.conv_in", dtype="float16", peak=3e5, limit=65504.0, step=None
    )
    plan = Plan(
        dtypes={"unet": "float16", "vae": "float16"},
        rescale={"vae": {"decoder.conv_in.weight": -4, "decoder.conv_in.bias": -4}},
        total_parameters=10,
        error=0.0021,
        verified=True,
        reasons=(Words("FP16, your setting."),),
    )
    cure = Cure(kind="rescale", plan=plan, time_ratio=1.0, memory_bytes=0, psnr=82.4, suggested=True)
    model = msgspec.structs.replace(MODEL, components=("unet", "vae"))
    known: dict[str, object] = {
        "model": model, "verdict": "fixable", "findings": (finding,), "plan": plan, "cures": (cure,), "layers": layers
    }  # fmt: skip
    return check_report(**(known | changes))


def test_everything_stands_on_the_page() -> None:
    said = " ".join(read(as_html(overflowing(), self_test_report())).words)
    for words in (
        "tiny fails in FP16 on RTX 9. A cure is ready.",
        "Driver 580.12",
        "4 layers and blocks. Of the innermost, 2 above the FP16 limit, 1 tight",
        "FP16 limit 65\u202f504",
        "300\u202f000 exceeds the FP16 limit",
        "vae.decoder.conv_in",
        "1 layer rescaled",
        "It passed the check.",
        "FP16, your setting.",
        "about 0\u00a0%",
        "82\u00a0dB",
        "The SDXL VAE decoder overflows in FP16",
        "cause found",
        "2.4 × FP32",
        "Auto uses FP16.",
        "Upcast cross-attention",
        "diffusers",
    ):
        assert words in said, words


def test_it_needs_nothing_from_elsewhere() -> None:
    page = as_html(overflowing(), self_test_report())
    reader = read(page)
    assert reader.links == []
    assert not reader.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert "@import" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_chart_is_sound_svg_with_limit_tight_line_cure_and_origin() -> None:
    page = as_html(overflowing())
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)
    assert svg is not None
    root = ElementTree.fromstring(svg[0])
    classes = [element.get("class", "") for element in root.iter()]
    for name in ("limit", "tight-line", "cure", "ring", "over", "tight", "series-1", "series-2"):
        assert classes.count(name) >= 1, name
    bars = [element for element in root.iter() if element.get("class") == "body"]
    assert len(bars) == 4
    named = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert "vae.decoder.conv_in: peak 300\u202f000, headroom \u22122.2 bits" in named


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=y>', "a & b <b>", "</style></svg>"])
def test_nothing_that_is_named_becomes_markup(evil: str) -> None:
    layer = LayerPeak(component="unet", module=evil, kind=evil, peak=1e6)
    finding = Finding(code="activation-overflow", component=evil, module=evil, dtype="float16", peak=1e6, limit=65504.0)
    plan = Plan(
        dtypes={evil: "float16"},
        upcast={evil: (evil,)},
        settings={evil: evil},
        reasons=(Words("{0}", (evil,)),),
        upcast_parameters=1,
    )
    report = overflowing(
        model=msgspec.structs.replace(MODEL, name=evil, family=evil, stored_dtype=evil),
        device=msgspec.structs.replace(DEVICE, name=evil, driver=evil),
        layers=(layer,),
        findings=(finding,),
        plan=plan,
        cures=(Cure(kind="upcast-region", plan=plan, refusal=Words("{0}", (evil,))),),
        checked_at=evil,
    )
    reader = read(as_html(report, msgspec.structs.replace(self_test_report(), measured_at=evil)))
    assert not reader.tags & {"script", "img", "b"}
    assert evil in " ".join(reader.words)


def test_it_holds_no_path_of_this_machine() -> None:
    place = "/home/me/secret/tiny"
    report = overflowing(model=msgspec.structs.replace(MODEL, path=place, id=place, components=("unet", "vae")))
    assert "secret" not in as_html(report)
    data = json.loads(as_json(report))
    assert "secret" not in as_json(report).decode()
    assert data["model"]["path"] == "tiny"
    assert [one["id"] for one in data["known"]] == ["sdxl-vae", "sdxl-vae-encode"]


@pytest.mark.parametrize("folder", ["/home/secret/", "C:\\Users\\secret\\"])
def test_loras_are_named_without_their_place(folder: str) -> None:
    loras = (Lora(path=f"{folder}glow.safetensors", weight=0.8), Lora(path=f"{folder}ink.safetensors", weight=-0.5))
    report = overflowing(loras=loras, applied=True)
    data, page = as_json(report).decode(), as_html(report)
    assert "secret" not in data + page
    assert [(one["path"], one.get("weight", 1.0)) for one in json.loads(data)["loras"]] == [
        ("glow.safetensors", 0.8),
        ("ink.safetensors", -0.5),
    ]
    said = " ".join(read(page).words)
    assert "Checked with LoRAs: glow 0.8, ink -0.5" in said
    assert "It is used with this model and exactly these add-ons on this device." in said
    assert "LoRA" not in as_html(overflowing(applied=True))


@pytest.mark.parametrize("peak", [0.0, math.inf, math.nan, 1e-30, 3e38])
def test_odd_peaks_leave_a_sound_page(peak: float) -> None:
    layers = (LayerPeak(component="vae", module="decoder.conv_in", kind="Conv2d", peak=peak),)
    for report in (overflowing(layers=layers), overflowing(layers=layers, precision="bfloat16"), overflowing(layers=())):
        page = as_html(report)
        read(page)
        assert not re.search(r'="(nan|inf|-inf)"', page)


def test_a_check_without_findings_says_so() -> None:
    said = " ".join(read(as_html(check_report())).words)
    assert "tiny is healthy in FP16 on RTX 9." in said
    assert "No findings." in said
    assert "No cure is needed." in said
    assert "No self-test of this device." in said


def test_a_changed_setting_stands_out() -> None:
    page = as_html(overflowing(numerics=Numerics(upcast_cross_attention="always")))
    assert "<strong>Always</strong> (changed)" in page
    assert page.count("<strong>") == 1


def test_a_page_of_a_cured_model_speaks_of_both_sides_of_the_cure() -> None:
    layers = tuple(msgspec.structs.replace(layer, peak_after=5000.0) for layer in overflowing().layers)
    page = as_html(overflowing(applied=True, layers=layers))
    assert "Findings before the cure" in page
    assert "before the cure, 2 above the FP16 limit, 1 tight; least headroom \u22122.2 bits" in page
    assert "with the cure 3.7 bits" in page
    assert "Fixed by the cure in use." in page
    assert "Apply the cure" not in page
    assert "before the cure" not in as_html(overflowing())
    assert "Apply the cure" in as_html(overflowing())


class Loud(NullTranslations):
    def gettext(self, message: str) -> str:
        return message.upper() if "{" not in message else message


def test_it_speaks_another_language() -> None:
    page = as_html(overflowing(), None, Language(Loud(), "zh-CN"))
    assert '<html lang="zh-CN">' in page
    assert "HEADROOM BY LAYER" in page
