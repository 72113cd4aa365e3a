"""What all generated messages are: values with named fields, and a table of how each is encoded.

A class stands for all versions of a message. Its constructor takes every field by name and knows
every default, so that who builds a message names only what differs; a field that some version
lacks has its default when that version is read.

Invariant  A message is a value: nobody assigns to its fields once it is built, which the type
           checker sees to (`Final`), and messages with equal fields are equal.
Invariant  `FIELDS` stands in the order of the encoding and names each of the `__slots__` once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

NEWEST: Final = (1 << 15) - 1
"""Above every version there will be."""


class Field(NamedTuple):
    """How one field is encoded, and in which versions it is there and may be null."""

    name: str
    kind: Kind
    """A name of the protocol's primitive types, or the class of a struct."""
    is_array: bool = False
    since: int = 0
    until: int = NEWEST
    nullable_since: int = NEWEST + 1
    nullable_until: int = NEWEST
    tag: int | None = None
    ignorable: bool = False
    """Whether a version that lacks the field may be written although it has a value."""

    def nullable_in(self, version: int) -> bool:
        """Whether a version may say null instead of a value."""
        return self.nullable_since <= version <= self.nullable_until


class Struct:
    """A part of a message."""

    __slots__ = ()

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, each[0]) == getattr(other, each[0]) for each in self.FIELDS)

    def __hash__(self) -> int:
        return hash(tuple([getattr(self, each[0]) for each in self.FIELDS]))

    def __repr__(self) -> str:
        fields = ", ".join(f"{each[0]}={getattr(self, each[0])!r}" for each in self.FIELDS)
        return f"{type(self).__name__}({fields})"


Kind: TypeAlias = str | type[Struct]


class Message(Struct):
    """A whole message, in the versions `VERSIONS[0]` to `VERSIONS[1]`."""

    __slots__ = ()

    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_SINCE: ClassVar[int] = NEWEST + 1
    """The first version with lengths as varints, and with tagged fields."""


class ResponseMessage(Message):
    """What a node answers."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1


ResponseT = TypeVar("ResponseT", bound=ResponseMessage)
ResponseT_co = TypeVar("ResponseT_co", bound=ResponseMessage, covariant=True)


class RequestMessage(Message, Generic[ResponseT_co]):
    """What a node is asked; the type knows its answer's."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    RESPONSE: ClassVar[type[ResponseMessage]] = ResponseMessage


class RecordMessage(Message):
    """What stands in a log, or in bytes that others carry; the key tells kinds of one log apart."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1


StructT = TypeVar("StructT", bound=Struct)


def replace(struct: StructT, **changes: Any) -> StructT:
    """The same with other values in some fields."""
    values = {each[0]: getattr(struct, each[0]) for each in struct.FIELDS}
    values.update(changes)
    return type(struct)(**values)


class FieldsOfVersion(NamedTuple):
    """The fields that a version of a struct has in their order, those that it has as tags, and
    those that it lacks."""

    plain: list[Field]
    tagged: list[Field]
    absent: list[Field]


def fields_of_version(struct: type[Struct], version: int, flexible: bool) -> FieldsOfVersion:
    """Sort the fields of a struct by how a version treats them."""
    plain: list[Field] = []
    tagged: list[Field] = []
    absent: list[Field] = []
    for field in struct.FIELDS:
        if not field.since <= version <= field.until:
            absent.append(field)
        elif field.tag is None:
            plain.append(field)
        else:
            (tagged if flexible else absent).append(field)
    return FieldsOfVersion(plain, tagged, absent)


LAYOUTS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
}
"""The primitive types of a fixed size that are Python's own, as `struct` names them."""


def runs(fields: Sequence[Field], layouts: Mapping[str, str]) -> Iterator[list[Field]]:
    """The fields one by one, but numbers that stand side by side together."""
    run: list[Field] = []
    for field in fields:
        is_number = not field.is_array and field.kind in layouts
        if run and not is_number:
            yield run
            run = []
        if is_number:
            run.append(field)
        else:
            yield [field]
    if run:
        yield run
