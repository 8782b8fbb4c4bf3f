"""Is a forecast of a real run nearer than its last value, does its interval hold, and is what it promises true?

    python benchmarks/forecast.py [--data ../shared/data] [--jobs 2] [--json out.json]

Every curve of the two folders of real runs, and also its first 75 and 55 %, is cut at a half and a quarter of its
compute. The error is that of the mean of the evaluations in the last fifth; intervals are for one evaluation, at 95 %.
The weights of the combined forecast were chosen on the first half of the repositories. Beside the shares of wins stands
their 95 % interval over repositories. Errors of unbounded scores are shares of the range that the run covers. Without
the data it says so and exits with 0.

Then simulated runs that follow the sigmoid, followed to 8 C_mid and more: how wide the interval at 100,000 GPU-hours is
beside that of `ar1`, and how likely a gain of .01 is called where doubling the compute brings next to none.
"""

from __future__ import annotations

import _common  # isort: skip  (before numpy: one thread)

import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np

from _common import Check
from _real_runs import Curve, curves
from rlscaling import RLScalingError, Verdict, bootstrap, expected_gain, extrapolate, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid
from rlscaling.fitting.curve_fit import fit_power_law
from rlscaling.uncertainty.combined import damped_trend, last_value

METHODS = ("last-value", "damped-trend", "power-law", "sigmoid", "averaged", "combined")
WITH_DRAWS = ("sigmoid", "averaged", "combined")
ENDS = (1.0, 0.75, 0.55)
FACTORS = (2.0, 4.0)
LEAST = 7  # evaluations before the cut
MOST_LATE = 12  # evaluations after it that are asked for
BINS = {"7-14": (7, 15), "15-29": (15, 30), "30-59": (30, 60), "60 and more": (60, 10**9)}
GAIN = 0.01
TREND = 1 / 3  # of the evaluations: the last slope is that of a line through these over log compute
SIMULATED = 60
RECIPES = ((0.61, 1.92, 2542.0), (0.61, 1.77, 2193.0), (0.59, 1.77, 2116.0))


@dataclass(frozen=True)
class Cut:
    """The beginning of a real curve, and what came later."""

    curve: Curve
    end: float
    factor: float
    seen: np.ndarray
    late: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What the forecasts of one cut came to."""

    curve: str
    repository: str
    first_half: bool
    bounded: bool
    of_language_model: bool
    factor: float
    n: int
    verdict: Verdict
    error: dict[str, float]
    held: dict[str, float]  # share of the later evaluations
    off_range: dict[str, bool]
    promised: float  # P(gain > GAIN), and what the last slope says
    promised_by_slope: float
    gained: bool


def cuts(found: Sequence[Curve]) -> Iterator[Cut]:
    for curve in found:
        for end in ENDS:
            last = float(curve.compute[curve.compute <= curve.compute[-1] * end][-1])
            for factor in FACTORS:
                seen = curve.compute <= last / factor
                late = (curve.compute > 0.8 * last) & (curve.compute <= last)
                if seen.sum() >= LEAST and late.sum() >= 2:
                    yield Cut(curve, end, factor, np.flatnonzero(seen), np.flatnonzero(late))


def outcome(cut: Cut) -> Outcome | None:
    curve, late = cut.curve, cut.late[np.unique(np.linspace(0, len(cut.late) - 1, MOST_LATE).astype(int))]
    C, y, at, actual = curve.compute[cut.seen], curve.score[cut.seen], curve.compute[late], curve.score[late]
    seed = zlib.crc32(curve.name.encode())
    options = {"compute_unit": "steps", "min_compute": 0, **({} if curve.bounded else {"A_max": np.inf})}
    try:
        fit = fit_sigmoid(C, y, **options)
        power_law = fit_power_law(C, y, **options).predict(at)
        boot = bootstrap(fit, n_resamples=400, rng=seed) if fit.n_points >= LEAST else None
    except RLScalingError as error:
        print(f"{curve.name}, {cut.factor:g}x: {error}")
        return None
    last, low, high = float(C[-1]), *((0.0, 1.0) if curve.bounded else (-np.inf, np.inf))
    forecasts = {
        "last-value": np.full(len(at), last_value(fit)),
        "damped-trend": np.clip(damped_trend(fit, at), low, high),
        "power-law": power_law,
        "sigmoid": fit.predict(at),
    }
    held, promised = {}, np.nan
    for method in WITH_DRAWS:
        replicates = {} if method == "averaged" else {"bootstrap": boot}
        if boot is None and method != "averaged":
            continue
        found = extrapolate(fit, [last, *at], method=method, rng=seed, track_record=False, **replicates)
        forecasts[method] = found.pass_rate[1:]
        lower, upper = (side[1:] for side in found.prediction_interval)
        held[method] = float(np.mean((lower <= actual) & (actual <= upper)))
    if boot is not None:
        promised = expected_gain(fit, at[-1] - last, bootstrap=boot).probability
    else:
        forecasts["combined"] = forecasts["averaged"]
    plateau, scale = float(actual.mean()), 1.0 if curve.bounded else float(np.ptp(np.concatenate([y, actual]))) or 1.0
    error = {name: abs(float(np.mean(value)) - plateau) / scale for name, value in forecasts.items()}
    return Outcome(
        curve.name, curve.repository, curve.first_half, curve.bounded, curve.of_language_model, cut.factor, len(y),
        fit.verdict, error, held, {name: value > 1.0 for name, value in error.items()}, promised,
        float(last_slope(C, y) * np.log(at[-1] / last) > GAIN), plateau - last_value(fit) > GAIN,
    )  # fmt: skip


def last_slope(C: np.ndarray, y: np.ndarray) -> float:
    n = max(5, round(TREND * len(y)))
    x = np.log(np.maximum(C, 1e-300))[-n:]
    return float(np.polyfit(x - x[-1], y[-n:], 1)[0])


def wins(outcomes: Sequence[Outcome], method: str) -> tuple[float, float, float]:
    """Return the share of cuts in which a method is nearer than the last value, and its 95 % over repositories."""
    won: dict[str, list[bool]] = {}
    for o in outcomes:
        won.setdefault(o.repository, []).append(o.error[method] < o.error["last-value"])
    n, total = (np.array([f(v) for v in won.values()], dtype=float) for f in (len, sum))
    pick = np.random.default_rng(0).integers(len(n), size=(2000, len(n)))
    low, high = np.quantile(total[pick].sum(axis=1) / n[pick].sum(axis=1), [0.025, 0.975])
    return float(total.sum() / n.sum()), float(low), float(high)


def table(title: str, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Print one table and return its numbers."""
    numbers: dict[str, float] = {}
    print(f"\n{title}")
    print(f"{'':14}{'to':>4}{'n':>5}  {'beats last value':18}  median |error|  mean |error|  interval holds")
    for factor in FACTORS:
        chosen = [o for o in outcomes if o.factor == factor]
        for method in METHODS:
            e = np.array([o.error[method] for o in chosen])
            share, low, high = wins(chosen, method)
            held = [o.held[method] for o in chosen if method in o.held]
            key = f"{method} {factor:g}x"
            numbers |= {f"{key} wins": share, f"{key} median": float(np.median(e)), f"{key} mean": float(e.mean())}
            numbers |= {f"{key} off": float(np.mean([o.off_range[method] for o in chosen]))}
            numbers |= {f"{key} held": float(np.mean(held)) if held else float("nan")}
            won = "" if method == "last-value" else f"{share:.2f} [{low:.2f}, {high:.2f}]"
            inside = f"{np.mean(held):.2f}" if held else ""
            print(f"{method:14}{factor:3g}x{len(e):5}  {won:18}{np.median(e):16.4f}{e.mean():14.4f}{inside:>16}")
    return numbers


def holds_by(title: str, outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, tuple[int, float]]:
    """Print how often the combined interval holds, by a property of the cut."""
    found: dict[str, list[float]] = {}
    for o in outcomes:
        if "combined" in o.held:
            found.setdefault(key(o), []).append(o.held["combined"])
    print(f"\n{title}")
    for name, held in sorted(found.items()):
        print(f"  {name:28}{len(held):5}{np.mean(held):7.2f}")
    return {name: (len(held), float(np.mean(held))) for name, held in found.items()}


def bin_of(o: Outcome) -> str:
    name = next(name for name, (low, high) in BINS.items() if low <= o.n < high)
    return f"{name} evaluations, {o.factor:g}x"


def brier(title: str, outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Print how promises of a gain came true, and return their Brier score and that of the last slope."""
    mine = [o for o in outcomes if np.isfinite(o.promised)]
    p, slope, gained = (
        np.array([float(getattr(o, a)) for o in mine]) for a in ("promised", "promised_by_slope", "gained")
    )
    ours, theirs = float(np.mean((p - gained) ** 2)), float(np.mean((slope - gained) ** 2))
    print(f"\n{title}: P(gain > {GAIN:g}) by the end, {len(mine)} cuts; Brier {ours:.3f}, last slope {theirs:.3f}")
    for low in np.arange(0.0, 1.0, 0.2):
        inside = (p >= low) & ((p < low + 0.2) | (low > 0.7))
        if inside.any():
            means = f"mean {p[inside].mean():.2f}, came {gained[inside].mean():.2f}"
            print(f"  promised {low:.1f}-{low + 0.2:.1f}: {inside.sum():4}, {means}")
    return ours, theirs


def simulated(k: int) -> tuple[str, float, float]:
    """Return the verdict on a run that follows the law, the width of its interval beside ar1's, and P(gain)."""
    rng = np.random.default_rng([_common.SEED, k])
    A, B, C_mid = RECIPES[k % len(RECIPES)]
    C = np.arange(0.0, (8.5 + 3.0 * rng.random()) * C_mid, 300.0)
    noise = np.zeros(len(C))
    for i, z in enumerate(0.004 * rng.standard_normal(len(C))):
        noise[i] = 0.4 * noise[i - 1] + z
    fit = fit_sigmoid(C, sigmoid(C, A, B, C_mid, 0.3) + noise)
    found = [
        extrapolate(fit, 100_000.0, bootstrap=bootstrap(fit, scheme=scheme, rng=k), track_record=False)
        for scheme in ("departures", "ar1")
    ]
    width = [np.subtract(*f.prediction_interval.at(0)[::-1]) for f in found]
    return str(fit.verdict), float(width[0] / width[1]), expected_gain(fit, C[-1], rng=k).probability


def main() -> int:
    parser = _common.arguments(__doc__ or "")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--last-value", type=float, nargs=2, metavar=("WEIGHT", "LOSES"),
        help="another weight of the last value in the combined forecast: at the data, and what it loses a doubling",
    )  # fmt: skip
    args, there = _common.with_real_curves(parser)
    if not there:
        return 0
    began = time.time()
    found = list(curves(args.data))
    with Pool(args.jobs, _common.set_weights, (args.last_value,)) as pool:
        outcomes = [o for o in pool.imap(outcome, cuts(found), chunksize=4) if o is not None]
        law = pool.map(simulated, range(SIMULATED), chunksize=5)
    bounded = [o for o in outcomes if o.bounded]
    halves = {
        "first half": [o for o in bounded if o.first_half],
        "second half": [o for o in bounded if not o.first_half],
    }
    numbers = {}
    for title, mine in halves.items():
        print(f"{title}: {', '.join(f'{name} ({n})' for name, n in Counter(o.repository for o in mine).items())}")
        numbers[title] = table(f"pass rates, {title}", mine)
    both = table("pass rates, both halves", bounded)
    llm = table("pass rates of language models, both halves", [o for o in bounded if o.of_language_model])
    unbounded = table("unbounded scores", [o for o in outcomes if not o.bounded])
    bins = holds_by("pass rates: combined interval holds, by evaluations", bounded, bin_of)
    verdicts = holds_by("pass rates: combined interval holds, by verdict", bounded, lambda o: str(o.verdict))
    scores = [brier(title, mine) for title, mine in halves.items()] + [brier("both halves", bounded)]
    certain = [one for one in law if one[0] == str(Verdict.IDENTIFIED)]
    width, gain = (float(np.mean([one[i] for one in certain])) for i in (1, 2))
    print(f"\nsimulated runs beyond 8 C_mid: {len(certain)} of {len(law)} identified; ", end="")
    print(f"interval at 100,000 over ar1's {width:.2f}; P(gain > {GAIN:g}) of doubling {gain:.3f}")
    print(f"\n{len(found)} curves, {len(outcomes)} forecasts, {time.time() - began:.0f} s")
    second, singles = numbers["second half"], METHODS[:-1]
    checks = [
        Check("combined beats last value, 2x", both["combined 2x wins"], 0.76, True, ""),
        Check("combined beats last value, 4x", both["combined 4x wins"], 0.84, True, ""),
        Check("second half, combined beats last value, 2x", second["combined 2x wins"], 0.65, True, ""),
        Check("second half, combined beats last value, 4x", second["combined 4x wins"], 0.84, True, ""),
        Check("language models, combined beats last value, 2x", llm["combined 2x wins"], 0.77, True, ""),
        Check("language models, combined beats last value, 4x", llm["combined 4x wins"], 0.82, True, ""),
    ]
    for factor in ("2x", "4x"):
        for what in ("median", "mean"):
            best = min(both[f"{m} {factor} {what}"] for m in singles)
            ratio = both[f"combined {factor} {what}"] / best
            checks.append(Check(f"{what} error over the best single method's, {factor}", ratio, 1.0, False, ""))
        checks.append(Check(f"interval holds, {factor}, least", both[f"combined {factor} held"], 0.93, True, ""))
        checks.append(Check(f"interval holds, {factor}, most", both[f"combined {factor} held"], 0.97, False, ""))
        checks.append(
            Check(f"unbounded: interval holds, {factor}", unbounded[f"combined {factor} held"], 0.88, True, "")
        )
    checks += [
        Check("unbounded: off by more than the range, 2x", unbounded["combined 2x off"], 0.01, False, ""),
        Check("unbounded: off by more than the range, 4x", unbounded["combined 4x off"], 0.02, False, ""),
        Check("interval holds, worst bin of evaluations", min(h for n, h in bins.values() if n >= 20), 0.90, True, ""),
        Check("interval holds, worst verdict", min(h for n, h in verdicts.values() if n >= 20), 0.90, True, ""),
        Check("Brier of P(gain) over that of the last slope", scores[-1][0] / scores[-1][1], 1.0, False, ""),
        Check("second half, Brier of P(gain) over that of the last slope", scores[1][0] / scores[1][1], 1.0, False, ""),
        Check("simulated, identified: width over ar1's", width, 1.5, False, ""),
        Check("simulated, identified: P(gain > .01) of doubling", gain, 0.20, False, ""),
    ]
    return _common.finish("forecasts of real runs", checks, _common.versions("rlscaling", "numpy"), args.json)


if __name__ == "__main__":
    raise SystemExit(main())
