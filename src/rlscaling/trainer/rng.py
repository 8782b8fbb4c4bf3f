"""Counter-based random numbers: they depend on a counter and a key, and on nothing else.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): the noise of a token is a
function of the seed, the completion's stream and the token's position, so that a completion does not depend on which
others are sampled beside it, and a resumed run needs no generator state.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85

LARGEST_U = 1 - 2.0**-24
"""Largest uniform number. Words from 2**32 - 128 up round to 1 in FP32, and at u = 1 the noise ``-log(-log1p(-u))`` is
-inf, so that a lone token would lose to impossible ones, and ``int(10 * u)`` is 10, past the last of ten."""

SCORE_POSITION = 0xFFFFFFFF
INTERRUPT_POSITION = 0xFFFFFFFE
"""Positions no token has: what a completion draws besides its tokens."""

TRAINING, EVALUATION, ORDER = 0, 1, 2
"""Purposes: the upper half of the key, so that uses of one seed never share numbers."""


def key_of(seed: int, purpose: int = TRAINING) -> int:
    """Return the 64-bit key of a seed (32 bits) and a purpose."""
    return (purpose & _MASK) << 32 | (seed & _MASK)


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four output words of Philox4x32-10.

    Parameters
    ----------
    counter
        Four int64 tensors that broadcast together, each word in [0, 2**32).
    key
        64 bits.

    Returns
    -------
    tuple of Tensor
        Four int64 tensors, each word in [0, 2**32).
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key & _MASK, key >> 32 & _MASK
    for _ in range(10):
        # int64 products wrap, which keeps all 64 bits; the shift drags the sign along, and the mask drops it
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c2 = (p1 >> 32).bitwise_and_(_MASK) ^ c1 ^ k0, (p0 >> 32).bitwise_and_(_MASK) ^ c3 ^ k1
        c1, c3 = p1.bitwise_and_(_MASK), p0.bitwise_and_(_MASK)
        k0, k1 = k0 + _W0 & _MASK, k1 + _W1 & _MASK
    return c0, c1, c2, c3


def uniforms(key: int, streams: Tensor, positions: Tensor, width: int) -> Tensor:
    """Return uniform numbers in (0, 1), a row for each stream and position.

    ``u = min((r + 0.5) * 2**-32, 1 - 2**-24)`` in FP32, where ``r`` is word ``j % 4`` of the counter
    ``(j // 4, position, stream low, stream high)`` for column ``j``.

    Parameters
    ----------
    key
        From ``key_of``.
    streams, positions
        int64, shape (n,).
    width
        Columns.

    Returns
    -------
    Tensor
        float32, shape (n, width).
    """
    blocks = torch.arange(-(-width // 4), device=streams.device)
    s, p = streams[:, None], positions[:, None].bitwise_and(_MASK)
    words = philox((blocks[None], p, s & _MASK, s >> 32 & _MASK), key)
    r = torch.stack(words, dim=-1).flatten(1)[:, :width]
    return r.to(torch.float32).add_(0.5).mul_(2.0**-32).clamp_(max=LARGEST_U)


def gumbel(key: int, streams: Tensor, positions: Tensor, width: int) -> Tensor:
    """Return standard Gumbel noise ``-log(-log1p(-u))``, float32, shape (n, width)."""
    return uniforms(key, streams, positions, width).neg_().log1p_().neg_().log_().neg_()
