"""LoRA files whose layers are more than a product of two matrices (LyCORIS and its kin): their factors, told by names.

https://github.com/KohakuBlueleaf/LyCORIS has the names; peft has the same ones.
"""

import re
from collections.abc import Iterable
from typing import Final

from halftone.contract.wording import Words, both

UNDERSTOOD: Final = both("LoRA", "LoCon", "LoHa", "LoKr", "IA3", "DoRA", Words("differences of whole weights"))
FOREIGN: Final = frozenset({"OFT", "GLoRA"})
"""Kinds that are told from others, but not used."""
_SPELLED: Final = {
    "lora_A": "lora_down",
    "lora_B": "lora_up",
    "lora_magnitude_vector": "dora_scale",
}
_PLAIN: Final = frozenset({"lora_down", "lora_up", "alpha"})
"""Factors of files that diffusers reads."""
_ORIGINAL: Final = re.compile(r"lora_unet_(?:input_blocks|middle_block|output_blocks)_")
_END: Final = re.compile(
    r"\.(?:(lora_(?:down|up|mid|A|B|magnitude_vector))(?:\.default)?(?:\.weight)?|"
    r"(hada_[wt][12](?:_[ab])?|lokr_(?:w[12](?:_[ab])?|t2)|diff|diff_b|w_norm|b_norm|on_input|alpha|dora_scale|weight))$"
)


def layers_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Path of a layer -> factor -> name of its tensor; factors as kohya and LyCORIS call them."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if match := _END.search(name):
            end = match[1] or match[2]
            found.setdefault(name[: match.start()], {})[_SPELLED.get(end, end)] = name
    return {path: factors for path, factors in found.items() if factors.keys() - {"weight"}}


def is_plain(names: Iterable[str]) -> bool:
    """Whether it is a LoRA, and nothing else, that diffusers reads; of those with the original names of a UNet only some."""
    layers = layers_of(names)
    return not any(factors.keys() - _PLAIN or _ORIGINAL.match(path) for path, factors in layers.items())
