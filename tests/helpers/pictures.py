"""A resolved request and the facts of its picture, as a test needs them."""

from typing import Any

from halftone.contract.facts import PictureFacts
from halftone.contract.request import Numerics, ResolvedRequest


def resolved(**changes: Any) -> ResolvedRequest:
    known: dict[str, Any] = {
        "prompt": "a red sun over green hills",
        "negative": "",
        "model": "pocket",
        "device": "cpu",
        "dtype": "float16",
        "width": 128,
        "height": 96,
        "steps": 20,
        "guidance": 4.5,
        "sampler": "DPM++ 2M Karras",
        "seed": 7,
        "batch": 1,
        "options": {},
        "numerics": Numerics(),
        "reasons": (),
    }
    return ResolvedRequest(**(known | changes))


def picture_facts(**changes: Any) -> PictureFacts:
    known: dict[str, Any] = {
        "path": "/somewhere/00001-7.png",
        "seed": 7,
        "index": 0,
        "width": 128,
        "height": 96,
        "state": "clean",
        "dtypes": {"unet": "float16", "vae": "float16"},
        "black": False,
        "finite": True,
        "dark": False,
        "room_bits": 11.5,
        "seconds": 1.5,
        "steps": 20,
    }
    return PictureFacts(**(known | changes))
