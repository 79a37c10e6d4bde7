"""Tokenizers whose words are no part of a model in one file: read from where Halftone keeps them."""

from typing import Any, Final

from halftone.library.families.single_files import Config
from halftone.library.files.small_files import SmallFile

_MARKS: Final = (
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "extra_ids",
    "model_max_length",
    "chat_template",
    "padding_side",
)


def small_tokenizer(kind: str, config: Config, file: SmallFile) -> Any:
    """kind: its class in transformers. Raises OSError and ValueError where the file is not there, or none."""
    import transformers

    marks = {name: config[name] for name in _MARKS if name in config}
    return getattr(transformers, kind).from_pretrained(file.place.parent, local_files_only=True, **marks)
