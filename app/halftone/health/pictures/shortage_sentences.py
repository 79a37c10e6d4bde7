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
            title = Words("Not enough memory at {0} × {1}. Halftone decodes in tiles instead.", size)
            return Note(level="warn", title=title, text=Words("Nothing else changes."))
        case "offload":
            title = Words("Not enough memory at {0} × {1}. Parts of the model wait outside the device now.", size)
            return Note(level="warn", title=title, text=Words("The picture stays the same; it takes longer."))
        case _:
            return Note(level="danger", title=Words("This size does not fit on this device."), text=_text(shortage))


def _text(shortage: Shortage) -> Words:
    where = {
        "denoise": Words("at step {0}", (shortage.step or 1,)),
        "decode": Words("while the picture was decoded"),
    }.get(shortage.phase, Words("before the first step"))
    ended = Words("At {0} × {1} its memory ended {2}.", (shortage.width, shortage.height, where))
    if shortage.needed is not None and shortage.free is not None:
        sizes = size_text(shortage.needed), size_text(shortage.free)
        ended = Words("{0} In the way that takes the least it needs about {1}; {2} were free for it.", (ended, *sizes))
    if shortage.fits is not None:
        return Words("{0} Largest that fits: {1} × {2}. Your prompt and seed are kept.", (ended, *shortage.fits))
    return Words("{0} A smaller size, FP16 or BF16 needs less. Your prompt and seed are kept.", (ended,))
