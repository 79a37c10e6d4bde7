"""The sentinel's next step after a bad picture: pure decisions."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from halftone.contract.vocabulary import CureKind, OnBlack

Where = Literal["encode", "step", "decode"]
ActionKind = Literal["cure", "stop", "ask"]


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. kind: "cure": try the cures in order and repeat the failed part; "stop": give this picture up, keep its
    latents, continue the batch; "ask": keep the latents and ask. word and why: as in a GuardEvent. reason: a sentence for the
    log.
    """

    kind: ActionKind
    word: str
    reason: str
    why: str = ""


_WORDS: Final[dict[Where, str]] = {"encode": "encoded-again", "step": "went-back-one-step", "decode": "decoded-again"}


def next_action(policy: OnBlack, where: Where, available: Sequence[CureKind], *, bad_in_float32: bool = False) -> Action:
    """Decide after a bad number (or a flat picture) at `where`. available: kinds of all candidate plans, cheapest first.
    bad_in_float32: the same inputs give bad numbers in float32 too, so no cure helps.
    """
    if policy == "stop":
        return _stop("setting", "The setting says to stop at a black picture.")
    if bad_in_float32:
        return _stop("float32", "The numbers are bad in FP32 too.")
    cure = next((kind for kind in available if kind != "none"), None)
    if cure is None:
        return _stop("no-cure", "There is no cure to try.")
    if policy == "ask":
        return Action(kind="ask", word="asked", reason="The setting says to ask first.")
    return Action(kind="cure", word=_WORDS[where], reason=f"The cheapest cure: {cure}.")


def _stop(why: str, reason: str) -> Action:
    return Action(kind="stop", word="stopped", reason=reason, why=why)
