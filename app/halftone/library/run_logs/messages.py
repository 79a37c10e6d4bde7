"""Messages of protocol buffers, by the few fields that are read, without generated files."""

from functools import cache
from typing import Any, Final, cast

DOUBLE: Final = 1
FLOAT: Final = 2
INT64: Final = 3
INT32: Final = 5
STRING: Final = 9
BYTES: Final = 12
_MESSAGE: Final = 11
_ONE: Final = 1
MANY: Final = 3

Field = tuple[str, int, int | str] | tuple[str, int, int | str, int]
"""(name, number, type or the message it is, MANY where it is repeated)."""
Form = tuple[tuple[str, tuple[Field, ...]], ...]
"""(message, its fields)."""


@cache
def message_type(name: str, form: Form) -> tuple[Any, type[Exception]]:
    """(the class of that message of the form, what its FromString raises for other bytes)."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"halftone/{name}.proto", syntax="proto2")
    for one, fields in form:
        described = file.message_type.add(name=one)
        for field in fields:
            made = described.field.add(name=field[0], number=field[1], label=cast("Any", field[3] if len(field) > 3 else _ONE))
            if isinstance(field[2], str):
                made.type, made.type_name = cast("Any", _MESSAGE), f".{field[2]}"
            else:
                made.type = cast("Any", field[2])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name)), message.DecodeError
