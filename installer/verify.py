"""Runs inside a new environment: imports what Halftone stands on and computes something on the device that will be used.

Prints one JSON line {"torch", "device", "name", "note"}; exits 3 when an import fails, 4 when this PyTorch build holds no code
for the card (which only a real kernel shows; another build may do), and 5 when not even the processor computes. A card that
computes wrongly, or not now because it is full, is a note: Halftone measures what it can do, and works around it.
"""

import contextlib
import importlib
import json
import sys
from collections.abc import Callable

NEEDED = (
    "numpy", "PIL", "msgspec", "tomlkit", "platformdirs", "rich", "typer", "safetensors", "sentencepiece", "ftfy",
    "einops", "tokenizers", "PySide6", "torch", "transformers", "diffusers", "accelerate", "peft",
)  # fmt: skip
IMPORT_FAILED, NO_CODE, DEVICE_FAILED = 3, 4, 5
NO_CODE_SIGNS = ("no kernel image", "not compatible with", "invalid device function", "device kernel image is invalid")


def devices() -> list[str]:
    import torch

    found = [
        name for name, module in (("cuda", torch.cuda), ("xpu", torch.xpu), ("mps", torch.backends.mps)) if module.is_available()
    ]
    return [*found, "cpu"]


def compute(device: str) -> bool:
    """Whether a small FP32 computation is right: a product (the vendor's code) and a sum (PyTorch's own) of small integers, which
    FP32 holds exactly. FP16 is not asked for: cards that are faulty in it are what Halftone is for."""
    import torch

    left = (torch.arange(64 * 64) % 7 - 3).reshape(64, 64)
    there = left.float().to(device)
    return bool(torch.equal((there @ there.T + 1).cpu().to(torch.int64), left @ left.T + 1))


def judge(device: str, computes: Callable[[], bool]) -> tuple[int, str]:
    """(exit code, what is to be said of the device or nothing)."""
    try:
        return (0, "") if computes() else (0, f"{device} computes wrongly even in FP32")
    except RuntimeError as error:
        failed = f"{device} cannot compute: {(str(error).splitlines() or [type(error).__name__])[0]}"
        if any(sign in str(error) for sign in NO_CODE_SIGNS):
            return NO_CODE, failed
        return (DEVICE_FAILED if device == "cpu" else 0), failed


def main() -> int:
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            print(f"{name} does not load: {error}")
            return IMPORT_FAILED
    import torch

    device = devices()[0]
    code, note = judge(device, lambda: compute(device))
    if code:
        print(note)
        return code
    name = device
    with contextlib.suppress(RuntimeError):  # where the card did not answer now
        name = torch.cuda.get_device_name() if device == "cuda" else device
    print(json.dumps({"torch": str(torch.__version__), "device": device, "name": name, "note": note}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
