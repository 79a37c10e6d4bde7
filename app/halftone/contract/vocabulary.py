"""Closed vocabularies. Spelled as they stand in JSON, on the command line and in settings files."""

from typing import Final, Literal

POCKET: Final = "pocket"
"""The demo model, as `--model` takes it."""

DType = Literal["float16", "bfloat16", "float32"]
Precision = Literal["auto", "float16", "bfloat16", "float32"]
WhenNeeded = Literal["when-needed", "always", "never"]
AttentionBackend = Literal["auto", "flash", "efficient", "cudnn", "math"]
NanCheck = Literal["every-step", "at-end", "off"]
VaeTiling = Literal["auto", "always", "never"]
OnBlack = Literal["recover", "quiet", "ask", "stop"]
OffloadMode = Literal["none", "model", "group", "sequential"]
Offload = Literal["auto", "none", "model", "group", "sequential"]
"""Weights on the device at once: all, those of one component, of one block, of one layer."""

DTypeState = Literal["works", "wrong", "slow", "missing"]
"""Outcome of the self-test for one dtype: right and no slower than float32, wrong somewhere, right but slow, not there."""

FindingCode = Literal[
    "weights-nonfinite",
    "weights-overflow",
    "weights-clipped",
    "activation-overflow",
    "attention-overflow",
    "accumulation-overflow",
    "underflow",
    "flat-output",
    "saturated-output",
    "inexact-output",
    "nonfinite-output",
    "tight",
    "device-fault",
    "memory-damage",
]
Verdict = Literal["healthy", "tight", "fixable", "broken"]
CureKind = Literal["none", "rescale", "setting", "upcast-region", "bfloat16", "float32-component", "float32-all"]
Depth = Literal["quick", "thorough"]
OtherProgram = Literal["comfyui", "a1111", "diffusers"]
"""Programs that a check says the settings for."""
Layout = Literal["file", "folder"]
"""A model as one file in its makers' names, or as a diffusers folder."""
Phase = Literal[
    "load", "encode", "denoise", "decode", "upscale", "save", "scan", "range", "target", "plan", "verify", "measure", "write"
]  # fmt: skip
Outcome = Literal["done", "cancelled", "failed"]
VideoFormat = Literal["mp4", "webp"]
PictureFormat = Literal["png", "jpg", "webp", "jxl"]
Resize = Literal["stretch", "crop", "fill"]
"""For a start picture of another shape: A1111's Just resize, Crop and resize, Resize and fill."""
ControlMode = Literal["balanced", "prompt", "control"]
"""What counts for more, the prompt or the ControlNet, as in A1111's extension."""
MaskedContent = Literal["original", "fill", "noise"]
"""Start of the masked part: itself, the colours around it, or coloured noise."""
ReceiptState = Literal["clean", "recovered", "not-recovered", "unwatched", "asking"]

DeviceDetail = Literal[
    "cores", "threads", "instruction-sets", "architecture", "multiprocessors", "cuda", "cudnn", "rocm", "platform", "macos"
]  # fmt: skip

DTYPE_NAMES: Final[dict[DType, str]] = {"float16": "FP16", "bfloat16": "BF16", "float32": "FP32"}
"""As people write them."""

DETAIL_NAMES: Final[dict[DeviceDetail, str]] = {
    "cores": "Cores",
    "threads": "Threads",
    "instruction-sets": "Instruction sets",
    "architecture": "Architecture",
    "multiprocessors": "Multiprocessors",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "rocm": "ROCm",
    "platform": "Platform",
    "macos": "macOS",
}

FLOAT_LIMITS: Final[dict[str, float]] = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
}
"""Largest finite value of each dtype (IEEE 754 binary16 and binary32; bfloat16 is binary32 cut to 8 significant bits)."""

TIGHT_BITS: Final = 2.0
"""Room in bits below which a layer is called tight."""
