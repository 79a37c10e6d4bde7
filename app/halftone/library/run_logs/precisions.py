"""Names of the precisions that trainers compute in, in small letters."""

import re
from typing import Final

HALF: Final = re.compile(r"^(?:fp16|16|16-mixed|16-true|16bit|float_?16|half|torch\.float16|pure_fp16)$")
BRAIN: Final = re.compile(r"^(?:bf16|bf16-mixed|bf16-true|bfloat_?16|torch\.bfloat16)$")
WIDE: Final = re.compile(r"^(?:no|fp32|32|32-true|t?float_?32|torch\.float32)$")
_AMBIGUOUS: Final = frozenset(("16", "32", "no"))


def names_type(value: str) -> bool:
    """Whether a value can mean nothing but a type, even where precision is also a measure, as in 0.93 or 16."""
    name = value.lower()
    return name not in _AMBIGUOUS and any(pattern.match(name) for pattern in (HALF, BRAIN, WIDE))
