"""How a comparison reads: who leads first, then pass rates, ceilings, pairs, the paper's rule, notes; and as JSON."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.printing.document import html_table, text_table
from rlscaling.printing.numbers import interval, number, plus_minus, probability, unit_text
from rlscaling.serialization import finite
from rlscaling.solver.intervals import half_width_68

if TYPE_CHECKING:
    import pandas as pd

    from rlscaling.comparing.compared_recipes import ComparedRecipes
    from rlscaling.comparing.two_recipes import PairComparison


ALL_PAIRS = 6  # recipes up to which every pair is shown; beyond, the leader against the others
MOST_PAIRS = 20
MOST_RECIPES = 40
Table = tuple[str, list[str], list[list[str]]]  # title, header, rows


def headline(c: ComparedRecipes) -> str:
    """Return the first line: whether a recipe leads at the budget, and how sure that is."""
    if not c.recipe(c.leader).verdict.has_curve:
        return "undecided: every run is flat, falling or no sigmoid, so none can be carried to a budget"
    p = c.best[c.leader]
    new = c.probability_best(new_run=True)[c.leader]
    what = f"{c.leader} is best" if c.decided else f"{c.leader} is most likely best"
    return (
        f"{'decided' if c.decided else 'undecided'}: {what} at {number(c.at[0])} {unit_text(c.compute_unit)} "
        f"(probability {probability(p)}; {probability(new)} for new runs)"
    )


def ceiling_line(c: ComparedRecipes) -> str:
    """Return what is known of the ceilings, in a sentence."""
    known = [recipe.name for recipe in c.recipes if recipe.known]
    unknown = len(c.recipes) - len(known)
    if not known:
        return "no ceiling A is identified: nothing is said about who is higher there"
    leaders = c.leaders_by_A
    text = f"highest ceiling A: {_list(leaders)}" + (f" (equal within {number(c.margin)})" if len(leaders) > 1 else "")
    lower = [name for name in known if name not in leaders and str(c.verdict(name, leaders[0])) == "lower"]
    text += f"; {_list(lower)} lower" if lower else ""
    open_ = [name for name in known if name not in leaders and name not in lower]
    text += f"; {_list(open_)} undecided" if open_ else ""
    return text + (f"; {unknown} not identified" if unknown else "")


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _signed(value: float, error: float) -> str:
    text = plus_minus(value, error)
    return text if value < 0 or text.startswith("-") else f"+{text}"


def _order(c: ComparedRecipes) -> list[RecipeEstimate]:
    """Return the recipes to show, the likeliest best first, those that are no sigmoid last."""
    return sorted(c.recipes, key=lambda one: (-max(c.best[one.name], 0.0), -float(one.predict(c.at[0]))))[:MOST_RECIPES]


def budget_tables(c: ComparedRecipes) -> list[Table]:
    """Return, for each budget, one row a recipe: its pass rate there and the probability of being best."""
    found = []
    for budget in c.at:
        best, new = c.probability_best(budget), c.probability_best(budget, new_run=True)
        rows = []
        for recipe in _order(c):
            draws = recipe.curves(np.array([[budget]]), Scope.RECIPE)[:, 0]
            value = plus_minus(float(recipe.predict(budget)), half_width_68(draws))
            value = value if c.supported(recipe.name, budget) else "not identified"
            p = probability(best[recipe.name]), probability(new[recipe.name])
            rows.append([recipe.name, value, interval(*c.interval(draws)), *p])
        found.append(("", [f"R at {number(budget)}", "", _level(c), "P(best)", "new runs"], rows))
    return found


def ceiling_table(c: ComparedRecipes) -> Table:
    """Return one row a recipe: what is known of its ceiling, and both intervals."""
    rows = []
    for recipe in _order(c):
        A = recipe.ceilings(Scope.RECIPE)
        low, high = c.interval(A)
        new_low, new_high = c.interval(recipe.ceilings(Scope.NEW_RUN))
        value = plus_minus(recipe.summary["A"], half_width_68(A)) if recipe.known else "not identified"
        rows.append(
            [recipe.name, str(recipe.n_seeds), str(recipe.verdict), value, interval(low, high),
             interval(min(low, new_low), max(high, new_high))]
        )  # fmt: skip
    return "", ["A", "seeds", "verdict", "", f"{_level(c)} this run", f"{_level(c)} new run"], rows


def shape_table(c: ComparedRecipes) -> Table:
    """Return one row a recipe: C_mid, C90 and B at the R0 of the comparison."""
    rows = []
    for recipe in _order(c):
        if not recipe.verdict.has_curve:
            continue
        row = [recipe.name]
        for share in (0.5, 0.9):
            value, draws = recipe.share_compute(share)
            row.append(plus_minus(value, half_width_68(draws)))
        rows.append([*row, plus_minus(recipe.summary["B"], half_width_68(recipe.exponents()))])
    title = f"at R0 = {number(c.R0, 3)}, shared" if c.R0 is not None else "each at its own R0"
    return title, ["", "C_mid", "C90", "B"], rows


def _level(c: ComparedRecipes) -> str:
    return f"{100 * c.confidence_level:g} %"


def shown_pairs(c: ComparedRecipes) -> list[PairComparison]:
    """Return the pairs to show: all of a few recipes, else the leader against the likeliest others."""
    order = [recipe.name for recipe in _order(c) if recipe in c.contenders]
    if len(order) <= ALL_PAIRS:
        pairs = [(x, y) for i, x in enumerate(order) for y in order[i + 1 :]]
    else:
        pairs = [(order[0], y) for y in order[1 : MOST_PAIRS + 1]]
    return [c.pair(x, y) for x, y in pairs]


def pair_tables(c: ComparedRecipes, pairs: list[PairComparison]) -> list[Table]:
    """Return the pairs: pass rate at the first budget, compute, ceilings."""
    R_rows, compute_rows, A_rows = [], [], []
    for m in pairs:
        R, A, pair = m.pass_rate[c.at[0]], m.A, f"{m.x} - {m.y}"
        R_rows.append(
            [pair, _signed(R.value, 0.25 * (R.high - R.low)), interval(R.low, R.high), probability(R.p_greater),
             probability(R.p_greater_new_run), str(m.verdict_R)]
        )  # fmt: skip
        times, C90 = m.multiplier, m.share_ratio[0.9]
        cross = number(m.crossover.compute) if np.isfinite(m.crossover.compute) else "none"
        compute_rows.append(
            [f"{m.x}, {m.y}", f"{number(times.value, 2)} {interval(*times.confidence_interval)}",
             f"{number(C90[0], 2)} {interval(C90[1], C90[2])}", cross]
        )  # fmt: skip
        known = c.recipe(m.x).known and c.recipe(m.y).known
        value = _signed(A.value, 0.25 * (A.high - A.low)) if known else "not identified"
        A_rows.append(
            [pair, value, interval(A.low, A.high), probability(m.p_within), probability(A.p_greater),
             probability(A.p_greater_new_run), str(m.verdict_A)]
        )  # fmt: skip
    within = f"P(within {number(c.margin)})"
    return [
        ("", [f"R at {number(c.at[0])}", "difference", _level(c), "P(higher)", "new runs", "verdict"], R_rows),
        ("", ["compute", "times less", "to 90 % of the gain", "cross at"], compute_rows),
        ("", ["A", "difference", _level(c), within, "P(higher)", "new runs", "verdict"], A_rows),
    ]


def tail_lines(c: ComparedRecipes, pairs: list[PairComparison]) -> list[str]:
    """Return what stands below the tables: crossovers, the refit, the seeds, notes."""
    lines = [] if c.common_ceiling is None else c.common_ceiling.lines()
    lines += [str(m.crossover) for m in pairs if np.isfinite(m.crossover.compute)]
    lines += [
        f"{one.name} takes no part: {one.fits[0].reason if one.n_seeds == 1 else one.verdict}"
        for one in c.recipes
        if one not in c.contenders
    ]
    lines += [f"note: {note}" for note in c.notes]
    if c.spread is None:
        lines.append(
            f"'new run' adds the spread between seeds: sd {c.seed_sd:g} of A; no recipe has two seeds that tell it"
        )
    if len(c.recipes) > MOST_RECIPES:
        lines.append(f"{len(c.recipes) - MOST_RECIPES} more recipes are in .table")
    return lines


def common_table(c: ComparedRecipes) -> Table | None:
    """Return the refit with a common ceiling, where two or more are equal to the highest."""
    refit = c.common_ceiling
    if refit is None:
        return None
    header = ["", "B", _level(c), "C_mid", "B moved by"]
    return refit.sentence(), header, refit.rows()[:MOST_RECIPES]


def tables(c: ComparedRecipes, pairs: list[PairComparison]) -> list[Table]:
    """Return all tables in order."""
    common = common_table(c)
    of_pairs = pair_tables(c, pairs) if pairs else []
    return [*budget_tables(c), ceiling_table(c), shape_table(c), *of_pairs, *([common] if common else [])]


def comparison_text(c: ComparedRecipes) -> str:
    """Return the plain-text form of a comparison."""
    pairs = shown_pairs(c)
    lines = [headline(c), ceiling_line(c)]
    for title, header, rows in tables(c, pairs):
        lines += ["", *([f"  {title}"] if title else []), text_table(rows, header)]
    if c.spread is not None:
        lines += ["", *(f"  {line}" for line in str(c.spread).splitlines())]
    return "\n".join([*lines, "", *(f"  {line}" for line in tail_lines(c, pairs))])


def comparison_html(c: ComparedRecipes) -> str:
    """Return the HTML form of a comparison, for notebooks."""
    pairs = shown_pairs(c)
    parts = [f"<div><b>{html.escape(headline(c))}</b></div><div>{html.escape(ceiling_line(c))}</div>"]
    parts += [html_table(rows, header, title) for title, header, rows in tables(c, pairs)]
    parts += [] if c.spread is None else [c.spread._repr_html_()]
    return "".join(parts + [f"<div><small>{html.escape(line)}</small></div>" for line in tail_lines(c, pairs)])


def comparison_json(c: ComparedRecipes) -> dict[str, Any]:
    """Return the comparison as JSON-ready values."""
    new = c.probability_best(new_run=True)
    common = c.common_ceiling
    return {
        "verdict": "decided" if c.decided else "undecided",
        "best": c.leader,
        "at": list(c.at),
        "probability_best": {name: finite(p) for name, p in c.best.items()},
        "probability_best_new_run": {name: finite(p) for name, p in new.items()},
        "highest_A": list(c.leaders_by_A),
        "margin": c.margin,
        "R0": c.R0,
        "confidence_level": c.confidence_level,
        "compute_unit": c.compute_unit,
        "common_compute": list(c.common_compute),
        "recipes": [_recipe_json(c, recipe) for recipe in c.recipes],
        "pairs": [m.to_dict() for m in shown_pairs(c)],
        "common_ceiling": None if common is None else common.to_dict(),
        "seed_sd": c.seed_sd,
        "seed_spread": None if c.spread is None else c.spread.to_dict(),
        "n_resamples": c.group.size,
        "seed": c.seed,
        "notes": list(c.notes),
    }


def _recipe_json(c: ComparedRecipes, recipe: RecipeEstimate) -> dict[str, Any]:
    row = {name: finite(value) for name, value in recipe.summary.items()}
    draws = {"A": recipe.ceilings(Scope.RECIPE), "B": recipe.exponents(), "C_mid": recipe.share_compute(0.5)[1]}
    at = []
    for budget in c.at:
        curve = recipe.curves(np.array([[budget]]), Scope.RECIPE)[:, 0]
        at.append(
            {
                "compute": budget,
                "pass_rate": finite(float(recipe.predict(budget))),
                "ci": [finite(v) for v in c.interval(curve)],
                "supported": bool(c.supported(recipe.name, budget)),
            }
        )
    return {
        "recipe": recipe.name,
        "verdict": str(recipe.verdict),
        "n_seeds": recipe.n_seeds,
        **row,
        "C90": finite(recipe.share_compute(0.9)[0]),
        "ci": {name: [finite(v) for v in c.interval(values)] for name, values in draws.items()},
        "ci_new_run": {"A": [finite(v) for v in c.interval(recipe.ceilings(Scope.NEW_RUN))]},
        "extrapolation": at,
    }


def recipe_frame(c: ComparedRecipes) -> pd.DataFrame:
    """Return one row a recipe: verdict, pass rate and P(best) at the first budget, parameters with intervals."""
    import pandas as pd

    rows, C = [], np.array([[c.at[0]]])
    new_best = c.probability_best(new_run=True)
    for recipe in c.recipes:
        R_low, R_high = c.interval(recipe.curves(C, Scope.RECIPE)[:, 0])
        A_low, A_high = c.interval(recipe.ceilings(Scope.RECIPE))
        new_low, new_high = c.interval(recipe.ceilings(Scope.NEW_RUN))
        rows.append(
            {
                "seeds": recipe.n_seeds, "verdict": str(recipe.verdict), "at": c.at[0],
                "pass_rate": float(recipe.predict(c.at[0])), "pass_rate_low": R_low, "pass_rate_high": R_high,
                "p_best": c.best[recipe.name], "p_best_new_run": new_best[recipe.name],
                "A": recipe.summary["A"], "A_low": A_low, "A_high": A_high,
                "A_new_run_low": min(A_low, new_low), "A_new_run_high": max(A_high, new_high),
                "B": recipe.summary["B"], "C_mid": recipe.summary["C_mid"], "C90": recipe.share_compute(0.9)[0],
                "R0": recipe.summary["R0"],
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
