"""Fields of protocol-buffer messages, one after the other, read without the package.

Source: "Encoding", Protocol Buffers documentation, protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where the next field begins.

    Examples
    --------
    >>> varint(bytes([0b10010110, 0b1]), 0)
    (150, 2)
    """
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("a number is cut short or too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    r"""Yield (number, wire type, value) of every field: an int for numbers, bytes for everything else.

    Raises
    ------
    WireError
        When the bytes end early or contain a type that no message has.

    Examples
    --------
    >>> list(fields(b"\x08\x96\x01\x12\x02hi"))
    [(1, 0, 150), (2, 2, b'hi')]
    """
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag > 0x7F:
            tag, at = varint(data, at - 1)
        kind = tag & 7
        if kind == BYTES and at < end and data[at] < 0x80:  # most fields are short, with one byte for the length
            length = data[at]
            at += 1
        elif kind == BYTES:
            length, at = varint(data, at)
        elif kind == VARINT:
            value, at = varint(data, at)
            yield tag >> 3, kind, value
            continue
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise WireError(f"wire type {kind}")
        if at + length > end:
            raise WireError("a field is cut short")
        yield tag >> 3, kind, data[at : at + length]
        at += length


def double(value: int | bytes) -> float:
    """Return the number in a field of 8 bytes."""
    return float(struct.unpack("<d", value)[0]) if isinstance(value, bytes) and len(value) == 8 else float("nan")


def single(value: int | bytes) -> float:
    """Return the number in a field of 4 bytes."""
    return float(struct.unpack("<f", value)[0]) if isinstance(value, bytes) and len(value) == 4 else float("nan")


def signed(value: int | bytes) -> int:
    """Return a varint as the signed 64-bit number that it stands for."""
    number = value if isinstance(value, int) else 0
    return number - (1 << 64) if number >= 1 << 63 else number


def text(value: int | bytes) -> str:
    """Return the text in a field."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
