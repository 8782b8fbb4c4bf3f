"""Philox against known answers and NumPy; uniform numbers made of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from rlscaling.trainer import rng as counter


@pytest.mark.parametrize(
    ("words", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF),
            (0xFFFFFFFF, 0xFFFFFFFF),
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(words: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    """Random123's kat_vectors for philox4x32 with 10 rounds."""
    c = tuple(torch.tensor([word]) for word in words)
    actual = counter.philox((c[0], c[1], c[2], c[3]), key[1] << 32 | key[0])
    assert tuple(int(word) for word in actual) == expected


def test_philox_against_numpy() -> None:
    """numpy's Philox is the 4x64 one, so: the same recurrence in Python's integers, on random counters."""
    rng = np.random.default_rng(0)
    words = rng.integers(2**32, size=(4, 200))
    key = (int(rng.integers(2**32)), int(rng.integers(2**32)))
    c = [torch.from_numpy(row) for row in words]
    actual = torch.stack(counter.philox((c[0], c[1], c[2], c[3]), key[1] << 32 | key[0])).T
    for column, out in zip(words.T.tolist(), actual.tolist(), strict=True):
        a, b, d, e = column
        k0, k1 = key
        for _ in range(10):
            p0, p1 = a * 0xD2511F53, d * 0xCD9E8D57
            a, b, d, e = (p1 >> 32) ^ b ^ k0, p1 % 2**32, (p0 >> 32) ^ e ^ k1, p0 % 2**32
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        assert out == [a, b, d, e]


def test_uniforms_are_open_uniform_and_independent_of_the_others() -> None:
    streams, positions = torch.arange(4000), torch.full((4000,), 3)
    u = counter.uniforms(counter.key_of(7), streams, positions, 6)
    assert u.dtype == torch.float32
    assert 0 < u.min()
    assert u.max() <= 1 - 2**-24
    assert scipy.stats.kstest(u.flatten().numpy(), "uniform").pvalue > 0.01
    single = counter.uniforms(counter.key_of(7), streams[5:6], positions[5:6], 6)
    assert torch.equal(single, u[5:6])
    assert torch.equal(counter.uniforms(counter.key_of(7), streams, positions, 3), u[:, :3])
    for other in (counter.key_of(8), counter.key_of(7, counter.EVALUATION)):
        assert not torch.equal(counter.uniforms(other, streams, positions, 6), u)


def test_streams_beyond_32_bits_differ() -> None:
    streams = torch.tensor([1, 1 + 2**32])
    u = counter.uniforms(0, streams, torch.zeros(2, dtype=torch.long), 4)
    assert not torch.equal(u[0], u[1])


@pytest.mark.parametrize(
    ("stream", "position", "column"),
    [(10_475_606, 0, 3), (28_495_657, counter.SCORE_POSITION, 0), (12_020_764, counter.INTERRUPT_POSITION, 0)],
)
def test_a_word_that_rounds_to_1_gives_the_largest_uniform_number(stream: int, position: int, column: int) -> None:
    """Found by search, one word in 2**25. At u = 1 the noise is -inf, and a draw among ten is past the last."""
    streams, positions, zero = torch.tensor([stream]), torch.tensor([position]), torch.tensor([0])
    word = counter.philox((zero, positions, streams, zero), 0)[column]
    assert word >= 2**32 - 128
    assert word.float() * 2.0**-32 == 1
    u = counter.uniforms(0, streams, positions, column + 1)[0, column]
    assert u == counter.LARGEST_U
    assert int(10 * u.item()) == 9
    assert -2.9 < counter.gumbel(0, streams, positions, column + 1)[0, column] < -2.8
