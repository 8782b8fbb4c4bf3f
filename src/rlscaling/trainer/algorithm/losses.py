"""The policy losses: `LOSSES`, one `Loss` each.

A `Loss` is everything that is known of a loss: its function, the bounds it sets on the importance ratio, which kernel
computes it, and its name in other engines. To add one, write its function and its record; nothing else compares names.

``rho_t = exp(logp_t - old_logp_t)`` is the importance ratio of trainer to generator. Each function returns the
weighted sum over tokens of a loss to minimise; what is averaged over, and how, is in the weights
(``filters.token_weights``), so micro-batches add up to the batch. Settings are checked against these records before
torch is loaded, so the functions call methods of tensors and this module imports no torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rlscaling.trainer.errors import TrainError

if TYPE_CHECKING:
    from torch import Tensor


class Clip(NamedTuple):
    """The settings ``clip_low`` and ``clip_high``; what they mean is up to the loss (``Loss.ratio_bounds``)."""

    low: float
    high: float


class RatioBounds(NamedTuple):
    """Bounds of the importance ratio itself."""

    low: float
    high: float


class LossStats(NamedTuple):
    """Counts over the tokens in the loss, zero-dimensional, so that micro-batches can be added."""

    n_tokens: Tensor
    ratio_sum: Tensor
    ratio_max: Tensor  # 0 without tokens
    n_clipped: Tensor


@dataclasses.dataclass(frozen=True)
class EngineLoss:
    """A loss in another engine.

    Attributes
    ----------
    name
        The engine's name for it; empty where the engine's option names what is averaged over instead.
    clips
        The engine's options for the clip, as a function of ours.
    """

    name: str
    clips: Callable[[Clip], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Loss:
    """A policy loss.

    Attributes
    ----------
    name
        Value of the setting ``loss``.
    function
        ``function(logp, old_logp, advantage, weight, bounds, sequence) -> (loss, stats)``. All tensors are (N,), one
        number per token; ``sequence`` says which completion a token belongs to, from 0 up. Tokens of weight 0 are
        not in the loss at all. Only ``logp`` carries a gradient.
    ratio_bounds
        The bounds of the ratio that the settings ``clip_low`` and ``clip_high`` stand for.
    per_sequence
        Whether the ratio is that of a whole completion, whose tokens then must not be split.
    kernel_kind
        Number of the loss in ``csrc/policy_loss.cu``, whose ``sequence_loss`` computes those per sequence; None for a
        loss without a kernel, which plain torch computes everywhere.
    trl, verl
        The loss in these engines.
    check
        ``check(name, clip)`` raises `TrainError` for clips that make no sense with it.
    """

    name: str
    function: Callable[[Tensor, Tensor, Tensor, Tensor, RatioBounds, Tensor], tuple[Tensor, LossStats]]
    ratio_bounds: Callable[[Clip], RatioBounds]
    kernel_kind: int | None
    trl: EngineLoss
    verl: EngineLoss
    check: Callable[[str, Clip], None]
    per_sequence: bool = False

    def __call__(
        self, logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, clip: Clip, sequence: Tensor
    ) -> tuple[Tensor, LossStats]:
        """Return the loss and its statistics with the clips of the settings."""
        return self.function(logp, old_logp, advantage, weight, self.ratio_bounds(clip), sequence)

    def check_clip(self, clip: Clip) -> None:
        """Check the clips.

        Raises
        ------
        TrainError
            When they make no sense with this loss.
        """
        self.check(self.name, clip)


# --- functions --------------------------------------------------------------------------------------------------


def reinforce(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, bounds: RatioBounds, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-Adv * log pi(y_t)`` [Williams 1992]: nothing corrects for the age of the weights."""
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss = -advantage * logp
    return _weighted_sum(loss, weight), _stats(ratio, ratio > bounds.high, weight)


def cispo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, bounds: RatioBounds, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-sg(min(rho_t, high)) * Adv * log pi(y_t)`` [MiniMax-M1, arXiv 2506.13585, eq. 4; ScaleRL, 3.2].

    A clipped ratio weighs the token less and never takes it out of the gradient. There is no lower bound.
    """
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss = -ratio.detach().clamp(max=bounds.high) * advantage * logp
    return _weighted_sum(loss, weight), _stats(ratio, ratio > bounds.high, weight)


def dapo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, bounds: RatioBounds, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-min(rho_t * Adv, clip(rho_t, low, high) * Adv)`` [DAPO, arXiv 2503.14476, eq. 8]."""
    ratio = _log_ratio(logp, old_logp, weight).exp()
    loss, clipped = _clipped_surrogate(ratio, advantage, bounds)
    return _weighted_sum(loss, weight), _stats(ratio, clipped, weight)


def gspo(
    logp: Tensor, old_logp: Tensor, advantage: Tensor, weight: Tensor, bounds: RatioBounds, sequence: Tensor
) -> tuple[Tensor, LossStats]:
    """``-min(s * Adv, clip(s, low, high) * Adv)`` with one ratio per sequence [GSPO, arXiv 2507.18071, eq. 5].

    ``s = (pi(y) / pi_old(y)) ** (1 / |y|)``; every token of a sequence has its loss, so that each aggregation
    means the same here as elsewhere.
    """
    ratio = _sequence_mean(_log_ratio(logp, old_logp, weight), weight, sequence).exp()
    loss, clipped = _clipped_surrogate(ratio, advantage, bounds)
    return _weighted_sum(loss, weight), _stats(ratio, clipped, weight)


def _log_ratio(logp: Tensor, old_logp: Tensor, weight: Tensor) -> Tensor:
    # outside the loss the difference means nothing and may overflow
    return (logp - old_logp).where(weight > 0, 0.0)


def _sequence_mean(log_ratio: Tensor, weight: Tensor, sequence: Tensor) -> Tensor:
    """Return for each token the mean over its sequence, tokens in the loss only."""
    n = int(sequence.max()) + 1 if len(sequence) else 0
    total = log_ratio.new_zeros(n).index_add(0, sequence, log_ratio)
    count = log_ratio.new_zeros(n).index_add(0, sequence, (weight > 0).to(log_ratio.dtype))
    return (total / count.clamp(min=1))[sequence]


def _clipped_surrogate(ratio: Tensor, advantage: Tensor, bounds: RatioBounds) -> tuple[Tensor, Tensor]:
    """Return the loss, and where the bound took the gradient away."""
    bounded = ratio.clamp(bounds.low, bounds.high)
    clipped = bounded * advantage < ratio * advantage
    return -(ratio * advantage).minimum(bounded * advantage), clipped


def _weighted_sum(loss: Tensor, weight: Tensor) -> Tensor:
    return (loss * weight).where(weight > 0, 0.0).sum()


def _stats(ratio: Tensor, clipped: Tensor, weight: Tensor) -> LossStats:
    inside = weight > 0
    in_loss = ratio.detach().where(inside, 0.0)
    largest = in_loss.max() if len(in_loss) else in_loss.sum()
    return LossStats(inside.sum(), in_loss.sum(), largest, (clipped & inside).sum())


# --- what the clips of the settings mean ------------------------------------------------------------------------


def _unbounded(clip: Clip) -> RatioBounds:
    return RatioBounds(0.0, math.inf)


def _cap(clip: Clip) -> RatioBounds:
    """``clip_high`` is the largest ratio itself, 4 to 8."""
    return RatioBounds(0.0, clip.high)


def _around_one(clip: Clip) -> RatioBounds:
    """Both are distances from 1."""
    return RatioBounds(1 - clip.low, 1 + clip.high)


def _symmetric(clip: Clip) -> RatioBounds:
    """``clip_low`` is the distance from 1 on both sides."""
    return RatioBounds(1 - clip.low, 1 + clip.low)


def _check_nothing(name: str, clip: Clip) -> None:
    pass


def _check_cap(name: str, clip: Clip) -> None:
    if clip.high < 1:
        raise TrainError(f"clip_high={clip.high} with loss={name!r} caps the ratio itself below 1; take 4, 5 or 8")


def _check_distances(name: str, clip: Clip) -> None:
    if clip.low >= 1:
        raise TrainError(f"clip_low={clip.low} with loss={name!r} is a distance from 1; take 0.2 (gspo: 3e-3)")


def _check_equal_distances(name: str, clip: Clip) -> None:
    if clip.high != clip.low:
        raise TrainError(
            f"clip_low={clip.low} and clip_high={clip.high} with loss={name!r}, which has one clip for both sides; "
            "give both the same value, such as 0.2, or take loss='dapo'"
        )
    _check_distances(name, clip)


# --- the losses elsewhere ---------------------------------------------------------------------------------------

NO_DUAL_CLIP = 1e9
"""verl cuts the loss of negative advantages at this ratio, 3 by default; our losses do not."""


def _trl_epsilons(clip: Clip) -> dict[str, float]:
    return {"epsilon": clip.low, "epsilon_high": clip.high}


def _verl_ratios(clip: Clip) -> dict[str, float]:
    return {"clip_ratio_low": clip.low, "clip_ratio_high": clip.high}


_TRL_BY_AVERAGE = EngineLoss("", _trl_epsilons)  # loss_type says what is averaged over

# --- the records ------------------------------------------------------------------------------------------------

REINFORCE = Loss(
    name="reinforce",
    function=reinforce,
    ratio_bounds=_unbounded,
    kernel_kind=0,
    trl=_TRL_BY_AVERAGE,
    verl=EngineLoss("gpg", lambda clip: {}),
    check=_check_nothing,
)
CISPO = Loss(
    name="cispo",
    function=cispo,
    ratio_bounds=_cap,
    kernel_kind=1,
    trl=EngineLoss("cispo", lambda clip: {"epsilon_high": clip.high}),  # the cap of the ratio itself, as here
    # verl keeps the ratio within 1 - low .. 1 + high; here there is only a cap
    verl=EngineLoss("cispo", lambda clip: {"clip_ratio_low": 1.0, "clip_ratio_high": clip.high - 1}),
    check=_check_cap,
)
DAPO = Loss(
    name="dapo",
    function=dapo,
    ratio_bounds=_around_one,
    kernel_kind=2,
    trl=_TRL_BY_AVERAGE,
    verl=EngineLoss("vanilla", lambda clip: _verl_ratios(clip) | {"clip_ratio_c": NO_DUAL_CLIP}),
    check=_check_distances,
)
GRPO = dataclasses.replace(DAPO, name="grpo", ratio_bounds=_symmetric, check=_check_equal_distances)
"""DAPO with the same bound on both sides [GRPO, arXiv 2402.03300, eq. 3, without KL]."""
GSPO = dataclasses.replace(DAPO, name="gspo", function=gspo, per_sequence=True, verl=EngineLoss("gspo", _verl_ratios))

LOSSES: Mapping[str, Loss] = {loss.name: loss for loss in (CISPO, DAPO, GRPO, GSPO, REINFORCE)}
"""Value of the setting ``loss`` -> its record."""
