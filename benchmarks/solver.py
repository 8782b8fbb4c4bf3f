"""Who finds the lowest sum of squares?

Simulated runs of three rows of Table 1, early and late, each fitted with R0 fixed and with R0 free, by

* ours: `varpro.solve` as `fit_sigmoid` calls it;
* lmfit `Model.fit` (leastsq, bounds by its own transformation);
* scipy `curve_fit` with bounds;
* scipy `least_squares` with bounds from 18 starts, the best kept;
* the paper's grid over A and C_mid with B by least squares (R0 fixed only: it has no axis for R0). It is computed by
  projection (`paper_grid.fit_on_grid`, the same cell as the literal double loop with `curve_fit`, see speed.py): the
  literal loop takes one to two seconds a series, too slow for a thousand.

All have the same bounds: 0 <= R0 <= A <= 1, B in [0.1, 10], C_mid up to a thousand times beyond the data. The order
R0 <= A is no box, so the competitors get the parameters (A, R0 / A), which makes it one. They search log C_mid, from a
sensible start, with exact derivatives (not lmfit) and tight tolerances: better than they are usually called. Each
answer is a set of parameters, and one function computes the sum of squares of all.

Exit code 1 when ours is not the lowest or equal (1e-9 relative) somewhere; those series are printed with their data.
"""

from __future__ import annotations

import _common as common

# isort: split
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import lmfit
import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit, least_squares

from rlscaling.datasets import table1
from rlscaling.solver.fitted_model import N_STARTS
from rlscaling.solver.paper_grid import GridSpec, fit_on_grid
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve
from simulation import CUTOFF, NOISE, ROWS, STEP, draw

EQUAL = 1e-9
COMPETITORS = ("lmfit", "curve_fit", "least_squares x18", "paper grid")
TIGHT = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
INSIDE = 1e-12  # a start must lie inside its bounds

Params = tuple[float, float, float, float]  # A, B, log C_mid, R0


def series(i: int) -> dict[str, Any]:
    """Return series number ``i``: compute and pass rates to fit, and the R0 to hold where it is fixed."""
    rng = np.random.default_rng([common.SEED, i])
    row, noise = list(ROWS)[i % len(ROWS)], list(NOISE)[i // len(ROWS) % len(NOISE)]
    truth = table1(R0=float(rng.uniform(0.2, 0.35)))[ROWS[row]]
    while True:
        end = float(np.exp(rng.uniform(np.log(0.4), np.log(8.0))))
        C = np.arange(1, int(end * truth.C_mid / STEP) + 1) * STEP
        if np.count_nonzero(C >= CUTOFF) >= 7:
            C = C[C >= CUTOFF]
        if len(C) >= 5:  # with fewer than 7 after the cutoff the series keeps its first epoch
            break
    y = draw((truth.A, truth.B, truth.C_mid, truth.R0), C, *NOISE[noise], rng)
    R0 = float(truth.R0 + rng.normal(0.0, 0.0028))
    return {"i": i, "row": row, "end": end, "noise": noise, "C": C, "y": y, "R0": R0}


# --- the competitors --------------------------------------------------------------------------------------


def curve(x: np.ndarray, A: float, B: float, v: float, R0: float) -> np.ndarray:
    return R0 + (A - R0) / (1.0 + np.exp(np.clip(B * (v - x), -700.0, 700.0)))


class Task:
    """One series, R0 fixed or free, in the competitors' box: theta = (A, B, log C_mid[, R0 / A])."""

    def __init__(self, C: np.ndarray, y: np.ndarray, R0: float | None) -> None:
        self.x, self.y, self.R0 = np.log(C), y, R0
        lo, hi = self.x.min() - np.log(1e3), self.x.max() + np.log(1e3)
        self.lower = np.array([R0 or 0.0, 0.1, lo] + [0.0] * (R0 is None))
        self.upper = np.array([1.0, 10.0, hi] + [1.0] * (R0 is None))

    def params(self, theta: np.ndarray) -> Params:
        A, B, v = (float(t) for t in np.clip(theta, self.lower, self.upper)[:3])
        return A, B, v, self.R0 if self.R0 is not None else A * float(np.clip(theta[3], 0.0, 1.0))

    def predict(self, theta: np.ndarray) -> np.ndarray:
        A, B, v = theta[:3]
        return curve(self.x, A, B, v, self.R0 if self.R0 is not None else A * theta[3])

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        A, B, v = theta[:3]
        R0 = self.R0 if self.R0 is not None else A * theta[3]
        s = 1.0 / (1.0 + np.exp(np.clip(B * (v - self.x), -700.0, 700.0)))
        slope = (A - R0) * s * (1.0 - s)
        columns = [s, slope * (self.x - v), -slope * B]
        if self.R0 is None:
            columns[0] = s + theta[3] * (1.0 - s)
            columns.append(A * (1.0 - s))
        return np.stack(columns, axis=1)

    def start(self) -> np.ndarray:
        """Return the start of someone who has looked at the plot: a little above the best, B of 1.6, the middle."""
        top = float(np.clip(self.y.max() + 0.02, 0.05, 0.99))
        theta = [top, 1.6, float(np.mean(self.x))] + [float(np.clip(self.y.min(), 0.01, 0.9 * top)) / top] * (
            self.R0 is None
        )
        return self.inside(theta)

    def starts(self) -> list[np.ndarray]:
        """Return 18 starts: two ceilings, three exponents, three midpoints."""
        low, high = self.x.min(), self.x.max()
        share = float(np.clip(self.y.min(), 0.01, 0.9)) / float(np.clip(self.y.max(), 0.05, 1.0))
        found = []
        for A, B, v in product((self.y.max() + 0.01, 0.95), (0.7, 1.8, 5.0), (low, 0.5 * (low + high), high + 1.5)):
            found.append(self.inside([A, B, v] + [min(share, 0.95)] * (self.R0 is None)))
        return found

    def inside(self, theta: list[float]) -> np.ndarray:
        room = INSIDE * (1.0 + np.abs(self.upper - self.lower))
        return np.clip(np.asarray(theta, dtype=float), self.lower + room, self.upper - room)


def by_lmfit(task: Task) -> Params:
    if task.R0 is None:
        model = lmfit.Model(lambda x, A, B, v, share: curve(x, A, B, v, A * share))
    else:
        model = lmfit.Model(lambda x, A, B, v: curve(x, A, B, v, task.R0))
    params = model.make_params()
    for name, value, low, high in zip(model.param_names, task.start(), task.lower, task.upper, strict=True):
        params[name].set(value=float(value), min=float(low), max=float(high))
    fit = model.fit(task.y, params, x=task.x, max_nfev=20_000, calc_covar=False, fit_kws=TIGHT)
    return task.params(np.array([fit.params[name].value for name in model.param_names]))


def by_curve_fit(task: Task) -> Params:
    theta, _ = curve_fit(
        lambda _x, *theta: task.predict(np.array(theta)), task.x, task.y, p0=task.start(),
        bounds=(task.lower, task.upper), jac=lambda _x, *theta: task.jacobian(np.array(theta)), max_nfev=5000, **TIGHT,
    )  # fmt: skip
    return task.params(theta)


def by_least_squares(task: Task) -> Params:
    best, lowest = None, np.inf
    for start in task.starts():
        fit = least_squares(
            lambda theta: task.predict(theta) - task.y, start, jac=task.jacobian, bounds=(task.lower, task.upper),
            x_scale="jac", max_nfev=500, **TIGHT,
        )  # fmt: skip
        if fit.cost < lowest:
            best, lowest = fit.x, fit.cost
    assert best is not None
    return task.params(best)


def by_paper_grid(task: Task) -> Params:
    problem = Problem(compute=np.exp(task.x), weights=np.ones(len(task.x)), R0=task.R0)
    A, B, C_mid, R0 = fit_on_grid(problem, task.y, GridSpec.of(None)).params
    return A, B, float(np.log(C_mid)), R0


def by_ours(task: Task) -> Params:
    problem = Problem(compute=np.exp(task.x), weights=np.ones(len(task.x)), R0=task.R0)
    A, B, C_mid, R0 = solve(problem, task.y, n_starts=N_STARTS).draws()[0].tolist()
    return A, B, float(np.log(C_mid)), R0


METHODS: dict[str, Callable[[Task], Params]] = {
    "ours": by_ours,
    "lmfit": by_lmfit,
    "curve_fit": by_curve_fit,
    "least_squares x18": by_least_squares,
    "paper grid": by_paper_grid,
}


# --- the comparison -----------------------------------------------------------------------------------------


def run(i: int) -> list[dict[str, Any]]:
    """Fit series ``i`` with R0 fixed and free by everything; return the sums of squares and the parameters."""
    data = series(i)
    records = []
    for fixed in (True, False):
        task = Task(data["C"], data["y"], data["R0"] if fixed else None)
        found: dict[str, Params] = {}
        ssr: dict[str, float] = {}
        for name, method in METHODS.items():
            if name == "paper grid" and not fixed:
                continue
            ssr[name] = np.inf
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", OptimizeWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                try:
                    found[name] = method(task)
                except (RuntimeError, ValueError, np.linalg.LinAlgError):
                    if name == "ours":
                        raise
                    continue
            A, B, v, R0 = found[name]
            assert -1e-12 <= R0 <= A + 1e-12 <= 1.0 + 1e-9, (name, found[name])
            ssr[name] = float(np.sum((task.y - curve(task.x, A, B, v, R0)) ** 2))
        records.append({**data, "fixed": fixed, "n": len(task.y), "ssr": ssr, "params": found})
    return records


def excess(record: dict[str, Any]) -> tuple[float, str]:
    """Return how far ours is above the lowest, relatively, and whose that is."""
    others = {k: v for k, v in record["ssr"].items() if k != "ours"}
    best = min(others, key=others.__getitem__)
    return record["ssr"]["ours"] / others[best] - 1.0, best


def describe(record: dict[str, Any]) -> dict[str, Any]:
    """Return what reproduces a series where ours is not the lowest."""
    worse, name = excess(record)
    A, B, v, R0 = record["params"][name]
    a, b, w, r = record["params"]["ours"]
    return {
        "series": record["i"], "row": record["row"], "end_over_C_mid": record["end"], "noise": record["noise"],
        "R0": record["R0"] if record["fixed"] else None, "excess": worse, "lowest": name,
        "theirs": {"A": A, "B": B, "C_mid": float(np.exp(v)), "R0": R0, "ssr": record["ssr"][name]},
        "ours": {"A": a, "B": b, "C_mid": float(np.exp(w)), "R0": r, "ssr": record["ssr"]["ours"]},
        "compute": record["C"].tolist(), "pass_rate": record["y"].tolist(),
    }  # fmt: skip


def table(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, per competitor, the shares of series: tied with ours, worse, failed, better."""
    rows = []
    for name in COMPETITORS:
        pairs = [(r["ssr"]["ours"], r["ssr"][name]) for r in records if name in r["ssr"]]
        if not pairs:
            continue
        ours, theirs = np.array(pairs).T
        failed = ~np.isfinite(theirs)
        better = theirs < ours / (1.0 + EQUAL)
        worse = ~failed & (theirs > ours * (1.0 + EQUAL))
        ratio = theirs[~failed] / ours[~failed]
        rows.append({
            "name": name, "n": len(pairs), "tied": float(np.mean(~failed & ~better & ~worse)),
            "worse": float(np.mean(worse)), "worse_by_1pc": float(np.mean(ratio > 1.01)) if len(ratio) else 0.0,
            "failed": float(np.mean(failed)), "ours_worse": float(np.mean(better)),
            "worst_ratio": float(ratio.max(initial=0.0)),
        })  # fmt: skip
    return rows


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000, help="series (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first series")
    options = parser.parse_args()
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        numbers = range(options.first, options.first + options.n)
        records = [r for pair in pool.imap_unordered(run, numbers, chunksize=4) for r in pair]
    records.sort(key=lambda r: (r["i"], not r["fixed"]))
    losing = [r for r in records if excess(r)[0] > EQUAL]
    worst = max(excess(r)[0] for r in records)
    rows = {
        "R0 fixed": table([r for r in records if r["fixed"]]),
        "R0 free": table([r for r in records if not r["fixed"]]),
    }
    if options.json != "-":
        for kind, lines in rows.items():
            print(f"{kind:<20}      n    tied   worse  (>1 %)  failed  ours worse  worst ratio")
            for t in lines:
                print(
                    f"  {t['name']:<18} {t['n']:6d} {t['tied']:7.1%} {t['worse']:7.1%} {t['worse_by_1pc']:7.1%} "
                    f"{t['failed']:7.1%} {t['ours_worse']:11.2%} {t['worst_ratio']:12.4g}"
                )
        for record in losing:
            print(describe(record))
    share = 1.0 - len(losing) / len(records)
    note = f"{len(records) - len(losing)} of {len(records)}; worst relative excess of ours {worst:.2g}"
    checks = [common.Check("lowest or equal sum of squares", 100.0 * share, 100.0, True, "%", note)]
    about = common.versions("rlscaling", "numpy", "scipy", "lmfit")
    more: dict[str, object] = {"table": rows, "losing": [describe(r) for r in losing], "worst_excess": worst}
    return common.finish(f"Lowest sum of squares, {options.n} series", checks, about, options.json, more)


if __name__ == "__main__":
    sys.exit(main())
