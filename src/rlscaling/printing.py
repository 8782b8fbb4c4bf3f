"""How results read: the verdict first, then parameters with their errors, then what was done and noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlscaling.format import html_table, interval, number, plus_minus, robust_error, text_table

if TYPE_CHECKING:
    from rlscaling.intervals import Bootstrap, Forecast
    from rlscaling.results import SigmoidFit

UNIT_TEXT = {
    "gpu-hours": "GPU-hours",
    "device-hours": "device-hours",
    "wall-hours": "wall hours",
    "flops": "FLOPs",
}
NO_BARE_CEILING = ("ceiling-not-identified", "flat", "falling")


def unit_text(unit: str) -> str:
    """Return a compute unit as it is written in a sentence."""
    return UNIT_TEXT.get(unit, unit)


def headline(fit: SigmoidFit) -> str:
    """Return the first line of a printed fit: the verdict and its reason."""
    return f"{fit.verdict}: {fit.reason}"


def parameter_rows(fit: SigmoidFit) -> list[list[str]]:
    """Return one row a parameter: name, value with error, 95 % interval, remark."""
    rows = []
    ci, error = fit.confidence_interval or {}, fit.robust_error or {}
    for name in ("A", "B", "C_mid", "R0"):
        value = getattr(fit.params, name)
        low_high = ci.get(name)
        bare = name == "A" and str(fit.verdict) in NO_BARE_CEILING
        text = "not identified" if bare else plus_minus(value, error.get(name, 0.0))
        fixed = low_high is not None and low_high[0] == low_high[1] == value
        rows.append([name, text, interval(*low_high) if low_high and not fixed else "", _remark(fit, name)])
    return rows


def _remark(fit: SigmoidFit, name: str) -> str:
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
    title = [headline(fit)] if not fit.name else [f"{fit.name}", headline(fit)]
    rows = parameter_rows(fit)
    header = ["", "estimate", "95 % interval", ""] if fit.confidence_interval else ["", "estimate", "", ""]
    lines = [*title, text_table(rows, header), "  " + provenance(fit)]
    lines += [f"  note: {note}" for note in fit.notes]
    return "\n".join(lines)


def fit_html(fit: SigmoidFit) -> str:
    """Return the HTML form of a fit, for notebooks."""
    title = f"{fit.name}: {headline(fit)}" if fit.name else headline(fit)
    rows = parameter_rows(fit)
    return html_table(rows, ["", "estimate", "95 % interval", ""], title, [provenance(fit), *fit.notes])


def bootstrap_rows(boot: Bootstrap) -> list[list[str]]:
    """Return one row a parameter: name, value with error, this-run interval, new-run interval."""
    rows = []
    ci, new = boot.confidence_interval, boot.confidence_interval_new_run
    for j, name in enumerate(("A", "B", "C_mid", "R0")):
        value = getattr(boot.fit.params, name)
        bare = name == "A" and str(boot.verdict) in NO_BARE_CEILING
        error = robust_error(boot.distribution[:, j])
        text = "not identified" if bare else plus_minus(value, error)
        low, high = ci[name]
        this = "" if low == high == value else interval(low, high)
        rows.append([name, text, this, interval(*new[name]) if name in new else "", _remark(boot.fit, name)])
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
    lines = [f"{boot.verdict}: {boot.reason}", text_table(bootstrap_rows(boot), header)]
    lines.append(f"  {boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}")
    lines.append(
        f"  'new run' adds the spread between seeds: sd {boot.seed_sd:g} of A; 'this run' is this run's own noise"
    )
    lines += [f"  note: {note}" for note in boot.notes]
    return "\n".join(lines)


def bootstrap_html(boot: Bootstrap) -> str:
    """Return the HTML form of a bootstrap, for notebooks."""
    level = _level(boot.confidence_level)
    header = ["", "estimate", f"{level} this run", f"{level} new run", ""]
    foot = [f"{boot.n_resamples:,} replicates ({boot.scheme}); {provenance(boot.fit)}", *boot.notes]
    return html_table(bootstrap_rows(boot), header, f"{boot.verdict}: {boot.reason}", foot)


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
    lines = [forecast.headline, text_table(forecast_rows(forecast), header)]
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
    return html_table(forecast_rows(forecast), header, forecast.headline, forecast.notes)
