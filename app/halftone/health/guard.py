"""What the sentinel does next when a picture went bad: pure decisions over what was tried."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from halftone.contract.words import CureKind, OnBlack, ReceiptState

Where = Literal["encode", "step", "decode"]
ActionKind = Literal["cure", "stop", "ask"]

MAX_CURES: Final = 8
"""Attempts at one place. There are never that many plans; a caller that keeps inventing new ones is stopped."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What to do.

    kind: "cure": apply plan number `index` of those available (of kind `cure`) and repeat where it failed; "stop": give this
    picture up, keep its latents, go on with the batch; "ask": keep the latents and ask. word: the action as a GuardEvent
    spells it. quiet: only the receipt tells. reason: a sentence for the log and the receipt.
    """

    kind: ActionKind
    word: str
    reason: str
    cure: CureKind | None = None
    index: int | None = None
    quiet: bool = False


_WORDS: Final[dict[Where, str]] = {"encode": "encoded-again", "step": "went-back-one-step", "decode": "decoded-again"}


def next_action(
    policy: OnBlack,
    where: Where,
    tried: Sequence[CureKind],
    available: Sequence[CureKind],
    *,
    can_go_back: bool = True,
    bad_in_float32: bool = False,
    approved: bool = False,
) -> Action:
    """Decide after a bad number (or a flat picture) at `where`.

    tried: kinds of the plans that failed here already, in order; available: kinds of all candidate plans, cheapest first (a
    kind may stand there more than once: then that many attempts). can_go_back: sound latents (or inputs) are still there.
    bad_in_float32: the same inputs give bad numbers in float32 too, so no cure helps. approved: the user answered "recover".
    Never returns a plan that failed; ends after as many calls as there are plans.
    """
    if policy == "stop":
        return _stop("The setting says to stop at a black picture.")
    if bad_in_float32:
        return _stop("The numbers are bad in FP32 too.")
    if not can_go_back:
        return _stop("There is no sound state to go back to.")
    index = next_plan(tried, available)
    if index is None or len(tried) >= MAX_CURES:
        return _stop("Every cure was tried." if tried else "There is no cure to try.")
    if policy == "ask" and not approved and not tried:
        return Action(kind="ask", word="asked", reason="The setting says to ask first.", cure=available[index], index=index)
    return Action(
        kind="cure",
        word=_WORDS[where],
        reason=f"{'The next' if tried else 'The cheapest'} cure: {available[index]}.",
        cure=available[index],
        index=index,
        quiet=policy == "quiet",
    )


def next_plan(tried: Sequence[CureKind], available: Sequence[CureKind]) -> int | None:
    """Index of the first plan that did not fail yet. Plans of one kind are tried in their order."""
    failed = Counter(tried)
    for index, kind in enumerate(available):
        if kind == "none":
            continue
        if failed[kind] == 0:
            return index
        failed[kind] -= 1
    return None


def receipt_state(*, watched: bool, recovered: bool, asking: bool, sound: bool) -> ReceiptState:
    """The receipt of a finished picture. watched: the NaN check was on; sound: the written picture is finite and not flat."""
    if asking:
        return "asking"
    if not sound:
        return "not-recovered"
    if recovered:
        return "recovered"
    return "clean" if watched else "unwatched"


def _stop(reason: str) -> Action:
    return Action(kind="stop", word="stopped", reason=reason)
