"""`pass_at_k` and `paired_difference`: what counts by prompt say beyond their mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from rlscaling.arrays import Array
from rlscaling.errors import FitError
from rlscaling.printing.document import Document, Table
from rlscaling.printing.numbers import interval, number, percent
from rlscaling.solver.intervals import percentile_interval, probability_above
from rlscaling.traces.prompt_counts import PromptCounts
from rlscaling.validation import RngLike, check_level, entropy_of

N_DRAWS = 2000


def unbiased_pass_at_k(correct: ArrayLike, samples: ArrayLike, k: int) -> Array:
    """Return the unbiased estimate of pass@k of each prompt, ``1 - C(n - c, k) / C(n, k)``.

    Parameters
    ----------
    correct, samples : array-like of one shape
        Right samples and samples drawn of each prompt.
    k : int
        At most ``samples``.

    Returns
    -------
    array
        nan where fewer than ``k`` samples were drawn.

    References
    ----------
    Chen et al., "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), equation 1.

    Examples
    --------
    >>> unbiased_pass_at_k([0, 1, 4], [4, 4, 4], 2).round(3).tolist()
    [0.0, 0.5, 1.0]
    """
    c, n = np.broadcast_arrays(np.asarray(correct, dtype=float), np.asarray(samples, dtype=float))
    with np.errstate(invalid="ignore"):
        log_miss = gammaln(n - c + 1) - gammaln(n - c - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
        miss = np.where(n - c < k, 0.0, np.exp(log_miss))
    return np.asarray(np.where(n < k, np.nan, 1.0 - miss))


@dataclass(frozen=True, eq=False, repr=False)
class PassAtK(Document):
    """pass@k of one evaluation, the mean over prompts, with intervals over prompts.

    Attributes
    ----------
    k : array of shape (m,)
    value : array of shape (m,)
    draws : array of shape (size, m)
        With the prompts drawn anew.
    """

    name: str
    compute: float
    k: Array
    value: Array
    draws: Array
    n_prompts: int
    confidence_level: float
    rng_seed: int

    @property
    def confidence_interval(self) -> Array:
        """Interval at each k by itself, shape (m, 2)."""
        return percentile_interval(self.draws, self.confidence_level)

    @property
    def band(self) -> Array:
        """Band that holds the whole curve over k with that probability, shape (m, 2)."""
        sd = np.maximum(self.draws.std(axis=0), 1e-12)
        largest = np.max(np.abs(self.draws - self.value) / sd, axis=1)
        width = float(np.quantile(largest, self.confidence_level)) * sd
        return np.asarray(np.clip(np.stack([self.value - width, self.value + width], axis=1), 0.0, 1.0))

    @property
    def headline(self) -> str:
        """The first and the last of the curve."""
        first, last = (f"pass@{self.k[i]:g} = {number(float(self.value[i]), 3)}" for i in (0, -1))
        return f"{self.name}: {first}, {last} ({self.n_prompts} prompts)"

    def tables(self) -> list[Table]:
        """Return one row per k."""
        rows = [
            [f"{k:g}", number(float(v), 3), interval(*ci), interval(*band)]
            for k, v, ci, band in zip(self.k, self.value, self.confidence_interval, self.band, strict=True)
        ]
        return [Table.of(("k", "pass@k", percent(self.confidence_level), "band over k"), rows)]

    def _record(self) -> dict[str, Any]:
        return {
            "name": self.name, "compute": self.compute, "k": self.k, "pass_at_k": self.value,
            "ci": self.confidence_interval, "band": self.band, "n_prompts": self.n_prompts,
            "confidence_level": self.confidence_level, "rng_seed": self.rng_seed,
        }  # fmt: skip


def pass_at_k(
    counts: PromptCounts,
    k: Sequence[int] | None = None,
    *,
    compute: float | None = None,
    confidence_level: float = 0.95,
    rng: RngLike = None,
) -> PassAtK:
    """Return pass@k of an evaluation, with an interval over prompts at each k and a band over all of them.

    Parameters
    ----------
    counts : PromptCounts
    k : sequence of int, optional
        Default: 1, 2, 4, ... up to the samples that every prompt has.
    compute : float, optional
        The evaluation nearest to it; the last one by default.
    confidence_level : float
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Raises
    ------
    FitError
        For a k of less than 1 or of more than the samples of a prompt.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import PromptCounts, pass_at_k
    >>> rng = np.random.default_rng(0)
    >>> counts = PromptCounts([100.0], rng.binomial(16, rng.beta(0.2, 0.2, 200)), 16)
    >>> pass_at_k(counts, rng=0).k.tolist()
    [1.0, 2.0, 4.0, 8.0, 16.0]
    """
    i, level, entropy = counts.at(compute), check_level(confidence_level), entropy_of(rng)
    drawn = counts.samples[i] > 0
    correct, samples = counts.correct[i, drawn], counts.samples[i, drawn]
    most = _least_samples(counts, compute)
    ks = _powers_of_two(most) if k is None else [int(value) for value in k]
    bad = [value for value in ks if not 1 <= value <= most]
    if bad or not ks:
        raise FitError(f"k={bad[0] if bad else ks}: the prompts have {most} samples or more, so 1 <= k <= {most}")
    values = np.array([unbiased_pass_at_k(correct, samples, value) for value in ks])  # (m, prompts)
    weight = _prompts_anew(np.random.default_rng(entropy), len(correct))
    return PassAtK(
        counts.name, float(counts.compute[i]), np.array(ks, dtype=float), values.mean(axis=1), weight @ values.T,
        len(correct), level, entropy,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PairedDifference(Document):
    """The difference of two runs on the same prompts, first less second.

    Attributes
    ----------
    x, y : str
    k : int
        Of pass@k; 1 is the pass rate.
    value : float
    draws, unpaired : arrays of shape (size,)
        With the prompts drawn anew: the same ones for both runs, and others for each.
    """

    x: str
    y: str
    k: int
    value: float
    draws: Array
    unpaired: Array
    n_prompts: int
    confidence_level: float
    rng_seed: int

    @property
    def confidence_interval(self) -> tuple[float, float]:
        """Interval of the difference on the same prompts."""
        low, high = percentile_interval(self.draws, self.confidence_level)
        return float(low), float(high)

    @property
    def sharper(self) -> float:
        """Width of the unpaired interval over that of the paired one."""
        wide, narrow = (
            float(np.ptp(percentile_interval(d, self.confidence_level))) for d in (self.unpaired, self.draws)
        )
        return wide / max(narrow, 1e-12)

    @property
    def probability(self) -> float:
        """Probability that the first is higher."""
        return float(probability_above(self.draws))

    @property
    def headline(self) -> str:
        """The difference with its interval."""
        what = "pass rate" if self.k == 1 else f"pass@{self.k}"
        by = f"{number(self.value, 3)} {interval(*self.confidence_interval)}"
        return (
            f"{what} of {self.x} less that of {self.y}: {by}, on "
            f"{self.n_prompts} prompts of both (probability {self.probability:.2f} that {self.x} is higher)"
        )

    def footnotes(self) -> list[str]:
        """Return how much the pairing gains."""
        return [f"the interval is {self.sharper:.1f} times narrower than that of two independent sets of prompts"]

    def _record(self) -> dict[str, Any]:
        return {
            "x": self.x, "y": self.y, "k": self.k, "difference": self.value, "ci": self.confidence_interval,
            "probability": self.probability, "sharper": self.sharper, "n_prompts": self.n_prompts,
            "confidence_level": self.confidence_level, "rng_seed": self.rng_seed,
        }  # fmt: skip


def paired_difference(
    x: PromptCounts,
    y: PromptCounts,
    *,
    k: int = 1,
    compute: float | None = None,
    confidence_level: float = 0.95,
    rng: RngLike = None,
) -> PairedDifference:
    """Return the difference of two evaluations on the prompts that both have, first less second.

    Parameters
    ----------
    x, y : PromptCounts
        Paired by the names of their prompts.
    k : int
        Of pass@k; by default of the pass rate.
    compute : float, optional
        The evaluations nearest to it; the last ones by default.
    confidence_level : float
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Raises
    ------
    FitError
        When the runs share fewer than two prompts with ``k`` samples, or have different units of compute.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import PromptCounts, paired_difference
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.2, 0.2, 500)
    >>> x, y = (PromptCounts([100.0], rng.binomial(32, np.clip(p + gain, 0, 1)), 32) for gain in (0.02, 0.0))
    >>> found = paired_difference(x, y, rng=0)
    >>> found.value > 0, found.sharper > 2
    (True, True)
    """
    if x.compute_unit != y.compute_unit:
        raise FitError(f"compute is in {x.compute_unit} and in {y.compute_unit}; give runs in one unit")
    level, entropy, i, j = check_level(confidence_level), entropy_of(rng), x.at(compute), y.at(compute)
    place = {name: row for row, name in enumerate(y.prompts)}
    rows = [row for row, name in enumerate(x.prompts) if name in place]
    same = [place[x.prompts[row]] for row in rows]
    p, q = (
        unbiased_pass_at_k(run.correct[at, which], run.samples[at, which], k)
        for run, at, which in ((x, i, rows), (y, j, same))
    )
    both = np.isfinite(p) & np.isfinite(q)
    if both.sum() < 2:
        raise FitError(
            f"{x.name or 'x'} and {y.name or 'y'} share {int(both.sum())} prompts with {k} samples: pairs are made by "
            "the names of the prompts; give both runs the same ones"
        )
    p, q, n = p[both], q[both], int(both.sum())
    generator = np.random.default_rng(entropy)
    weight, other = (_prompts_anew(generator, n) for _ in range(2))
    return PairedDifference(
        x.name or "x", y.name or "y", k, float(np.mean(p - q)), weight @ (p - q), weight @ p - other @ q, n, level,
        entropy,
    )  # fmt: skip


def first_k_no_better(
    later: PromptCounts, earlier: PromptCounts, *, compute: float | None = None, rng: RngLike = None
) -> int | None:
    """Return the first k at which ``later`` is no longer shown to be better than ``earlier``; None where it always is.

    Parameters
    ----------
    later, earlier : PromptCounts
        Paired by the names of their prompts.
    compute : float, optional
        The evaluations nearest to it; the last ones by default.
    rng : int, Generator, SeedSequence or None
        Same seed, same numbers.

    Returns
    -------
    int or None
        Of 1, 2, 4, ... up to the samples that every prompt has in both, by the 95 % interval of `paired_difference`.

    Raises
    ------
    FitError
        As `paired_difference`.

    Examples
    --------
    >>> import numpy as np
    >>> from rlscaling import PromptCounts, first_k_no_better
    >>> counts = PromptCounts([100.0], np.arange(17), 16)
    >>> first_k_no_better(counts, counts, rng=0)
    1
    """
    most, seed = min(_least_samples(run, compute) for run in (later, earlier)), entropy_of(rng)
    for k in _powers_of_two(most):
        if paired_difference(later, earlier, k=k, compute=compute, rng=seed).confidence_interval[0] <= 0.0:
            return k
    return None


def _least_samples(counts: PromptCounts, compute: float | None) -> int:
    """Return the fewest samples of a prompt that was evaluated there."""
    samples = counts.samples[counts.at(compute)]
    return int(samples[samples > 0].min())


def _powers_of_two(most: int) -> list[int]:
    return [1 << j for j in range(most.bit_length())]


def _prompts_anew(rng: np.random.Generator, n: int) -> Array:
    """Return the weight of each of ``n`` prompts in draws of as many, shape (N_DRAWS, n)."""
    return np.asarray(rng.multinomial(n, np.full(n, 1.0 / n), N_DRAWS) / n)
