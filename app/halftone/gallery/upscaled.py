"""A picture that was made larger on the list of pictures: it is what its source was, so that it can be made again as that was."""

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.gallery.history import History


def made_as(source: PictureFacts, larger: PictureFacts) -> PictureFacts:
    """With the seeds and words of the picture that it was."""
    kept = {name: getattr(source, name) for name in ("seed", "variation_seed", "prompt", "negative", "loras")}
    return msgspec.structs.replace(larger, **kept)


def list_larger(history: History, larger: PictureFacts, thumbnail: bytes) -> bool:
    """Put it on the list; False where its source is not there, for nobody knows how that was made. Raises sqlite3.Error."""
    source = None if larger.upscaled is None else history.find(larger.upscaled.source)
    if source is None:
        return False
    history.add(made_as(source.facts, larger), source.request, thumbnail)
    return True
