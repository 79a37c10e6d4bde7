"""What is known of model files beside their entries. No database is needed to name it."""

import msgspec

from halftone.contract.errors import ErrorFacts


class Hashes(msgspec.Struct, frozen=True, gc=False):
    """sha256: of the whole file; weights: of a safetensors file without its header, by which LoRAs are known."""

    sha256: str
    weights: str = ""


class Weights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """tensors: of floating-point numbers; nonfinite: how many of these hold NaN or infinity; clipped: how many hold numbers at
    the limit of float16 and none above it, as a wrong cast leaves them; named: the first of both; peak: the largest absolute
    value. error: why the file cannot be read to its end.
    """

    tensors: int = 0
    nonfinite: int = 0
    clipped: int = 0
    peak: float = 0.0
    named: tuple[str, ...] = ()
    error: ErrorFacts | None = None

    @property
    def is_sound(self) -> bool:
        return not self.nonfinite and not self.clipped and self.error is None


class Mark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the user keeps about a file. used: when a picture was last made with it, in seconds since 1970; 0 for never."""

    favourite: bool = False
    note: str = ""
    used: float = 0.0


class MarkChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What changes in a mark. None: it stays as it is."""

    favourite: bool | None = None
    note: str | None = None
    used: float | None = None

    def made_in(self, mark: Mark) -> Mark:
        """The mark after the change."""
        changes = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(mark, **changes)


class Install(msgspec.Struct, frozen=True):
    """One program. root: its folder; folders: those that hold models."""

    program: str
    root: str
    folders: tuple[str, ...]
