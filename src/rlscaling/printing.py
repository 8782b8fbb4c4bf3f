"""How results read: the verdict first, then parameters with their errors, then what was done and noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscaling.format import error_decimals, html_table, interval, number, plus_minus, robust_error, text_table

if TYPE_CHECKING:
    from rlscaling.intervals import Bootstrap, Forecast, Reach
    from rlscaling.results import SigmoidFit

UNIT_TEXT = {
    "gpu-hours": "GPU-hours",
    "device-hours": "device-hours",
    "wall-hours": "wall hours",
    "flops": "FLOPs",
}
NO_BARE_CEILING = ("ceiling-not-identified", "flat", "falling")
NO_MIDPOINT = ("flat", "falling")  # B and C_mid mean nothing there


def unit_text(unit: str) -> str:
    """Return a compute unit as it is written in a sentence."""
    return UNIT_TEXT.get(unit, unit)


def headline(fit: SigmoidFit) -> str:
    """Return the first line of a printed fit: the verdict, the run and the reason."""
    return f"{fit.verdict}{f' [{fit.name}]' if fit.name else ''}: {fit.reason}"


def not_identified(fit: SigmoidFit, name: str) -> bool:
    """Return whether a parameter must not be printed as a number."""
    verdict = str(fit.verdict)
    return (name == "A" and verdict in NO_BARE_CEILING) or (name in ("B", "C_mid") and verdict in NO_MIDPOINT)


def twice_lines(fit: SigmoidFit) -> list[str]:
    """Return the line on R at twice the data, where the ceiling is not identified: as far as a number is given."""
    if fit.at_twice is None or str(fit.verdict) != "ceiling-not-identified":
        return []
    value, low, high = fit.at_twice
    budget = f"{number(2.0 * fit.compute_range[1])} {unit_text(fit.compute_unit)}"
    return [f"  R at {budget} (twice the data): {plus_minus(value, (high - low) / 4.0)}  {interval(low, high)}"]


def parameter_rows(fit: SigmoidFit) -> list[list[str]]:
    """Return one row a parameter: name, value with error, 95 % interval, remark."""
    rows = []
    ci, error = fit.confidence_interval or {}, fit.robust_error or {}
    for name in ("A", "B", "C_mid", "R0"):
        value = getattr(fit.params, name)
        low_high = ci.get(name)
        text = "not identified" if not_identified(fit, name) else plus_minus(value, error.get(name, 0.0))
        fixed = low_high is not None and low_high[0] == low_high[1] == value
        span = interval(*low_high) if low_high and not fixed and not _meaningless(fit, name) else ""
        rows.append([name, text, span, _remark(fit, name, low_high)])
    return rows


def _meaningless(fit: SigmoidFit, name: str) -> bool:
    return name in ("B", "C_mid") and str(fit.verdict) in NO_MIDPOINT


def _remark(fit: SigmoidFit, name: str, low_high: tuple[float, float] | None = None) -> str:
    if name == "A" and low_high is not None and str(fit.verdict) == "ceiling-not-identified":
        low, high = low_high
        return f"at least {number(low, min(error_decimals((high - low) / 4.0), 9))}"
    if name == "R0":
        return fit.R0_source
    if name in fit.at_bound:
        return "at its bound"
    if getattr(fit.options, name, None) is not None:
        return "given"
    return unit_text(fit.compute_unit) if name == "C_mid" else ""


def provenance(fit: SigmoidFit) -> str:
    """Return one line on the data: how many points, over which range, what was left out."""
    low, high = fit.compute_range
    left_out = len(fit.data) - fit.n_points - (fit.data.anchor is not None)
    parts = [f"{fit.n_points} points, {number(low)} to {number(high)} {unit_text(fit.compute_unit)}"]
    if left_out:
        parts.append(f"{left_out} left out (min_compute {number(fit.options.min_compute)})")
    return ", ".join(parts)


def fit_text(fit: SigmoidFit) -> str:
    """Return the plain-text form of a fit."""
    rows = parameter_rows(fit)
    header = ["", "estimate", "95 % interval", ""] if fit.confidence_interval else ["", "estimate", "", ""]
    lines = [headline(fit), text_table(rows, header), *twice_lines(fit), "  " + provenance(fit)]
    lines += [f"  note: {note}" for note in fit.notes]
    return "\n".join(lines)


def fit_html(fit: SigmoidFit) -> str:
    """Return the HTML form of a fit, for notebooks."""
    header = ["", "estimate", "95 % interval", ""]
    return html_table(
        parameter_rows(fit),
        header,
        headline(fit),
        [*(t.strip() for t in twice_lines(fit)), provenance(fit), *fit.notes],
    )


def bootstrap_rows(boot: Bootstrap) -> list[list[str]]:
    """Return one row a parameter: name, value with error, this-run interval, new-run interval."""
    rows = []
    ci, new = boot.confidence_interval, boot.confidence_interval_new_run
    for j, name in enumerate(("A", "B", "C_mid", "R0")):
        value = getattr(boot.fit.params, name)
        error = robust_error(boot.distribution[:, j])
        text = "not identified" if not_identified(boot.fit, name) else plus_minus(value, error)
        low, high = ci[name]
        this = "" if low == high == value or _meaningless(boot.fit, name) else interval(low, high)
        remark = _remark(boot.fit, name, ci[name])
        rows.append([name, text, this, interval(*new[name]) if name in new else "", remark])
    return rows


def _level(confidence_level: float) -> str:
    return f"{100 * confidence_level:g} %"


def bootstrap_text(boot: Bootstrap) -> str:
    """Return the plain-text form of a bootstrap."""
    header = [
        "",
        "estimate",
        f"{_level(boot.confidence_level)} this run",
        f"{_level(boot.confidence_level)} new run",
        "",
    ]
    lines = [headline(boot.fit), text_table(bootstrap_rows(boot), header), *twice_lines(boot.fit)]
    lines.append(f"  {boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}")
    lines.append(
        f"  'new run' adds the spread between seeds: sd {boot.seed_sd:g} of A; 'this run' is what more of this run "
        "would show"
    )
    lines += [f"  note: {note}" for note in boot.notes]
    return "\n".join(lines)


def bootstrap_html(boot: Bootstrap) -> str:
    """Return the HTML form of a bootstrap, for notebooks."""
    level = _level(boot.confidence_level)
    header = ["", "estimate", f"{level} this run", f"{level} new run", ""]
    foot = [
        *twice_lines(boot.fit),
        f"{boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}",
        *boot.notes,
    ]
    return html_table(bootstrap_rows(boot), header, headline(boot.fit), foot)


def forecast_rows(forecast: Forecast) -> list[list[str]]:
    """Return one row a budget: compute, times the data, pass rate, this-run and new-run interval."""
    rows = []
    for i, compute in enumerate(forecast.compute):
        error = robust_error(forecast.distribution[:, i])
        value = plus_minus(float(forecast.pass_rate[i]), error) if forecast.supported[i] else "not identified"
        low, high = forecast.confidence_interval[i]
        new_low, new_high = forecast.confidence_interval_new_run[i]
        rows.append(
            [
                number(float(compute)),
                f"{forecast.beyond[i]:.3g}x",
                value,
                interval(low, high),
                interval(new_low, new_high),
            ]
        )
    return rows


def forecast_text(forecast: Forecast) -> str:
    """Return the plain-text form of a forecast."""
    level = _level(forecast.confidence_level)
    header = [
        unit_text(forecast.fit.compute_unit),
        "of data",
        "pass rate",
        f"{level} this run",
        f"{level} new run",
    ]
    lines = [headline(forecast.fit), text_table(forecast_rows(forecast), header)]
    lines += [f"  note: {note}" for note in forecast.notes]
    return "\n".join(lines)


def forecast_html(forecast: Forecast) -> str:
    """Return the HTML form of a forecast, for notebooks."""
    level = _level(forecast.confidence_level)
    header = [
        unit_text(forecast.fit.compute_unit),
        "of data",
        "pass rate",
        f"{level} this run",
        f"{level} new run",
    ]
    return html_table(forecast_rows(forecast), header, headline(forecast.fit), forecast.notes)


def reach_text(reach: Reach) -> str:
    """Return one sentence on the compute to reach a pass rate."""
    low, high = reach.confidence_interval
    level, unit = _level(reach.confidence_level), unit_text(reach.fit.compute_unit)
    if reach.compute == float("inf"):
        return (
            f"pass rate {reach.pass_rate:g} is never reached by the curve (by {100 * reach.probability:.0f} % of the "
            f"draws; {level}: from {number(low)} {unit})"
        )
    return (
        f"pass rate {reach.pass_rate:g} at {number(reach.compute)} {unit} ({level}: {number(low)} to {number(high)}; "
        f"reached at all with probability {reach.probability:.2f})"
    )
