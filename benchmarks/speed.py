"""How much faster than the usual tools, on one core?

One run of Table 1's ScaleRL row: 68 evaluations after the cutoff and the one at compute 0.

* The whole default (`fit_sigmoid`, 1,000 resamples, intervals) against 1,000 `lmfit` fits of replicates of the same
  series: the same points, anchor and weights, R0 free, from the start of someone who has looked at the plot (ours
  starts every replicate afresh too). A sample of the lmfit fits is timed and scaled up. For information, the same from
  the fit of the series, the best start there is.
* The paper's grid as a literal double loop, 71 values of A times 100 of C_mid with `curve_fit` for B (R0 fixed, by its
  fast unbounded method; with bounds, for information, it takes several times longer), against the solver's one fit,
  `fit_sigmoid` with its verdict, and `paper-grid` by projection. A tenth of its cells, drawn at random, is timed and
  scaled up; the whole loop runs once for the best cell.

CPU time of this process; the tools take turns, and each ratio is the median over the rounds.
"""

from __future__ import annotations

import _common as common

# isort: split
import statistics
import sys
import warnings
from dataclasses import replace

import lmfit
import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from rlscaling import bootstrap, fit_sigmoid
from rlscaling.solver.fitted_model import N_STARTS
from rlscaling.solver.paper_grid import GridSpec, fit_on_grid
from rlscaling.solver.problem import Problem
from rlscaling.solver.variable_projection import solve
from simulation import CUTOFF, NOISE, draw, evaluations, truth

N_RESAMPLES = 1000


class Run:
    """The series, its replicates and the tools."""

    def __init__(self, n_lmfit: int) -> None:
        rng = np.random.default_rng(common.SEED)
        self.C = evaluations(16_000.0)
        self.y = draw(truth("scalerl"), self.C, *NOISE["middle"], rng)
        self.fit = fit_sigmoid(self.C, self.y)
        assert self.fit.n_points == 68
        assert self.fit.R0_source == "anchored"
        model = self.fit.fitted_model()
        self.model = model
        self.problem = model.problem
        Y = np.tile(model.bootstrap_curve, (n_lmfit, 1))
        Y[:, : model.n] += model.noise.simulate(rng, n_lmfit)
        Y[:, model.n :] += model.anchor.standard_error * rng.standard_normal((n_lmfit, 1))
        self.replicates = Y
        after = self.C >= CUTOFF
        self.fixed = Problem(compute=self.C[after], weights=np.ones(68), R0=float(self.y[0]))
        self.fixed_y = self.y[after]
        self.grid = GridSpec.of(None)

    # --- ours

    def whole_default(self) -> object:
        fit = fit_sigmoid(self.C, self.y)
        return bootstrap(fit, n_resamples=N_RESAMPLES, rng=0).confidence_interval

    def fit_with_verdict(self) -> object:
        return fit_sigmoid(self.C, self.y)

    def one_fit(self) -> object:
        return solve(replace(self.fixed), self.fixed_y, n_starts=N_STARTS)  # a new problem: nothing is kept from before

    def one_fit_anchored(self) -> object:
        return solve(replace(self.problem), np.append(self.fixed_y, self.y[0]), n_starts=N_STARTS)

    def projected_grid(self) -> object:
        return fit_on_grid(replace(self.fixed), self.fixed_y, self.grid)

    # --- theirs

    def lmfit_fits(self, *, warm: bool = False) -> None:
        with np.errstate(divide="ignore"):
            x = np.log(self.problem.compute)
        weights = np.sqrt(self.problem.weights)
        model = lmfit.Model(lambda x, A, B, v, R0: R0 + (A - R0) / (1.0 + np.exp(B * (v - x))))
        A, B, C_mid, R0 = self.model.params
        start = {"A": A, "B": B, "v": np.log(C_mid), "R0": R0}
        if not warm:
            start = {"A": self.y.max() + 0.02, "B": 1.6, "v": np.mean(np.log(self.fixed.compute)), "R0": self.y[0]}
        params = model.make_params(**start)
        for name, low, high in (("A", 0.0, 1.0), ("B", 0.1, 10.0), ("R0", 0.0, 1.0)):
            params[name].set(min=low, max=high)
        for y in self.replicates:
            model.fit(y, params, x=x, weights=weights)

    def cells(self, chosen: np.ndarray, **options: object) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of squares and B in these cells of the paper's grid: the literal loop."""
        C, y, R0 = self.fixed.compute, self.fixed_y, self.fixed.R0
        ssr, exponent = np.full(len(chosen), np.inf), np.full(len(chosen), np.nan)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", OptimizeWarning)
            for k, (i, j) in enumerate(zip(*divmod(chosen, len(self.grid.C_mid)), strict=True)):
                A, C_mid = self.grid.A[i], self.grid.C_mid[j]
                curve = lambda C, B, A=A, C_mid=C_mid: R0 + (A - R0) / (1.0 + (C_mid / C) ** B)  # noqa: E731
                try:
                    (B,), _ = curve_fit(curve, C, y, p0=[1.0], **options)
                except RuntimeError:
                    continue
                ssr[k], exponent[k] = float(np.sum((y - curve(C, B)) ** 2)), B
        return ssr, exponent


def same_cell(run: Run) -> tuple[bool, str]:
    """Run the whole literal loop; return whether the projection picks its cell, and both."""
    ssr, exponent = run.cells(np.arange(len(run.grid.A) * len(run.grid.C_mid)))
    ssr = np.where((exponent >= 0.1) & (exponent <= 10.0), ssr, np.inf)
    best = int(np.argmin(ssr))
    i, j = divmod(best, len(run.grid.C_mid))
    ours = fit_on_grid(run.fixed, run.fixed_y, run.grid)
    A, B, C_mid, _ = ours.params
    same = bool(np.isclose(A, run.grid.A[i], rtol=1e-12) and np.isclose(C_mid, run.grid.C_mid[j], rtol=1e-12))
    text = (
        f"A {A:.3f}, C_mid {C_mid:.1f}, B {B:.6f} (loop: {run.grid.A[i]:.3f}, {run.grid.C_mid[j]:.1f}, "
        f"{exponent[best]:.6f}; SSR differs by {ours.ssr / ssr[best] - 1:.1g})"
    )
    return same, text


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds of taking turns (default 9)")
    parser.add_argument("--lmfit", type=int, default=100, help="lmfit fits timed a round, scaled to 1,000")
    parser.add_argument("--cells", type=int, default=710, help="cells of the literal grid timed a round, of 7,100")
    options = parser.parse_args()
    run = Run(options.lmfit)
    total = len(run.grid.A) * len(run.grid.C_mid)
    cells = np.random.default_rng(0).choice(total, min(options.cells, total), replace=False)

    def many(task, times):  # a task of a millisecond is repeated, so that the clock resolves it
        return lambda: [task() for _ in range(times)]

    repeats = {"whole": 4, "verdict": 10, "one": 50, "anchored": 50, "projected": 20}
    tasks = (run.whole_default, run.fit_with_verdict, run.one_fit, run.one_fit_anchored, run.projected_grid)
    ours = [many(task, times) for task, times in zip(tasks, repeats.values(), strict=True)]
    few = cells[: max(1, len(cells) // 10)]
    theirs = [
        run.lmfit_fits,
        lambda: run.cells(cells),
        lambda: run.lmfit_fits(warm=True),
        lambda: run.cells(few, bounds=(0.1, 10.0)),
    ]
    measured = common.interleaved([*ours, *theirs], options.rounds)
    seconds = {
        name: [t / times for t in column]
        for (name, times), column in zip(repeats.items(), measured[: len(repeats)], strict=True)
    }
    scales = (N_RESAMPLES / options.lmfit, total / len(cells), N_RESAMPLES / options.lmfit, total / len(few))
    for name, scale, column in zip(("lmfit", "literal", "warm", "bounded"), scales, measured[-4:], strict=True):
        seconds[name] = [t * scale for t in column]

    def check(name: str, theirs: str, mine: str, limit: float, note: str = "") -> common.Check:
        a, b = (statistics.median(seconds[k]) for k in (theirs, mine))
        note = f"{1e3 * a:.0f} ms / {1e3 * b:.2f} ms" + note
        return common.Check(name, common.median_ratio(seconds[theirs], seconds[mine]), limit, True, note=note)

    same, cell = same_cell(run)
    starts = f"; {N_STARTS} starts"
    checks = [
        check("1,000 lmfit fits / the whole default", "lmfit", "whole", 70.0),
        check("literal paper grid / the solver's one fit, R0 fixed", "literal", "one", 700.0, starts),
        check("literal paper grid / fit_sigmoid with its verdict", "literal", "verdict", 100.0),
        check("literal paper grid / paper-grid by projection", "literal", "projected", 200.0),
        common.Check("same cell as the literal loop", float(same), 1.0, True, "", cell),
    ]
    if options.json != "-":
        print(
            f"lmfit: {options.lmfit} fits scaled to {N_RESAMPLES}; literal grid: {len(cells)} cells scaled to {total}"
        )
        ms = {name: 1e3 * statistics.median(column) for name, column in seconds.items()}
        warm = common.median_ratio(seconds["warm"], seconds["whole"])
        print(
            f"for information: one fit with R0 anchored {ms['anchored']:.2f} ms; lmfit from the fit of the series "
            f"{ms['warm']:.0f} ms ({warm:.0f}x); literal grid with bounds on B {ms['bounded']:.0f} ms"
        )
    about = common.versions("rlscaling", "numpy", "scipy", "lmfit")
    return common.finish("Speed, one core, 68 points", checks, about, options.json, {"seconds": seconds})


if __name__ == "__main__":
    sys.exit(main())
