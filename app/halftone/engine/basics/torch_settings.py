"""The numerics settings that are switches of torch: set in one place around every run and put back after it."""

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final, cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from halftone.contract.facts import SelfTestReport
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import AttentionBackend
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.health.device_faults import copies_are_faulty, is_absent, sound_backends
from halftone.measure.backends import BACKENDS
from halftone.measure.late import await_copies

_PROCESSOR: Final = cast("Any", torch.backends).mkldnn
_CUDA_ONLY: Final = {
    "fp16_reduction": "FP16 reduced-precision reduction",
    "bf16_reduction": "BF16 reduced-precision reduction",
    "fp16_accumulation": "FP16 accumulation",
    "tf32": "TF32",
}


_SOUND: Final[dict[torch.device, tuple[AttentionBackend, ...]]] = {}
"""Device -> the backends that attention chooses from where the self-test found others faulty."""


def heed(device: str, tested: SelfTestReport | None) -> None:
    """Go around what the self-test found faulty, in every run on this device from now on. device: as torch spells it."""
    place = torch.device(device)
    _SOUND[place] = sound_backends(tested.tests) if tested else ()
    await_copies(place, wanted=copies_are_faulty(tested))


def attention_backends(wanted: AttentionBackend, device: torch.device) -> list[SDPBackend]:
    """Backends to try in this order; empty: torch's choice. Math comes last, for shapes the chosen one does not take. Without a
    choice that the device has: those that the self-test found sound, where others are not.
    """
    if wanted == "auto" or is_absent(wanted, device.type):
        return [BACKENDS[name] for name in _SOUND.get(device, ())]
    return [BACKENDS[wanted]] if wanted == "math" else [BACKENDS[wanted], SDPBackend.MATH]


def attention_for(wanted: AttentionBackend, device: torch.device) -> AbstractContextManager[object]:
    """Attention on those backends while the block runs."""
    backends = attention_backends(wanted, device)
    return sdpa_kernel(backends, set_priority=True) if backends else nullcontext()


def without_effect(numerics: Numerics, device: torch.device) -> tuple[Words, ...]:
    """A sentence for each setting that was changed but does nothing on this device."""
    notes: list[Words] = []
    if device.type != "cuda":
        notes += [
            Words("{0} has no effect on {1}: it is a switch of CUDA's matrix products.", (name, device.type), about="run")
            for field, name in _CUDA_ONLY.items()
            if getattr(numerics, field) and not (field == "tf32" and device.type == "cpu")  # a processor has it too
        ]
    if numerics.offload not in ("auto", "none") and device.type == "cpu":
        notes.append(Words("Offload has no effect on {0}: the weights are in its memory already.", (device.type,), about="run"))
    if is_absent(numerics.attention_backend, device.type):
        notes.append(
            Words(
                "Attention backend {0} does not exist on {1}: torch's own choice is used.",
                (numerics.attention_backend, device.type),
                about="run",
            )
        )
    if numerics.math_attention_reduction and numerics.attention_backend not in ("auto", "math"):
        notes.append(Words("Half-precision math attention reduction acts only with the math backend.", about="run"))
    return tuple(notes)


def _switches(numerics: Numerics) -> list[tuple[Any, str, object]]:
    matmul = torch.backends.cuda.matmul
    precision = "tf32" if numerics.tf32 else "ieee"
    return [
        (matmul, "allow_fp16_reduced_precision_reduction", numerics.fp16_reduction),
        (matmul, "allow_bf16_reduced_precision_reduction", numerics.bf16_reduction),
        (matmul, "allow_fp16_accumulation", numerics.fp16_accumulation),
        # the older names of the two: their getters raise after a write to the newer ones, and torch's compiler reads them
        (matmul, "allow_tf32", numerics.tf32),
        (torch.backends.cudnn, "allow_tf32", numerics.tf32),
        (_PROCESSOR.matmul, "fp32_precision", precision),
        (_PROCESSOR.conv, "fp32_precision", precision),
    ]


@contextmanager
def torch_settings(numerics: Numerics, device: torch.device) -> Generator[None]:
    """Every torch switch of `numerics`, while the block runs; nothing is kept for gradients."""
    math_before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _switches(numerics)]
    try:
        for owner, name, value in _switches(numerics):
            setattr(owner, name, value)
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(numerics.math_attention_reduction)
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(quiet_libraries())
            stack.enter_context(attention_for(numerics.attention_backend, device))
            yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(math_before)
