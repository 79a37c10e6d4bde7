"""What cannot act on a device or a desktop is refused with a reason, and nothing else."""

import msgspec
import pytest
from tests.helpers import samples

from halftone.contract.facts import DeviceFacts, SelfTestReport, SettingEffect
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import AttentionBackend
from halftone.contract.wording import Words
from halftone.health.planning.usable_settings import NO_CPP, NO_TRITON, Abilities, choice_refusal, refusal

ALL = Abilities()
NOTES = Words("No notes here.")
BAR = Words("No bar here.")


def device(backend: str, capability: str | None = None) -> DeviceFacts:
    return DeviceFacts(id=backend, backend=backend, name=backend, capability=capability)


SWITCHES = {"fp16_reduction", "bf16_reduction", "fp16_accumulation"}


@pytest.mark.parametrize(
    ("there", "refused"),
    [
        (None, set()),
        (device("cuda", "9.0"), set()),
        (device("cuda"), set()),
        (device("cuda", "7.5"), {"tf32"}),
        (device("cuda", "6.1"), {"tf32", "fp16_accumulation"}),
        (device("rocm", "11.0"), {"tf32", "fp16_accumulation"}),
        (device("cpu"), SWITCHES | {"offload"}),
        (device("mps"), SWITCHES | {"tf32", "fp8_storage"}),
        (device("xpu"), SWITCHES | {"tf32"}),
        (device("other"), {"fp16_accumulation"}),
    ],
)
def test_settings_by_device(there: DeviceFacts | None, refused: set[str]) -> None:
    found = {field: refusal(field, there, ALL) for field in Numerics.__struct_fields__}
    assert {field for field, reason in found.items() if reason is not None} == refused
    assert all(str(reason).endswith(".") for reason in found.values() if reason is not None)


@pytest.mark.parametrize(
    ("backend", "wanted"),
    [("auto", None), ("math", None), *((name, "Needs Auto or Math as the attention backend.") for name in ("flash", "cudnn"))],
)
def test_the_math_switch_needs_its_backend(backend: AttentionBackend, wanted: str | None) -> None:
    chosen = Numerics(attention_backend=backend)
    found = refusal("math_attention_reduction", device("cuda", "9.0"), ALL, chosen)
    assert (None if found is None else str(found)) == wanted
    assert refusal("tf32", device("cuda", "9.0"), ALL, chosen) is None


@pytest.mark.parametrize(
    ("note", "wanted"),
    [
        (None, None),
        (Words("Each picture reports its own times."), None),
        (NO_TRITON, f"{NO_TRITON} Measure again after you change this."),
        (NO_CPP, f"{NO_CPP} Measure again after you change this."),
    ],
)
def test_compile_needs_what_the_self_test_looks_for(note: Words | None, wanted: str | None) -> None:
    effects = (
        SettingEffect(setting="tf32", value="true", note=NO_CPP),
        SettingEffect(setting="compile", value="true", note=note),
    )
    tested = msgspec.structs.replace(samples.self_test_report(), effects=effects)
    found = refusal("compile", device("cuda", "9.0"), ALL, tested=tested)
    assert (None if found is None else str(found)) == wanted
    stored = msgspec.json.decode(msgspec.json.encode(tested), type=SelfTestReport)
    assert refusal("compile", device("cuda", "9.0"), ALL, tested=stored) == found


def test_settings_by_desktop() -> None:
    here = Abilities(no_notes=NOTES, no_taskbar=BAR, jpeg_xl=False)
    found = [refusal(field, device("cuda", "9.0"), here) for field in ("notify", "notify_after", "taskbar_progress", "theme")]
    assert found == [NOTES, NOTES, BAR, None]


@pytest.mark.parametrize(
    ("field", "value", "backend", "jpeg_xl", "wanted"),
    [
        ("picture_format", "jxl", "cpu", True, None),
        ("picture_format", "jxl", "cpu", False, "Needs the Python package pillow-jxl-plugin."),
        ("picture_format", "webp", "cpu", False, None),
        ("attention_backend", "cudnn", "cpu", True, "Needs an NVIDIA GPU."),
        ("attention_backend", "cudnn", "rocm", True, "Needs an NVIDIA GPU."),
        ("attention_backend", "cudnn", "cuda", True, None),
        ("attention_backend", "flash", "cpu", True, None),
    ],
)
def test_choices(field: str, value: str, backend: str, jpeg_xl: bool, wanted: str | None) -> None:
    found = choice_refusal(field, value, device(backend), Abilities(jpeg_xl=jpeg_xl))
    assert (None if found is None else str(found)) == wanted
