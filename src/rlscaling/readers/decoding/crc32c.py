"""CRC-32C, the checksum of TFRecord files, for many records at once.

Source: RFC 3720, section 12.1 and appendix B.4 (the polynomial and test vectors); the mask is TensorFlow's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8


@functools.cache
def _table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def crc32c(records: Sequence[bytes]) -> NDArray[np.uint32]:
    """Return the checksum of each record; those of one length are processed together.

    Examples
    --------
    >>> hex(crc32c([b"123456789"])[0])
    '0xe3069283'
    """
    table = _table()
    sums = np.zeros(len(records), dtype=np.uint32)
    by_length: dict[int, list[int]] = {}
    for i, record in enumerate(records):
        by_length.setdefault(len(record), []).append(i)
    for length, where in by_length.items():
        block = np.frombuffer(b"".join(records[i] for i in where), dtype=np.uint8).reshape(len(where), length)
        state = np.full(len(where), 0xFFFFFFFF, dtype=np.uint32)
        for column in np.ascontiguousarray(block.T):
            state = table[(state ^ column) & 0xFF] ^ (state >> np.uint32(8))
        sums[where] = ~state
    return sums


def masked(sums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return checksums as TensorFlow stores them: rotated by 15 bits, and a constant added."""
    rotated = (sums >> np.uint32(15)) | (sums << np.uint32(17))
    return (rotated + np.uint32(_MASK)).astype(np.uint32)
