"""Sentences where a LoRA makes the difference: that it does, as measured, and what can be done."""

from halftone.contract.facts import Finding, GuardEvent, LoraCause
from halftone.contract.wording import Words


def damaged_words(finding: Finding) -> tuple[Words, Words]:
    """(what happened, what can be done) of bad numbers in a LoRA's own file."""
    values = (str(finding.facts["lora"]), str(finding.facts.get("tensor", "")))
    said = Words("The LoRA {0} has NaN in tensor {1}.", values)
    return said, Words("No setting can fix that. Download it again or remove it.")


def finding_cause(finding: Finding, message: Words) -> tuple[Words, Words]:
    """A finding with LoRAs as its cause: its message, and what can be done. facts: "lora", "lora_weight", "loras", "lora_share"
    where one held, "lora_alone" false where the model overflows elsewhere without them.
    """
    facts = finding.facts
    name, several = str(facts["lora"]), int(facts.get("loras", 1)) > 1
    weight, share = float(facts.get("lora_weight", 1.0)), facts.get("lora_share")
    said = Words("{0}{1}", (message, _cause(name, weight, several=several)))
    if not facts.get("lora_alone", True):
        return said, Words("Apply the cure: the model overflows elsewhere without {0} too.", (name,))
    if share is None:
        left = "Apply the cure, or remove the LoRAs {0}." if several else "Apply the cure, or remove the LoRA {0}."
        return said, Words(left, (name,))
    if several:
        text = "Apply the cure, or lower the weights of {0}: at {1} times, the same step held."
        return said, Words(text, (name, f"{float(share):g}"))
    text = "Apply the cure, or lower the weight of {0}: at {1}, the same step held."
    return said, Words(text, (name, f"{weight * float(share):g}"))


def named(event: GuardEvent, title: Words) -> Words:
    """The title of a message about a picture, with the LoRAs that are the cause."""
    if event.lora is None or not event.lora.alone:
        return title
    name = ", ".join(event.lora.names)
    who = Words("the LoRAs {0}", (name,)) if len(event.lora.names) > 1 else Words("the LoRA {0}", (name,))
    return Words("{0} The cause: {1}.", (title, who))


def cause_words(cause: LoraCause) -> tuple[Words, Words]:
    """The LoRAs' effect on a picture, and what can be done: a sentence each, with a space before it."""
    several = len(cause.names) > 1
    said = _cause(", ".join(cause.names), cause.weight, several=several)
    return said, _advice(cause, several=several)


def _cause(name: str, weight: float, *, several: bool) -> Words:
    if several:
        return Words(" Without the LoRAs {0}, the model stays in range here.", (name,))
    return Words(" Without the LoRA {0} (weight {1}), the model stays in range here.", (name, f"{weight:g}"))


def _advice(cause: LoraCause, *, several: bool) -> Words:
    if not cause.alone:
        return Words(" The model overflows elsewhere without it too.")
    if cause.share is None:
        return Words(" Remove them.") if several else Words(" Remove it.")
    if several:
        text = " Lower their weights or remove them: at {0} times, this stays in range."
        return Words(text, (f"{cause.share:g}",))
    return Words(" Lower its weight or remove it: at {0}, this stays in range.", (f"{cause.weight * cause.share:g}",))
