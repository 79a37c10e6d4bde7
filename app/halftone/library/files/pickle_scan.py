"""Looks through a file of torch.save without unpickling it: its form, and every function and class that it asks for."""

import _compat_pickle
import io
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

MOST_PICKLE: Final = 256 * 2**20
"""Bytes of the pickle in a zip, which holds names and shapes alone; that of a large model has 1 MB."""
MOST_MEMBERS: Final = 200_000
_LEGACY_PICKLES: Final = 5
"""Magic number, protocol, system, content and keys; the bytes of the tensors follow."""

_REBUILD: Final = "_rebuild_tensor|_rebuild_tensor_v2|_rebuild_tensor_v3|_rebuild_parameter|_rebuild_parameter_with_state"
_TENSORS: Final = re.compile(
    rf"torch\._utils\.({_REBUILD})|torch\._tensor\._rebuild_from_type_v2|torch\.nn\.parameter\.Parameter"
    r"|torch\.(storage\.)?\w+Storage|torch\.(b?float|u?int|bool|complex|qu?int|half|double|long|short)\w*"
    r"|torch\.(Size|Tensor|device|serialization\._get_layout)|collections\.(OrderedDict|Counter)"
    r"|_codecs\.encode|builtins\.(set|bytearray|complex)"
)
"""What torch itself reads with weights_only: tensors, their types and plain containers."""
_OTHER_TENSORS: Final = re.compile(r"torch\._utils\._rebuild_(qtensor|sparse\w*|nested\w*|wrapper\w*|meta\w*|device\w*)")
_INERT: Final = re.compile(
    r"builtins\.(int|float|str|bool|list|dict|tuple|bytes|object|frozenset|slice|range)|copyreg\._reconstructor"
    r"|pathlib\.(Pure)?(Posix|Windows)?Path|pathlib\._local\.(Pure)?(Posix|Windows)?Path|argparse\.Namespace"
    r"|collections\.(defaultdict|deque)|datetime\.\w+|uuid\.UUID|decimal\.Decimal|typing\.\w+"
    r"|numpy\.(_?core\.multiarray\.scalar|dtype|u?int\d+|float\d+|bool_?)"
    r"|torch\.(nn\.modules|optim)\.\w+(\.\w+)*"
    r"|(pytorch_lightning|lightning|lightning_fabric|lightning_utilities|omegaconf|ldm|sgm|cldm|transformers|diffusers"
    r"|basicsr|easydict|addict)\.\w+(\.\w+)*"
)
"""Classes of trainers and plain values beside the weights. An empty object stands in for each, so none of them runs."""


class ScanError(Exception):
    """why: damaged, bomb (it unpacks to far more than its size), script (TorchScript), tar (torch before 0.2), no-pickle (a zip
    of something else).
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True)
class Scan:
    """names: what the pickle asks for, in order. places: where parts of the file begin and how long they are, in bytes, if the
    tensors lie in it as they are; else empty.
    """

    names: tuple[str, ...]
    places: Mapping[int, int]

    @property
    def forbidden(self) -> str:
        """The first function or class that Halftone does not know as harmless; "" for none."""
        known = (_TENSORS, _OTHER_TENSORS, _INERT)
        return next((name for name in self.names if not any(one.fullmatch(name) for one in known)), "")

    @property
    def inert(self) -> tuple[str, ...]:
        """Those that an empty object stands in for."""
        return tuple(name for name in self.names if _INERT.fullmatch(name) and not _TENSORS.fullmatch(name))

    @property
    def unusual(self) -> str:
        """The first kind of tensor that safetensors cannot hold; "" for none."""
        return next((name for name in self.names if _OTHER_TENSORS.fullmatch(name)), "")


def scan(file: BinaryIO, size: int) -> Scan:
    """Read what the file asks for. Nothing of it is built or run. Raises ScanError, OSError."""
    file.seek(0)
    first = file.read(512)
    if first.startswith(b"PK"):
        return _zip(file, size)
    if first[257:262] == b"ustar":
        raise ScanError("tar")
    file.seek(0)
    asked = Asked()
    for number in range(_LEGACY_PICKLES):
        try:
            asked.read(file)
        except ScanError:
            if number == 0 and not asked.names:
                raise
            break  # a file with a single pickle is none of torch.save, but is named by what it asks for
    return Scan(tuple(asked.names), {})


def _zip(file: BinaryIO, size: int) -> Scan:
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise ScanError("bomb")
            if sum(member.file_size for member in members) > largest_output(size):
                raise ScanError("bomb")
            folder = members[0].filename.partition("/")[0] if members else ""
            inside = {member.filename.removeprefix(f"{folder}/"): member for member in members}
            if "constants.pkl" in inside:
                raise ScanError("script")
            pickle = inside.get("data.pkl")
            if pickle is None:
                raise ScanError("no-pickle")
            if pickle.file_size > MOST_PICKLE:
                raise ScanError("bomb")
            order = archive.read(inside["byteorder"])[:8] if "byteorder" in inside else b"little"
            asked = Asked()
            asked.read(io.BytesIO(archive.read(pickle)))
            plain = order == b"little" and all(member.compress_type == zipfile.ZIP_STORED for member in members)
            plain = plain and (".format_version" not in inside or _in_order(inside, asked))
            return Scan(tuple(asked.names), dict(_place(file, member) for member in members) if plain else {})
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error, struct.error) as error:
        raise ScanError("damaged") from error


def _in_order(inside: Mapping[str, zipfile.ZipInfo], asked: "Asked") -> bool:
    """Whether the tensors lie as torch writes them. Since this form torch counts their places instead of looking them up."""
    data = [(member.header_offset, name.removeprefix("data/")) for name, member in inside.items() if name.startswith("data/")]
    return [key for _place, key in sorted(data)] == list(asked.storages)


def _place(file: BinaryIO, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Where its bytes begin, after a header of 30 bytes with a name and a variable rest; and how many they are."""
    file.seek(member.header_offset + 26)
    name, rest = struct.unpack("<HH", file.read(4))
    return member.header_offset + 30 + name + rest, member.file_size


def largest_output(size: int) -> int:
    """Bytes that the tensors of a file may have. Tied ones are written apart, so they may be more than the file's."""
    return 4 * size + 16 * 2**20


class Asked:
    """What pickles ask for, in order. names: functions and classes, as torch calls them; storages: the keys of tensors' bytes."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.storages: dict[str, None] = {}

    def read(self, file: BinaryIO) -> None:
        """Add those of the next pickle. Raises ScanError at its first damage; what came before is kept."""
        last: list[str] = []
        memo: dict[object, str] = {}
        try:
            for opcode, argument, _place in pickletools.genops(file):
                match opcode.name:
                    case "GLOBAL" | "INST":
                        self.names[_named(*str(argument).split(" ", 1))] = None
                    case "STACK_GLOBAL":
                        self.names[_named(*(["?", "?", *last][-2:]))] = None
                    case "EXT1" | "EXT2" | "EXT4":
                        self.names[f"copyreg.extension {argument}"] = None
                    case "BINPERSID":
                        self.storages[(["?", "?", *last])[-2]] = None  # the key, then the device
                    case "MEMOIZE":
                        memo[len(memo)] = last[-1] if last else ""
                    case "PUT" | "BINPUT" | "LONG_BINPUT":
                        memo[argument] = last[-1] if last else ""
                    case "GET" | "BINGET" | "LONG_BINGET":
                        last.append(memo.get(argument, "?"))
                    case _ if isinstance(argument, str):
                        last.append(argument)
                    case _:
                        pass
                del last[:-2]
        except (ValueError, IndexError, OverflowError, EOFError, MemoryError) as error:
            raise ScanError("damaged") from error


def _named(module: str, name: str = "?") -> str:
    """The name of today for what Python 2 called otherwise."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        module, name = _compat_pickle.NAME_MAPPING[module, name]
    else:
        module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    return f"{'os' if module in ('posix', 'nt') else module}.{name}"
