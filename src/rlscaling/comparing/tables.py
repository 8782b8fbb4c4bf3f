"""What a comparison prints: a sentence on the leader, tables of recipes and pairs, lines below; and its JSON record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlscaling.comparing.decomposition import decomposition_of, has_steps
from rlscaling.comparing.pairwise import DECIDED, PairVerdict
from rlscaling.comparing.recipe_estimate import RecipeEstimate, Scope
from rlscaling.printing.document import Table
from rlscaling.printing.numbers import interval, number, plus_minus, probability, unit_text
from rlscaling.solver.intervals import half_width_68

if TYPE_CHECKING:
    import pandas as pd

    from rlscaling.comparing.compared_recipes import ComparedRecipes
    from rlscaling.comparing.two_recipes import PairComparison


ALL_PAIRS = 6  # recipes up to which every pair is shown; beyond, the leader against the others
MOST_PAIRS = 20
MOST_RECIPES = 40


def headline(c: ComparedRecipes) -> str:
    """Return the first line: which recipe leads at the budget, how certain that is, and which have no curve."""
    leader, where = c.recipe(c.leader), f"{number(c.compute[0])} {unit_text(c.compute_unit)}"
    if not leader.verdict.has_curve:
        return (
            f"undecided: every run is flat, falling or no sigmoid: {_list([_as_named(recipe) for recipe in c.recipes])}"
        )
    R = number(leader.expected(c.compute[0]), 3)
    if c.standing_above:
        top = c.recipe(c.standing_above[0])
        text = (
            f"undecided: {top.name} ({top.verdict}) stands at {number(top.expected(c.compute[0]), 3)} and is not "
            f"extrapolated; of the others {leader.name} is most likely best at {where}, with {R}"
        )
    elif c.ahead_so_far:
        top, end = c.recipe(c.ahead_so_far[0]), c.common_compute[1]
        higher = number(top.level(end)[0] - leader.level(end)[0], 2)
        text = (
            f"undecided: {top.name} stands {higher} higher where the common compute ends; {leader.name} is most likely "
            f"best at {where} ({_probabilities(c)})"
        )
    elif c.certainty >= DECIDED and c.as_good:
        text = (
            f"undecided: {leader.name} and {_list(c.as_good)} are equal within {number(c.margin)} at {where}; "
            f"{leader.name} is most likely best ({_probabilities(c)})"
        )
    else:
        what = f"{leader.name} is best" if c.decided else f"{leader.name} is most likely best"
        text = f"{'decided' if c.decided else 'undecided'}: {what} at {where} ({_probabilities(c)})"
    rest = [recipe for recipe in c.recipes if not recipe.verdict.has_curve and recipe.name not in c.standing_above[:1]]
    return text + (f"; not extrapolated: {_list([_as_named(recipe) for recipe in rest])}" if rest else "")


def _probabilities(c: ComparedRecipes) -> str:
    new = c.probability_best(new_run=True)[c.leader]
    return f"probability {probability(c.best[c.leader])}; {probability(new)} for new runs"


def _as_named(recipe: RecipeEstimate) -> str:
    """Return a recipe without a curve with what is wrong with it, and where it stands."""
    return f"{recipe.name} ({recipe.verdict} at {number(recipe.summary['A'], 3)})"


def ceiling_line(c: ComparedRecipes) -> str:
    """Return a sentence on the ceilings: which are highest, lower, undecided or not identified."""
    identified = [recipe.name for recipe in c.recipes if recipe.identified]
    n_others = len(c.recipes) - len(identified)
    if not identified:
        return "no ceiling A is identified, so none is called higher"
    leaders = c.leaders_by_A
    others = [name for name in identified if name not in leaders]
    lower = [name for name in others if c.pair_verdict(name, leaders[0]) is PairVerdict.LOWER]
    undecided = [name for name in others if name not in lower]
    text = f"{'most likely ' if undecided else ''}highest ceiling A: {_list(leaders)}"
    text += f" (equal within {number(c.margin)})" if len(leaders) > 1 else ""
    text += f"; {_list(lower)} lower" if lower else ""
    text += f"; {_list(undecided)} undecided" if undecided else ""
    return text + (f"; {n_others} not identified" if n_others else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _signed(value: float, error: float) -> str:
    text = plus_minus(value, error, may_be_zero=True)
    return text if value < 0 or text.startswith("-") else f"+{text}"


def _order(c: ComparedRecipes) -> list[RecipeEstimate]:
    """Return the recipes to show, the most likely best first, those without a rising sigmoid last."""

    def place(recipe: RecipeEstimate) -> tuple[float, float]:
        return -max(c.best[recipe.name], 0.0), -recipe.expected(c.compute[0])

    return sorted(c.recipes, key=place)[:MOST_RECIPES]


def budget_tables(c: ComparedRecipes) -> list[Table]:
    """Return a table for each budget, one row per recipe: its pass rate and its probability of being the best."""
    tables = []
    for budget in c.compute:
        best, new = c.probability_best(budget), c.probability_best(budget, new_run=True)
        rows = []
        for recipe in _order(c):
            draws = recipe.forecast(budget, Scope.RECIPE)
            value = plus_minus(recipe.expected(budget), half_width_68(draws))
            if not recipe.verdict.has_curve:
                value = f"{recipe.verdict}, at {value}"
            elif not c.supported(recipe.name, budget):
                value = "not identified"
            p = probability(best[recipe.name]), probability(new[recipe.name])
            rows.append([recipe.name, value, interval(*c.interval(draws)), *p])
        tables.append(Table.of([f"R at {number(budget)}", "", _level(c), "P(best)", "new runs"], rows))
    return tables


def ceiling_table(c: ComparedRecipes) -> Table:
    """Return one row per recipe: verdict, ceiling and both intervals; the title says which ceilings are highest."""
    rows = []
    for recipe in _order(c):
        A = recipe.ceilings(Scope.RECIPE)
        low, high = c.interval(A)
        new_low, new_high = c.interval(recipe.ceilings(Scope.NEW_RUN))
        value = plus_minus(recipe.summary["A"], half_width_68(A)) if recipe.identified else "not identified"
        rows.append(
            [recipe.name, str(recipe.n_seeds), str(recipe.verdict), value, interval(low, high),
             interval(min(low, new_low), max(high, new_high))]
        )  # fmt: skip
    header = ["A", "seeds", "verdict", "", f"{_level(c)} this run", f"{_level(c)} new run"]
    return Table.of(header, rows, ceiling_line(c))


def shape_table(c: ComparedRecipes) -> Table:
    """Return one row per recipe: C_mid, C90 and B at the R0 of the comparison."""
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
    return Table.of(["", "C_mid", "C90", "B"], rows, title)


def _level(c: ComparedRecipes) -> str:
    return f"{100 * c.confidence_level:g} %"


def shown_pairs(c: ComparedRecipes) -> list[PairComparison]:
    """Return the pairs to show: all pairs of a few recipes, else the leader against the most likely others."""
    order = [recipe.name for recipe in _order(c) if recipe in c.contenders]
    if len(order) <= ALL_PAIRS:
        pairs = [(x, y) for i, x in enumerate(order) for y in order[i + 1 :]]
    else:
        pairs = [(order[0], y) for y in order[1 : MOST_PAIRS + 1]]
    return [c.pair(x, y) for x, y in pairs]


def pair_tables(c: ComparedRecipes, pairs: Sequence[PairComparison]) -> list[Table]:
    """Return three tables, one row per pair: pass rate at the first budget, compute, and ceiling."""
    R_rows, compute_rows, A_rows = [], [], []
    for pair in pairs:
        R, A, label = pair.pass_rate[c.compute[0]], pair.A, f"{pair.x} - {pair.y}"
        R_rows.append(
            [label, _signed(R.value, 0.25 * (R.high - R.low)), interval(R.low, R.high), probability(R.p_greater),
             probability(R.p_greater_new_run), str(pair.verdict_R)]
        )  # fmt: skip
        times, C90 = pair.multiplier, pair.share_ratio[0.9]
        cross = number(pair.crossover.compute) if np.isfinite(pair.crossover.compute) else "none"
        compute_rows.append(
            [f"{pair.y} / {pair.x}", f"{number(times.value, 2)} {interval(*times.confidence_interval)}",
             f"{number(C90[0], 2)} {interval(C90[1], C90[2])}", cross]
        )  # fmt: skip
        identified = c.recipe(pair.x).identified and c.recipe(pair.y).identified
        value = _signed(A.value, 0.25 * (A.high - A.low)) if identified else "not identified"
        A_rows.append(
            [label, value, interval(A.low, A.high), probability(pair.p_within), probability(A.p_greater),
             probability(A.p_greater_new_run), str(pair.verdict_A)]
        )  # fmt: skip
    within = f"P(within {number(c.margin)})"
    return [
        Table.of([f"R at {number(c.compute[0])}", "difference", _level(c), "P(higher)", "new runs", "verdict"], R_rows),
        Table.of(["compute needed", "for equal pass rate", "for 90 % of the gain", "curves cross at"], compute_rows),
        Table.of(["A", "difference", _level(c), within, "P(higher)", "new runs", "verdict"], A_rows),
    ]


def tail_lines(c: ComparedRecipes, pairs: Sequence[PairComparison]) -> list[str]:
    """Return the lines below the tables: differences of B, crossovers, recipes left out, notes."""
    lines = [] if c.common_ceiling is None else c.common_ceiling.footnotes()
    lines += _shape_lines(c, pairs)
    lines += [line for pair in pairs for line in _decomposition_lines(c, pair)]
    lines += [str(pair.crossover) for pair in pairs if np.isfinite(pair.crossover.compute)]
    lines += [
        f"{recipe.name} is not extrapolated: {recipe.fits[0].reason if recipe.n_seeds == 1 else recipe.verdict}"
        for recipe in c.recipes
        if recipe not in c.contenders
    ]
    lines += [f"note: {note}" for note in c.notes]
    if c.spread is None:
        assumed = f"sd {c.seed_sd:g} of A, assumed; no recipe has two runs to estimate it from"
        lines.append(f"'new run' adds the spread between seeds: {assumed}")
    if len(c.recipes) > MOST_RECIPES:
        lines.append(f"{len(c.recipes) - MOST_RECIPES} more recipes are in to_frame()")
    return lines


def _decomposition_lines(c: ComparedRecipes, pair: PairComparison) -> list[str]:
    """Return where the multiplier of a pair comes from, if both reach the pass rate and say their steps."""
    fits = {name: c.recipe(name).fits for name in (pair.x, pair.y)}
    known = all(has_steps(fit) for runs in fits.values() for fit in runs)
    if not known or not 0.0 < pair.multiplier.value < math.inf:
        return []
    return [decomposition_of(pair.multiplier, fits, c.seed).headline]


def _shape_lines(c: ComparedRecipes, pairs: Sequence[PairComparison]) -> list[str]:
    """Return a sentence for every shown difference of B or C_mid with each recipe's own ceiling."""
    lines = []
    for on, found in (("B", c.B_pairs), ("C_mid", c.C_mid_pairs)):
        for pair in pairs:
            verdict = c.pair_verdict(pair.x, pair.y, on=on)
            if verdict is PairVerdict.UNDECIDED:
                continue
            i, j = c.names.index(pair.x), c.names.index(pair.y)
            row, sign = found.row(min(i, j), max(i, j)), 1.0 if i < j else -1.0
            low, high = sorted((sign * float(found.low[row]), sign * float(found.high[row])))
            if on == "C_mid":
                what = f"ratio {number(math.exp(sign * found.difference[row]), 2)} {interval(*np.exp([low, high]))}"
            else:
                what = f"difference {sign * found.difference[row]:+.2f} {interval(low, high)}"
            lines.append(
                f"{on} of {pair.x} is {verdict} than that of {pair.y}: {what}, if both are sigmoids with one R0"
            )
    return lines[:MOST_PAIRS]


def common_table(c: ComparedRecipes) -> list[Table]:
    """Return the refit with a common ceiling; nothing if no other ceiling equals the highest."""
    if c.common_ceiling is None:
        return []
    return [_titled(table, c.common_ceiling.headline) for table in c.common_ceiling.tables()]


def _titled(table: Table, title: str) -> Table:
    return Table(table.header, table.rows[:MOST_RECIPES], title)


def tables(c: ComparedRecipes, pairs: Sequence[PairComparison]) -> list[Table]:
    """Return all tables in order."""
    spread = [] if c.spread is None else [_titled(table, c.spread.headline) for table in c.spread.tables()]
    return [
        *budget_tables(c), ceiling_table(c), shape_table(c), *pair_tables(c, pairs), *common_table(c), *spread,
    ]  # fmt: skip


def comparison_record(c: ComparedRecipes, pairs: Sequence[PairComparison]) -> dict[str, Any]:
    """Return the results of a comparison by name, without the draws."""
    return {
        "headline": headline(c),
        "decided": c.decided,
        "best": c.leader,
        "standing_above": c.standing_above,
        "ahead_so_far": c.ahead_so_far,
        "at": c.compute,
        "probability_best": c.best,
        "probability_best_new_run": c.probability_best(new_run=True),
        "highest_A": c.leaders_by_A,
        "margin": c.margin,
        "R0": c.R0,
        "confidence_level": c.confidence_level,
        "compute_unit": c.compute_unit,
        "common_compute": c.common_compute,
        "recipes": [_recipe_record(c, recipe) for recipe in c.recipes],
        "pairs": [pair.to_dict() for pair in pairs],
        "common_ceiling": None if c.common_ceiling is None else c.common_ceiling.to_dict(),
        "seed_sd": c.seed_sd,
        "seed_spread": None if c.spread is None else c.spread.to_dict(),
        "n_resamples": c.group.size,
        "seed": c.seed,
        "notes": c.notes,
    }


def _recipe_record(c: ComparedRecipes, recipe: RecipeEstimate) -> dict[str, Any]:
    draws = {"A": recipe.ceilings(Scope.RECIPE), "B": recipe.exponents(), "C_mid": recipe.share_compute(0.5)[1]}
    extrapolation = [
        {
            "compute": budget,
            "pass_rate": recipe.expected(budget),
            "ci": c.interval(recipe.forecast(budget, Scope.RECIPE)),
            "supported": bool(c.supported(recipe.name, budget)),
        }
        for budget in c.compute
    ]
    return {
        "recipe": recipe.name,
        "verdict": str(recipe.verdict),
        "n_seeds": recipe.n_seeds,
        **recipe.summary,
        "C90": recipe.share_compute(0.9)[0],
        "ci": {name: c.interval(values) for name, values in draws.items()},
        "ci_new_run": {"A": c.interval(recipe.ceilings(Scope.NEW_RUN))},
        "extrapolation": extrapolation,
    }


def recipe_frame(c: ComparedRecipes) -> pd.DataFrame:
    """Return one row per recipe: verdict, pass rate and P(best) at the first budget, parameters with intervals."""
    import pandas as pd

    rows, budget = [], c.compute[0]
    new_best = c.probability_best(new_run=True)
    for recipe in c.recipes:
        R_low, R_high = c.interval(recipe.forecast(budget, Scope.RECIPE))
        A_low, A_high = c.interval(recipe.ceilings(Scope.RECIPE))
        new_low, new_high = c.interval(recipe.ceilings(Scope.NEW_RUN))
        rows.append(
            {
                "seeds": recipe.n_seeds, "verdict": str(recipe.verdict), "at": budget,
                "pass_rate": recipe.expected(budget), "pass_rate_low": R_low, "pass_rate_high": R_high,
                "p_best": c.best[recipe.name], "p_best_new_run": new_best[recipe.name],
                "A": recipe.summary["A"], "A_low": A_low, "A_high": A_high,
                "A_new_run_low": min(A_low, new_low), "A_new_run_high": max(A_high, new_high),
                "B": recipe.summary["B"], "C_mid": recipe.summary["C_mid"], "C90": recipe.share_compute(0.9)[0],
                "R0": recipe.summary["R0"],
            }
        )  # fmt: skip
    return pd.DataFrame(rows, index=pd.Index(c.names, name="recipe"))


def pair_frame(c: ComparedRecipes) -> pd.DataFrame:
    """Return one row per pair: ``x`` minus ``y`` of the pass rate at the first budget and of the ceiling."""
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
