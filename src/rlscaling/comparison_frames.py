"""A comparison as DataFrames: one row a recipe, one row a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rlscaling.rivals import Of

if TYPE_CHECKING:
    import pandas as pd

    from rlscaling.comparison import ComparedRecipes


def recipe_frame(c: ComparedRecipes) -> pd.DataFrame:
    """Return one row a recipe: verdict, pass rate and P(best) at the first budget, parameters with intervals."""
    import pandas as pd

    rows, C = [], np.array([[c.at[0]]])
    new_best = c.probability_best(new_run=True)
    for rival in c.rivals:
        R_low, R_high = c.interval(rival.curves(C, Of.RECIPE)[:, 0])
        A_low, A_high = c.interval(rival.ceilings(Of.RECIPE))
        new_low, new_high = c.interval(rival.ceilings(Of.NEW_RUN))
        rows.append(
            {
                "seeds": rival.n_seeds, "verdict": str(rival.verdict), "at": c.at[0],
                "pass_rate": float(rival.predict(c.at[0])), "pass_rate_low": R_low, "pass_rate_high": R_high,
                "p_best": c.best[rival.name], "p_best_new_run": new_best[rival.name],
                "A": rival.summary["A"], "A_low": A_low, "A_high": A_high,
                "A_new_run_low": min(A_low, new_low), "A_new_run_high": max(A_high, new_high),
                "B": rival.summary["B"], "C_mid": rival.summary["C_mid"], "C90": rival.share_compute(0.9)[0],
                "R0": rival.summary["R0"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows, index=pd.Index(c.names, name="recipe"))


def pair_frame(c: ComparedRecipes) -> pd.DataFrame:
    """Return one row a pair: ``x`` minus ``y`` of the pass rate at the first budget and of the ceiling."""
    import pandas as pd

    columns: dict[str, object] = {}
    names = np.array(c.names)
    for what, pairs in (("R", c.R_pairs), ("A", c.A_pairs)):
        columns |= {"x": names[pairs.first], "y": names[pairs.second]}
        columns |= {
            f"{what}_difference": pairs.difference, f"{what}_low": pairs.low, f"{what}_high": pairs.high,
            f"{what}_p_greater": pairs.p_greater, f"{what}_p_within": pairs.p_within,
            f"{what}_verdict": [str(verdict) for verdict in pairs.verdicts],
        }  # fmt: skip
    return pd.DataFrame(columns)
