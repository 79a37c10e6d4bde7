"""What the guard says to a script: sentences with exact names, and nothing that only Halftone's own trainer has."""

from typing import Final

import msgspec

from halftone.contract.training import Caught, Cause, Deed, Omen, Remedy
from halftone.health.training.training_sentences import CURES, omen_words, remedy_words, why_words

_DID: Final[dict[Deed, str]] = {
    "warned": "It was noted, and nothing was changed.",
    "skipped": "{0}he step was left out before it touched the weights.",
    "repeated": "The step was repeated and was good; what helped: {0}.",
    "restored": "The change was undone. Training continues.",
    "stopped": "Training ends{0}; the weights are those after the last good step.",
}
_RESTORED: Final[dict[Cause, str]] = {
    "gradient-outside": "The accumulated gradients were discarded. Training continues.",
    "buffer-nonfinite": "It was put back to its last good value. Training continues.",
}
_THE_SCRIPTS: Final[frozenset[Remedy]] = frozenset({"bfloat16", "normalise", "mend-file"})
"""Remedies that no guard can put in force."""
_WHOLE: Final = "the model"
"""A module without a name: the network that the guard was given."""


def told(caught: Caught) -> str:
    """One finding, in one line."""
    why = why_words(msgspec.structs.replace(caught, name=caught.name or _WHOLE, items=()))[0].text()
    exact = f" [{caught.name}]" if caught.name and caught.name not in why else ""
    did = _DID[caught.did].format(_tail(caught))
    if caught.did == "restored":
        did = _RESTORED.get(caught.cause, did)
    if caught.restored_to is not None and caught.restored_to < caught.step - 1:
        did = f"The weights are those after step {caught.restored_to} again: the steps since are lost."
    fed = f" It was fed with {', '.join(caught.items)}." if caught.items else ""
    why = why if caught.name else why[:1].upper() + why[1:]
    batch = f", batch {caught.batch}" if caught.batch else ""
    return f"step {caught.step}{batch}: {why}{exact}{fed} {did}"


def _tail(caught: Caught) -> str:
    """What belongs into the sentence of what was done."""
    match caught.did:
        case "stopped" if caught.in_a_row > 1:
            repeated = {0: "", 1: ", the last one repeated once"}
            tried = repeated.get(caught.tries, f", the last one repeated {caught.tries} times")
            return f" after {caught.in_a_row} bad steps in a row{tried}"
        case "stopped":
            return _tries(caught.tries)
        case "skipped":
            return f"No cure helped in {caught.tries} {'try' if caught.tries == 1 else 'tries'}, so t" if caught.tries else "T"
        case _:
            return CURES[caught.cure].text()


def _tries(count: int) -> str:
    """How often a step that ends a training was repeated."""
    return {0: "", 1: " after this step was repeated once"}.get(count, f" after this step was repeated {count} times")


def foreseen(omen: Omen) -> str:
    """One omen, in one line."""
    words = [one.text() for one in (omen_words(omen), remedy_words(omen)) if one is not None]
    said = " ".join(words).replace("LoRA weights", "weights").replace("the LoRA", "the model")  # a script may train anything
    known = ", ".join(f'"{remedy}"' for remedy in omen.remedies if remedy not in _THE_SCRIPTS)
    return f"{'this will' if omen.certain else 'this may'} go wrong: {said}" + (f" guard.apply: {known}." if known else "")
