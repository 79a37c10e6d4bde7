"""Words and bars of what a setting costs say the same, and the Settings and Device pages agree."""

import msgspec
import pytest
from tests.gui.health import kit

from halftone.contract.facts import SelfTestReport, SettingEffect, SpeedResult
from halftone.contract.request import Numerics
from halftone.contract.wording import Words
from halftone.gui.device import device_view
from halftone.gui.settings import setting_effects
from halftone.settings.declared import declared


def with_math(ratio: float, spread: float) -> SelfTestReport:
    """Math attention takes so many times as long as the default."""
    math = SettingEffect(setting="attention_backend", value="math", time_ratio=ratio, time_spread=spread, closeness_db=60.0)
    return msgspec.structs.replace(kit.measured(), effects=(math,))


@pytest.mark.parametrize(
    ("ratio", "spread", "words", "shown"),
    [
        (15.6, 4.0, "≈16\u00a0× as fast", 1 / 15.6),
        (1.3, 0.1, "≈30\u00a0% faster", 1 / 1.3),
        (1.3, 0.4, "≈0\u00a0%", 1.0),
    ],
)
def test_attention_is_as_fast_in_the_settings_as_on_the_device(ratio: float, spread: float, words: str, shown: float) -> None:
    report = with_math(ratio, spread)
    found = setting_effects.effect(declared("attention_backend"), Numerics(), report)
    assert (found.time_words, found.time_ratio) == (words, pytest.approx(shown))
    promises = [one.reason for one in device_view.promises(report, Numerics(), ("float16", Words("Right.")))]
    assert any("as fast as Math" in reason for reason in promises) is (shown != 1.0)


def test_a_difference_within_the_runs_has_no_bar() -> None:
    effect = SettingEffect(setting="vae_float32", value="always", time_ratio=1.4, time_spread=0.6, closeness_db=50.0)
    report = msgspec.structs.replace(kit.measured(), effects=(effect,))
    found = setting_effects.effect(declared("vae_float32"), Numerics(), report)
    assert (found.time_words, found.time_ratio) == ("Always: ≈0\u00a0%", 1.0)


@pytest.mark.parametrize(
    ("runs", "caption", "ratio"),
    [((0.005,) * 5, "≈2.0\u00a0× as fast", 2.0), ((0.004, 0.02, 0.01, 0.008, 0.03), "≈0\u00a0%", 1.0)],
)
def test_the_bar_of_a_precision_is_what_its_words_say(runs: tuple[float, ...], caption: str, ratio: float) -> None:
    def speed(mode: str, seconds: float, each: tuple[float, ...]) -> SpeedResult:
        return SpeedResult(mode=mode, operation="unet-step", tflops=0.1 / seconds, seconds=seconds, runs=each)

    speeds = (speed("float32", 0.01, (0.01,) * 5), speed("bfloat16", 0.007, runs))
    reference, narrow = device_view.speeds(msgspec.structs.replace(kit.measured(), speeds=speeds))
    assert narrow.caption == caption
    assert narrow.tflops == pytest.approx(reference.tflops * ratio)
