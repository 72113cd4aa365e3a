"""The subject of a certificate as text, as RFC 2253 writes it and Java prints it.

Java is the judge: rules for principals and access rules were written for what it prints. The last
part of the name comes first; an attribute that has no short name in RFC 2253 stands as its object
identifier with the encoded value in hexadecimal.

Invariant  Bytes that are not a certificate raise `ValueError`, whatever they are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_LONG_TAG: Final = 0x1F
_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Strings of ASN.1: UTF8, Printable, T61, IA5, Universal, BMP."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')


class _Element(NamedTuple):
    tag: int
    content: bytes
    encoded: bytes


def certificate_subject(certificate: bytes) -> str:
    """The subject of a certificate in DER."""
    try:
        return _subject(certificate)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("not a certificate") from error


def _subject(certificate: bytes) -> str:
    outer = _only(_elements(certificate), _SEQUENCE)
    signed = _elements(_expect(_elements(outer.content)[0], _SEQUENCE).content)
    fields = signed[1:] if signed[0].tag == _VERSION else signed
    # serial number, signature algorithm, issuer, validity, subject
    name = _expect(fields[4], _SEQUENCE)
    relative = [_expect(each, _SET) for each in _elements(name.content)]
    return ",".join(
        "+".join(_attribute(pair) for pair in _elements(each.content))
        for each in reversed(relative)
    )


def _attribute(pair: _Element) -> str:
    kind, value = _elements(_expect(pair, _SEQUENCE).content)[:2]
    identifier = _object_identifier(_expect(kind, _OBJECT_IDENTIFIER).content)
    short = _SHORT_NAMES.get(identifier)
    encoding = _ENCODINGS.get(value.tag)
    if short is None or encoding is None:
        return f"{short or identifier}=#{value.encoded.hex()}"
    return f"{short}={_escaped(value.content.decode(encoding))}"


def _escaped(text: str) -> str:
    inner = [f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text]
    for position in _outer_spaces(text):
        inner[position] = "\\ "
    return "".join(inner)


def _outer_spaces(text: str) -> set[int]:
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - len(text.rstrip(" "))
    return {*range(leading), *range(len(text) - trailing, len(text))}


def _object_identifier(content: bytes) -> str:
    first = content[0]
    numbers = [min(first // 40, 2), first - 40 * min(first // 40, 2)]
    number = 0
    for byte in content[1:]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    return ".".join(map(str, numbers))


def _expect(element: _Element, tag: int) -> _Element:
    if element.tag != tag:
        raise ValueError("not a certificate")
    return element


def _only(elements: list[_Element], tag: int) -> _Element:
    if len(elements) != 1:
        raise ValueError("not a certificate")
    return _expect(elements[0], tag)


def _elements(encoded: bytes) -> list[_Element]:
    found = []
    position = 0
    while position < len(encoded):
        start = position
        tag = encoded[position]
        length = encoded[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(encoded[position : position + size], "big")
            position += size
        if tag & _LONG_TAG == _LONG_TAG or position + length > len(encoded):
            raise ValueError("not a certificate")
        found.append(
            _Element(tag, encoded[position : position + length], encoded[start : position + length])
        )
        position += length
    return found
