"""What is said where the memory of a device ends."""

from halftone.contract.facts import Shortage
from halftone.contract.wording import Words
from halftone.health.explain import Note
from halftone.settings.disk import size_text


def shortage_note(shortage: Shortage) -> Note:
    """The message: what happened, what Halftone did, what can be done."""
    size = (shortage.width, shortage.height)
    match shortage.then:
        case "tiles":
            title = Words("Out of memory at {0} × {1}. Halftone decodes in tiles.", size)
            return Note(level="warn", title=title, text=Words("Nothing else changes."))
        case "offload":
            title = Words("Out of memory at {0} × {1}. Halftone offloads parts of the model.", size)
            return Note(level="warn", title=title, text=Words("Slower, but the same picture."))
        case _:
            return Note(level="danger", title=Words("This size does not fit in memory."), text=_text(shortage))


def _text(shortage: Shortage) -> Words:
    where = {
        "denoise": Words("at step {0}", (shortage.step or 1,)),
        "decode": Words("during decoding"),
    }.get(shortage.phase, Words("before the first step"))
    ended = Words("{0} × {1} ran out of memory {2}.", (shortage.width, shortage.height, where))
    if shortage.needed is not None and shortage.free is not None:
        sizes = size_text(shortage.needed), size_text(shortage.free)
        ended = Words("{0} It needs at least about {1}; {2} were free.", (ended, *sizes))
    if shortage.fits is not None:
        return Words("{0} Largest that fits: {1} × {2}. Prompt and seed are kept.", (ended, *shortage.fits))
    return Words("{0} Use a smaller size, FP16 or BF16. Prompt and seed are kept.", (ended,))
