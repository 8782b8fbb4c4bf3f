"""The checksum against the vectors of its RFC."""

from __future__ import annotations

from rlscaling.readers.decoding.crc32c import crc32c


def test_crc32c_against_the_rfc():
    """RFC 3720, appendix B.4."""
    vectors = [bytes(32), b"\xff" * 32, bytes(range(32)), bytes(range(31, -1, -1)), b""]
    assert [int(value) for value in crc32c(vectors)] == [0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0x113FDB5C, 0]
