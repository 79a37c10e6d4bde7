"""Settings and choices that cannot act here, each with its reason: decided from facts of the device and of the desktop."""

from collections.abc import Sequence
from typing import Final

import msgspec

from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.request import Numerics
from halftone.contract.wording import Words


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What this desktop and this installation can do. Reasons are None where something works."""

    no_notes: Words | None = None
    no_taskbar: Words | None = None
    no_cards: Words | None = None
    jpeg_xl: bool = True


NO_CPP: Final = Words("PyTorch finds no C++ compiler, which it needs to compile for a processor.")
SPACE: Final = Words("PyTorch's compiler cannot work in a folder that has a space in its name: move Halftone to one without.")
NO_TRITON: Final = Words("PyTorch finds no Triton, which it needs to compile for a GPU.")
"""What compiling lacks on a machine; the self-test finds it."""
_NVIDIA: Final = Words("Only NVIDIA GPUs have this switch.")
_MATRIX: Final = ("fp16_reduction", "bf16_reduction", "fp16_accumulation")
_HALF_SUMS: Final = 7
_TF32: Final = 8
"""Compute capabilities (major) that can do it."""


def no_cards(device: DeviceFacts | None, devices: Sequence[DeviceFacts]) -> Words | None:
    """Why no other GPU can take pictures, None where one can or where the devices are not known yet."""
    if device is None or any(one.backend == device.backend != "cpu" and one.id != device.id for one in devices):
        return None
    return Words("The queue runs on the processor.") if device.backend == "cpu" else Words("There is no other GPU of this kind.")


def refusal(
    field: str,
    device: DeviceFacts | None,
    here: Abilities,
    numerics: Numerics | None = None,
    tested: SelfTestReport | None = None,
) -> Words | None:
    """Why a setting as a whole cannot act here, None where it can or where the device is not known yet. numerics: the other
    settings in force.
    """
    match field:
        case "notify" | "notify_after":
            return here.no_notes
        case "taskbar_progress":
            return here.no_taskbar
        case "all_cards":
            return here.no_cards
        case "math_attention_reduction" if numerics is not None and numerics.attention_backend not in ("auto", "math"):
            return Words("Needs Auto or Math as the attention backend.")
        case "compile":
            return None if tested is None else _no_compiler(tested)
        case _:
            return None if device is None else _by_device(field, device)


def choice_refusal(field: str, value: str, device: DeviceFacts | None, here: Abilities) -> Words | None:
    """Why one choice of a setting cannot be taken here."""
    if (field, value) == ("picture_format", "jxl") and not here.jpeg_xl:
        return Words("Needs the Python package pillow-jxl-plugin.")
    if (field, value) == ("attention_backend", "cudnn") and device is not None and device.backend != "cuda":
        return Words("Needs an NVIDIA GPU.")
    return None


def _by_device(field: str, device: DeviceFacts) -> Words | None:
    nvidia, major = device.backend == "cuda", _major(device)
    if field in _MATRIX and device.backend in ("cpu", "mps", "xpu"):
        return _NVIDIA
    if field == "fp16_accumulation":
        if not nvidia:
            return _NVIDIA
        return None if major is None or major >= _HALF_SUMS else Words("This GPU is too old for it.")
    if field == "tf32":
        if device.backend in ("mps", "xpu", "rocm"):
            return _NVIDIA
        return None if not nvidia or major is None or major >= _TF32 else Words("This GPU is too old for it.")
    if field == "fp8_storage" and device.backend == "mps":
        return Words("PyTorch has no FP8 on Apple GPUs.")
    if field == "offload" and device.backend == "cpu":
        return Words("The weights are in RAM already.")
    return None


def _no_compiler(tested: SelfTestReport) -> Words | None:
    found = (effect.note for effect in tested.effects if effect.setting == "compile")
    missing = next((note for note in found if note in (NO_CPP, SPACE, NO_TRITON)), None)
    return None if missing is None else Words("{0} Measure again after you change this.", (missing,))


def _major(device: DeviceFacts) -> int | None:
    """The first number of the compute capability, None where it is not known."""
    major = (device.capability or "").partition(".")[0]
    return int(major) if major.isdigit() else None
