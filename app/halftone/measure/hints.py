"""What is known of some cards elsewhere. Shown on the Device page as a hint, never used to decide: the self-test decides."""

import re
from typing import Final

import msgspec

from halftone.contract.facts import DeviceFacts


class Hint(msgspec.Struct, frozen=True):
    """pattern: regular expression on the device name; backend: of these cards; source: where it was reported."""

    backend: str
    pattern: str
    text: str
    source: str


HINTS: Final[tuple[Hint, ...]] = (
    Hint(
        "cuda",
        r"GTX 16[356]0|\b(T500|T550|T600|T1000|T1200|T2000|MX450|MX550|CMP 30HX)\b",
        "Others report green or black pictures in FP16 on this family of cards.",
        "pytorch #58123, #77955",
    ),
    Hint(
        "cuda",
        r"GTX 10[5678]0|\b(P40|P6|P4|P5000|P6000|TITAN X)\b",
        "Others report that FP16 computes right but several times slower than FP32 on this family of cards.",
        "ComfyUI #4363",
    ),
    Hint("rocm", r"RX 5[67]00", "Others report grey pictures in FP16 that small tests do not show.", "sdnext #900, ROCm #1857"),
    Hint(
        "rocm",
        r"MI2[0-9]0",
        "Its FP16 and BF16 matrix units turn very small numbers into zero.",
        "PyTorch notes on numerical accuracy",
    ),
    Hint("rocm", r"Vega|MI25\b", "Others report black pictures from FP16 attention.", "ComfyUI #2156, pytorch #116176"),
    Hint(
        "xpu",
        r"Arc",
        "Others report zeros from FP16 and bad numbers from BF16 with some driver and PyTorch versions.",
        "torch-xpu-ops #5220",
    ),
    Hint("mps", r"", "Others report black pictures from FP16 attention since macOS 14.5.", "ComfyUI #4241"),
)


def hints_for(device: DeviceFacts) -> tuple[str, ...]:
    """Hints on this device, each with its source."""
    found = [h for h in HINTS if h.backend == device.backend and re.search(h.pattern, device.name, re.IGNORECASE)]
    return tuple(f"{hint.text} ({hint.source})" for hint in found)
