import string
from gettext import NullTranslations
from typing import get_args

import msgspec
import pytest

from halftone.contract.facts import Finding, FurtherLayer, GuardEvent
from halftone.contract.vocabulary import CureKind, DType, FindingCode
from halftone.contract.wording import Words, number
from halftone.health.explain import finding_words, further_words, note_for
from halftone.health.part_names import bits, duration, elapsed, ordinal, plain_component, plain_module

ACTIONS = ("decoded-again", "went-back-one-step", "encoded-again", "stopped", "kept", "asked")


def finding(code: FindingCode, peak: float | None = 212000.0, dtype: DType = "float16") -> Finding:
    return Finding(
        code=code, component="vae", module="decoder.up_blocks.2.resnets.0.conv1", dtype=dtype, peak=peak,
        limit=None if peak is None else 65504.0,
    )  # fmt: skip


def event(action: str, **changes: object) -> GuardEvent:
    known: dict[str, object] = {
        "step": None, "component": "vae", "module": "decoder.up_blocks.2.resnets.0.conv1", "kind": "nonfinite",
        "action": action, "cure": "rescale", "peak": 212000.0, "limit": 65504.0, "seconds": 1.2,
    }  # fmt: skip
    return GuardEvent(**(known | changes))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("code", get_args(FindingCode))
@pytest.mark.parametrize("peak", [None, 212000.0])
def test_every_code_has_a_sentence_and_a_remedy(code: FindingCode, peak: float | None) -> None:
    for text in map(str, finding_words(finding(code, peak))):
        assert text.endswith(".")
        assert not set("{}!") & set(text)
        assert "  " not in text
        assert "None" not in text


def test_an_overflow_in_numbers() -> None:
    assert finding_words(finding("activation-overflow"))[0].text() == (
        "VAE decoder, third up block, first residual layer, first convolution: "
        "212\u202f000 exceeds the FP16 limit of 65\u202f504, −1.7 bits of headroom."
    )


def test_a_window_can_translate_templates_and_names() -> None:
    seen: list[str] = []

    class Loud(NullTranslations):
        def gettext(self, message: str) -> str:
            seen.append(message)
            return message.upper() if "{0}" not in message else message

    message = finding_words(finding("tight"))[0].text(Loud())
    assert "THIRD" in message
    assert any(template.startswith("{0}: {2} is close to") for template in seen)


def test_templates_use_numbered_placeholders_that_have_values() -> None:
    for code in get_args(FindingCode):
        for words in finding_words(finding(code)):
            fields = [field for _, field, _, _ in string.Formatter().parse(words.template) if field is not None]
            assert all(field.isdigit() and int(field) < len(words.values) for field in fields)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("step", [None, 7])
def test_every_act_of_the_sentinel_has_a_message(action: str, step: int | None) -> None:
    note = note_for(event(action, step=step))
    assert note.title.text().endswith(".")
    assert note.text.text().endswith(".")


def test_messages_of_the_specification() -> None:
    decoded = note_for(event("decoded-again", cure="float32-component"))
    assert decoded.title.text() == "This picture came out black. Halftone recovered it."
    assert "decoded the latents again in FP32. It took 1.2\u00a0s longer." in decoded.text.text()
    back = note_for(event("went-back-one-step", step=12))
    assert back.title.text().startswith("Recovered from NaN at step 12.")
    lost = note_for(event("stopped", step=3, peak=None, sound_in_float32=False, why="float32"))
    assert lost.level == "danger"
    assert "NaN at step 3, even in FP32." in lost.text.text()


def test_a_picture_stopped_by_the_setting_is_not_called_broken_in_float32() -> None:
    note = note_for(event("stopped", sound_in_float32=True, why="setting"))
    assert note.title.text().endswith("Halftone stopped, as your settings say.")
    assert note.text.text().startswith("NaN during decoding. Your setting for black pictures stopped it. ")
    assert "FP32 stays in range, peak 212\u202f000." in note.text.text()
    silent = note_for(event("stopped", sound_in_float32=True, why="setting", peak=None)).text.text()
    assert "FP32 stays in range." in silent


@pytest.mark.parametrize("action", ["stopped", "kept", "asked"])
@pytest.mark.parametrize("why", ["", "setting", "no-cure"])
@pytest.mark.parametrize("peak", [None, 212000.0])
def test_nothing_is_said_of_float32_where_it_was_not_tried(action: str, why: str, peak: float | None) -> None:
    note = note_for(event(action, why=why, peak=peak))
    assert "FP32" not in note.title.text() + note.text.text()


@pytest.mark.parametrize("why", ["setting", "no-cure"])
def test_nothing_is_called_broken_in_float32_that_was_sound_there(why: str) -> None:
    text = note_for(event("stopped", why=why, sound_in_float32=True)).text.text()
    assert "stays in range" in text
    assert "even in FP32" not in text
    assert "damaged" not in text


@pytest.mark.parametrize(("peak", "limit", "claimed"), [(212000.0, 65504.0, True), (9.0, 65504.0, False), (None, None, False)])
def test_numbers_are_called_too_large_only_where_one_was_measured(peak: float | None, limit: float | None, claimed: bool) -> None:
    note = note_for(event("decoded-again", peak=peak, limit=limit))
    assert ("overflowed" in note.text.text()) is claimed


@pytest.mark.parametrize("kind", get_args(CureKind))
def test_every_cure_has_words(kind: CureKind) -> None:
    texts = {note_for(event(action, cure=kind)).text.text() for action in ("decoded-again", "went-back-one-step")}
    assert all("{" not in text and kind not in text.split() for text in texts)


def test_one_colour_in_float32_too_is_not_called_a_bad_number() -> None:
    note = note_for(event("kept", kind="flat", module="", cure="none", peak=None, limit=None, sound_in_float32=False))
    assert note.title.text() == "This picture has only one colour. It was kept."
    assert "FP32 is no better" in note.text.text()


@pytest.mark.parametrize(
    ("component", "module", "text"),
    [
        ("vae", "decoder.conv_in", "VAE decoder, input convolution"),
        ("vae", "encoder.mid_block.attentions.0.to_q", "VAE encoder, mid block, first attention layer, queries"),
        (
            "unet", "down_blocks.1.attentions.0.transformer_blocks.0.attn2",
            "UNet, second down block, first attention layer, cross-attention",
        ),
        ("unet", "", "UNet"),
        (
            "text_encoder", "text_model.encoder.layers.10.mlp.fc2",
            "Text encoder, eleventh layer, feed-forward, second linear layer",
        ),
        (
            "text_encoder_2", "encoder.block.3.layer.1.DenseReluDense.wo",
            "Text encoder 2, fourth layer, feed-forward, last linear layer",
        ),
        ("transformer", "transformer_blocks.20.ff", "Transformer, 21st transformer block, feed-forward"),
        ("weird_model", "stages.3.thing", "Weird model, fourth part of stages, thing"),
        ("", "", "Model"),
    ],
)  # fmt: skip
def test_module_names_in_plain_words(component: str, module: str, text: str) -> None:
    assert plain_module(component, module) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (65504, "65\u202f504"), (1234567.0, "1\u202f234\u202f567"), (3.4e38, "3.4 × 10^38"), (6e-8, "6 × 10^\u22128"),
        (0, "0"), (-1.7, "\u22121.7"), (0.0312, "0.031"), (12.34, "12.3"), (float("nan"), "not a number"),
        (float("inf"), "infinity"), (float("-inf"), "\u2212infinity"),
    ],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_rooms_durations_and_ordinals() -> None:
    assert [bits(b) for b in (3.69, 1.99, -1.66, -0.01, 2.0, 0.0)] == ["3.6", "1.9", "\u22121.7", "\u22120.1", "2.0", "0.0"]
    assert [duration(s) for s in (0.0, 8.2, 60)] == ["1\u00a0s", "9\u00a0s", "1\u00a0min"]
    assert duration(12481) == "3\u00a0h\u00a029\u00a0min", "no seconds beside hours"
    assert [duration(s) for s in (3599.5, 7200, 7199)] == ["1\u00a0h", "2\u00a0h", "2\u00a0h"]
    assert [elapsed(s) for s in (0.0, 0.19, 3.047, 42.06, 59.97, 111.2)] == [
        "0.1\u00a0s", "0.2\u00a0s", "3.0\u00a0s", "42.1\u00a0s", "1\u00a0min", "1\u00a0min\u00a051\u00a0s",
    ]  # fmt: skip
    assert duration(111) == "1\u00a0min\u00a051\u00a0s", "no line is broken inside"
    assert [ordinal(i).text() for i in (0, 11, 12, 20, 21, 110)] == ["first", "twelfth", "13th", "21st", "22nd", "111th"]
    assert plain_component("vae").text() == "VAE decoder"
    assert Words("{0} of {1}", (1500, Words("two"))).text() == "1\u202f500 of two"


@pytest.mark.parametrize(
    ("code", "peaks", "said"),
    [
        ("activation-overflow", (70000.0,), "1 later layer overflows too, peak 70\u202f000."),
        (
            "activation-overflow",
            (70000.0, 90000.0),
            "2 later layers overflow too, peaks up to 90\u202f000.",
        ),
        ("tight", (40000.0,), "1 more layer is tight, peak 40\u202f000."),
        ("tight", (40000.0, 50000.0), "2 more layers are tight, peaks up to 50\u202f000."),
    ],
)
def test_further_layers_are_counted_with_the_largest_peak(code: FindingCode, peaks: tuple[float, ...], said: str) -> None:
    further = tuple(FurtherLayer(module=f"m{index}", peak=peak) for index, peak in enumerate(peaks))
    words = further_words(msgspec.structs.replace(finding(code), further=further))
    assert words is not None
    assert words.text() == said
    assert further_words(finding(code)) is None
