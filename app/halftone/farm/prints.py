"""By what a model is recognised on another machine: the hashes of its files."""

import msgspec


class FilePrint(msgspec.Struct, frozen=True, kw_only=True):
    """name: inside the model's folder, with / between folders; "" of a model that is a file. digest: SHA-256."""

    name: str
    size: int
    digest: str


class ModelPrint(msgspec.Struct, frozen=True, kw_only=True):
    """path: as the head's requests name it; name: its last part, for sentences."""

    path: str
    name: str
    files: tuple[FilePrint, ...]
