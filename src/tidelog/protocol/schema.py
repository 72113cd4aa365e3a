"""A small declarative schema for Kafka's message encoding: a dataclass is the schema.

The annotation of a field says how it is encoded, `wire(...)` says in which versions:

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitValue:
        offset: Int64
        leader_epoch: Int32 = field(default=-1, metadata=wire(since=3))
        metadata: str

    OFFSET_COMMIT_VALUE = Schema(OffsetCommitValue, versions=(0, 4), flexible_since=4)

Annotations: `bool`, `str`, `bytes`, `UUID`, `float`, the sized integers below, another such
dataclass, `tuple[X, ...]` of any of them, and `X | None` for a nullable string, bytes or tuple, or
for a dataclass in a tagged field.

Invariant  Encoding never drops what a version cannot say: a field outside the version must hold
           its default.
Invariant  Decoding reads every byte and none beyond the buffer. Unknown tagged fields are
           skipped; anything else unexpected is `MalformedMessage`.
"""

from __future__ import annotations

import dataclasses
import struct
import types
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from tidelog.model.errors import TidelogError
from tidelog.protocol.encoding import (
    BOOL,
    FLOAT64,
    INT16,
    INT32,
    UUID_CODEC,
    Codec,
    MalformedMessage,
    array,
    byte_string,
    end_of,
    fixed,
    length_codec,
    optional,
    read_uvarint,
    string,
    write_uvarint,
)

__all__ = [
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "MalformedMessage",
    "NotInVersion",
    "Schema",
    "UInt16",
    "UnknownVersion",
    "wire",
]

T = TypeVar("T")
Buffer: TypeAlias = bytes | bytearray | memoryview

Int8: TypeAlias = Annotated[int, struct.Struct(">b")]
Int16: TypeAlias = Annotated[int, struct.Struct(">h")]
UInt16: TypeAlias = Annotated[int, struct.Struct(">H")]
Int32: TypeAlias = Annotated[int, struct.Struct(">i")]
Int64: TypeAlias = Annotated[int, struct.Struct(">q")]

_NEVER: Final = 1 << 16


class UnknownVersion(TidelogError):
    """The schema has no such version."""


class NotInVersion(TidelogError):
    """A field holds a value that the asked version cannot carry."""


class _Wire(NamedTuple):
    since: int
    until: int
    tag: int | None
    nullable_since: int


_ALWAYS: Final = _Wire(0, _NEVER, None, 0)


def wire(
    *, since: int = 0, until: int = _NEVER, tag: int | None = None, nullable_since: int = 0
) -> Mapping[str, _Wire]:
    """Metadata of a field: the versions that have it, its tag, and from when it may be null."""
    return {"wire": _Wire(since, until, tag, nullable_since)}


class Schema(Generic[T]):
    """Encodes and decodes one message type in each of its versions."""

    __slots__ = ("_codecs", "_flexible_since", "_message", "versions")

    def __init__(self, message: type[T], *, versions: tuple[int, int], flexible_since: int) -> None:
        self._message = message
        self.versions = versions
        self._flexible_since = flexible_since
        self._codecs: dict[int, Codec] = {}

    def encode(self, value: T, version: int) -> bytes:
        """The message in `version`; `NotInVersion` when it holds what that cannot carry."""
        out = bytearray()
        try:
            self._codec(version).write(out, value)
        except struct.error as error:
            raise MalformedMessage(f"{value} cannot be written: {error}") from error
        return bytes(out)

    def decode(self, buffer: Buffer, version: int) -> T:
        """The message that fills `buffer` exactly; `MalformedMessage` for anything else."""
        view = memoryview(buffer)
        name = self._message.__name__
        try:
            value, end = self._codec(version).read(view, 0)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedMessage(f"{name} version {version}: {error}") from error
        if end != len(view):
            raise MalformedMessage(f"{name} version {version}: {len(view) - end} bytes too many")
        message: T = value
        return message

    def _codec(self, version: int) -> Codec:
        codec = self._codecs.get(version)
        if codec is None:
            if not self.versions[0] <= version <= self.versions[1]:
                raise UnknownVersion(f"{self._message.__name__} has no version {version}")
            codec = _struct_codec(self._message, version, version >= self._flexible_since)
            self._codecs[version] = codec
        return codec


class _Field(NamedTuple):
    name: str
    codec: Codec
    default: Any


def _struct_codec(message: type[Any], version: int, flexible: bool) -> Codec:
    """The codec of a dataclass in one version: its plain fields, then the tagged ones."""
    hints = get_type_hints(message, include_extras=True)
    plain: list[_Field] = []
    tagged: dict[int, _Field] = {}
    absent: list[tuple[str, Any]] = []
    for declared in dataclasses.fields(message):
        rules: _Wire = declared.metadata.get("wire", _ALWAYS)
        if not rules.since <= version <= rules.until:
            absent.append((declared.name, declared.default))
            continue
        codec = _codec_of(hints[declared.name], version, flexible, rules.nullable_since)
        entry = _Field(declared.name, codec, declared.default)
        if rules.tag is None:
            plain.append(entry)
        elif flexible:
            tagged[rules.tag] = entry
        else:
            absent.append((declared.name, declared.default))

    def write(out: bytearray, value: Any) -> None:
        for name, default in absent:
            if getattr(value, name) != default:
                raise NotInVersion(f"{message.__name__} version {version} cannot carry {name}")
        for name, codec, _ in plain:
            codec.write(out, getattr(value, name))
        if flexible:
            _write_tagged(out, value, tags)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, codec, _ in plain:
            values[name], position = codec.read(buffer, position)
        if flexible:
            position = _read_tagged(buffer, position, tagged, values)
        return message(**values), position

    tags = sorted(tagged.items())
    return Codec(write, read)


def _write_tagged(out: bytearray, value: Any, tags: list[tuple[int, _Field]]) -> None:
    """Tagged fields that differ from their defaults, in order of their tags."""
    present = [(tag, field) for tag, field in tags if getattr(value, field.name) != field.default]
    write_uvarint(out, len(present))
    for tag, field in present:
        content = bytearray()
        field.codec.write(content, getattr(value, field.name))
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content


def _read_tagged(
    buffer: memoryview, position: int, tagged: Mapping[int, _Field], values: dict[str, Any]
) -> int:
    count, position = read_uvarint(buffer, position)
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        if tag <= previous:
            raise MalformedMessage(f"tag {tag} stands behind tag {previous}")
        previous = tag
        length, position = read_uvarint(buffer, position)
        end = end_of(buffer, position, length)
        field = tagged.get(tag)
        if field is not None:
            values[field.name], read_to = field.codec.read(buffer, position)
            if read_to != end:
                raise MalformedMessage(f"tagged field {field.name} is not {length} bytes long")
        position = end
    return position


def _codec_of(annotation: Any, version: int, flexible: bool, nullable_since: int) -> Codec:
    nullable = False
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not types.NoneType)
        nullable = version >= nullable_since
    if get_origin(annotation) is tuple:
        element = _codec_of(get_args(annotation)[0], version, flexible, 0)
        return array(element, *length_codec(INT32, flexible, nullable))
    if annotation is str:
        return string(*length_codec(INT16, flexible, nullable))
    if annotation is bytes:
        return byte_string(*length_codec(INT32, flexible, nullable))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        codec = _struct_codec(annotation, version, flexible)
        return optional(codec) if nullable else codec
    if nullable:
        raise TypeError(f"{annotation} cannot be null")
    if annotation is UUID:
        return UUID_CODEC
    if annotation is bool:
        return fixed(BOOL)
    if annotation is float:
        return fixed(FLOAT64)
    if get_origin(annotation) is Annotated:
        return fixed(get_args(annotation)[1])
    raise TypeError(f"{annotation} has no encoding")
