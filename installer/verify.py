"""Runs inside a new environment: imports what Halftone stands on and computes something on the device that will be used.

Prints one JSON line {"torch", "device", "name"}; exits 3 when an import fails, 4 when this PyTorch build holds no code for the
card (which only a real kernel shows; another build may do), and 5 when the device fails otherwise, such as for lack of memory.
"""

import importlib
import json
import sys

NEEDED = (
    "numpy", "PIL", "msgspec", "tomlkit", "platformdirs", "rich", "typer", "safetensors", "sentencepiece",
    "tokenizers", "PySide6", "torch", "transformers", "diffusers", "accelerate", "peft",
)  # fmt: skip
IMPORT_FAILED, NO_CODE, DEVICE_FAILED = 3, 4, 5
NO_CODE_SIGNS = ("no kernel image", "not compatible with", "invalid device function", "device kernel image is invalid")


def devices() -> list[str]:
    import torch

    found = [
        name for name, module in (("cuda", torch.cuda), ("xpu", torch.xpu), ("mps", torch.backends.mps)) if module.is_available()
    ]
    return [*found, "cpu"]


def multiply(device: str) -> bool:
    """A product whose every entry is an integer that half precision holds exactly, so right means equal."""
    import torch

    # The CPU is spared half precision: old ones do it in software, and Halftone computes in float32 there.
    dtype = torch.float32 if device == "cpu" else torch.float16
    left = (torch.arange(64 * 64) % 7 - 3).reshape(64, 64)
    product = left.to(device=device, dtype=dtype) @ left.T.to(device=device, dtype=dtype)
    return bool(torch.equal(product.cpu().to(torch.int64), left @ left.T))


def main() -> int:
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except (ImportError, OSError) as error:
            print(f"{name} does not load: {error}")
            return IMPORT_FAILED
    import torch

    device = devices()[0]
    try:
        right = multiply(device)
        name = torch.cuda.get_device_name() if device == "cuda" else device
    except RuntimeError as error:
        print(f"{device} cannot compute: {str(error).splitlines()[0]}")
        return NO_CODE if any(sign in str(error) for sign in NO_CODE_SIGNS) else DEVICE_FAILED
    if not right:
        print(f"{device} computes wrongly")
        return DEVICE_FAILED
    print(json.dumps({"torch": str(torch.__version__), "device": device, "name": name}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
