"""Whatever goes in, a finite result with a verdict or an RLScalingError comes out; what must not matter does not."""

from __future__ import annotations

import json
import math

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, settings

from rlscaling import RLScalingError, bootstrap, compute_to_reach, extrapolate, fit_curve, fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid, sigmoid_inverse
from rlscaling.fitting.sigmoid_fit import SigmoidFit
from rlscaling.fitting.verdict import Verdict

# HYPOTHESIS_PROFILE=explore looks for new examples, a thousand in each test; the usual run repeats a few.
EXPLORE = settings().max_examples > 100
LONG = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.large_base_example],
    "phases": [Phase.explicit, Phase.reuse, Phase.generate],  # an example costs a fit: minutes to shrink one
}
FEW = settings(max_examples=1000 if EXPLORE else 50, **LONG)
MANY = settings(max_examples=1000 if EXPLORE else 120, **LONG)


GARBAGE = [math.nan, math.inf, -math.inf, None, True, "0.3", "n/a", b"1", 1j, [], {}, 10**400, -0.0, object()]


def rising(draw, n, largest):
    """Strictly rising compute of any spacing: even, geometric, ragged, late and tight."""
    kind = draw(st.sampled_from(["even", "geometric", "ragged", "tight"]))
    unit = 10.0 ** draw(st.floats(-6, math.log10(largest) - 6))
    if kind == "even":
        compute = unit * np.arange(draw(st.integers(0, 1)), n + 1)[:n]
    elif kind == "geometric":
        compute = unit * 10.0 ** np.linspace(0, draw(st.floats(0.1, 6)), n)
    elif kind == "ragged":
        compute = unit * np.cumsum(draw(st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n)))
    else:
        compute = unit * (1e6 + np.arange(n))
    compute = np.asarray(compute, dtype=float)
    if n and draw(st.booleans()):
        compute[0] = 0.0
    return compute


@st.composite
def series(draw, largest=1e30):
    """A legal series: rising compute, pass rates of any shape."""
    n = draw(st.integers(5, 40))
    compute = rising(draw, n, largest)
    kind = draw(st.sampled_from(["any", "constant", "binary", "rising", "falling", "step", "curve", "few values"]))
    unit = st.floats(0, 1, allow_subnormal=False)
    if kind == "constant":
        y = np.full(n, draw(unit))
    elif kind == "step":
        y = np.where(np.arange(n) < draw(st.integers(0, n)), draw(unit), draw(unit))
    elif kind == "curve":
        middle = compute[-1] * 10.0 ** draw(st.floats(-3, 3))
        clean = sigmoid(compute, draw(unit), draw(st.floats(0.1, 10)), middle, draw(unit))
        noise = np.random.default_rng(draw(st.integers(0, 99))).normal(
            0, draw(st.sampled_from([0, 1e-6, 1e-3, 0.05])), n
        )
        y = np.clip(clean + noise, 0, 1)
    else:
        values = {"binary": st.sampled_from([0.0, 1.0]), "few values": st.sampled_from([0.1, 0.2, 0.3])}.get(kind, unit)
        y = np.array(draw(st.lists(values, min_size=n, max_size=n)))
        y = np.sort(y) if kind == "rising" else np.sort(y)[::-1] if kind == "falling" else y
    return compute, y


def options(draw):
    """Options, contradictory ones included."""
    unit = st.floats(0, 1)
    choices = {
        "R0": st.one_of(st.none(), st.just("free"), unit),
        "R0_se": st.one_of(st.none(), st.floats(1e-6, 10)),
        "A": st.one_of(st.none(), unit),
        "B": st.floats(0.05, 20),
        "A_max": st.sampled_from([1.0, 0.5, math.inf]),
        "B_bounds": st.sampled_from([(0.1, 10), (0.5, 0.5), (1e-3, 100), (1, 3)]),
        "min_compute": st.sampled_from([0, None, 1.0, 1500, 1e6]),
        "max_compute": st.sampled_from([math.inf, 1e4, 1e9]),
        "exclude": st.sampled_from([(), [(0, 0)], [(10, 1e4)], [(5, math.inf)]]),
        "method": st.sampled_from(["varpro", "varpro", "paper-grid"]),
        "compute_unit": st.sampled_from(["gpu-hours", "tokens", "flops"]),
        "on_error": st.sampled_from(["raise", "return"]),
    }
    names = draw(st.sets(st.sampled_from(sorted(choices)), max_size=4))
    return {"min_compute": 0} | {name: draw(choices[name]) for name in names}


def assert_sound(fit):
    """A finite result with a verdict that prints and saves."""
    if not fit:  # on_error="return"
        assert fit.error
        return
    assert isinstance(fit, SigmoidFit)
    assert isinstance(fit.verdict, Verdict)
    numbers = [*fit.params.as_tuple(), fit.ssr, *fit.residual, *fit.covariance.ravel(), *fit.standard_error.values()]
    numbers += [end for ends in (fit.confidence_interval or {}).values() for end in ends]
    assert all(math.isfinite(v) for v in numbers)
    low, high = fit.options.B_bounds
    assert fit.options.B is not None or low * (1 - 1e-12) <= fit.B <= high * (1 + 1e-12)
    if math.isfinite(fit.options.A_max):
        assert -1e-12 <= fit.R0 <= fit.A + 1e-12 <= fit.options.A_max + 2e-12
    text = json.dumps(fit.to_dict(), allow_nan=False)
    assert SigmoidFit.from_dict(json.loads(text)).to_dict() == fit.to_dict()
    assert str(fit.verdict) in str(fit)
    assert str(fit.verdict) in fit._repr_html_()
    assert not np.isnan(fit.linearized()).any()


def assert_followed_up(fit, scheme):
    boot = bootstrap(fit, n_resamples=20, rng=0, scheme=scheme)
    assert np.all(np.isfinite(boot.distribution))
    json.dumps(boot.to_dict(), allow_nan=False)
    end = fit.compute_range[1]
    forecast = extrapolate(fit, [end, 3 * end, 1e3 * end], bootstrap=boot)
    assert np.all(np.isfinite(forecast.distribution))
    assert np.all(np.isfinite(forecast.confidence_interval_new_run))
    reach = compute_to_reach(fit, 0.5, bootstrap=boot)
    assert not math.isnan(reach.compute)
    assert not np.isnan(reach.confidence_interval).any()
    for result in (boot, forecast, reach):
        assert str(result)


def attempt(work):
    """Run ``work``; an error of the family is an answer, anything else fails the test."""
    try:
        return work()
    except RLScalingError:
        return None


@MANY
@given(st.data())
def test_a_legal_series_gets_a_finite_result_or_an_error_of_ours(data):
    compute, y = data.draw(series())
    given_options = options(data.draw)
    if given_options.get("A_max") == math.inf:
        y = y * 10.0 ** data.draw(st.floats(-6, 9)) - data.draw(st.sampled_from([0.0, 1.0, 1e3]))
    if data.draw(st.booleans()):
        given_options["weights"] = 10.0 ** np.array(
            data.draw(st.lists(st.floats(-3, 3), min_size=len(y), max_size=len(y)))
        )
    fit = attempt(lambda: fit_sigmoid(compute, y, **given_options))
    if fit is None:
        return
    assert_sound(fit)
    if fit:
        scheme = data.draw(st.sampled_from(["ar1", "residual", "pairs", "block", "binomial"]))
        attempt(lambda: assert_followed_up(fit, scheme))


@MANY
@given(st.data())
def test_garbage_gets_an_error_of_ours(data):
    cell = st.one_of(st.floats(), st.integers(), st.sampled_from(GARBAGE), st.text(max_size=3))
    column = st.one_of(st.lists(cell, max_size=40), st.lists(st.floats(0, 1), max_size=40), st.sampled_from(GARBAGE))
    compute, y = data.draw(column), data.draw(column)
    if data.draw(st.booleans()) and isinstance(y, list):
        compute = list(np.arange(float(len(y))))
    fit = attempt(lambda: fit_sigmoid(compute, y, **options(data.draw)))
    if fit is not None:
        assert_sound(fit)


@FEW
@given(st.data())
def test_garbage_options_get_an_error_of_ours(data):
    name = data.draw(
        st.sampled_from(
            ["R0", "R0_se", "A", "B", "A_max", "B_bounds", "min_compute", "max_compute", "exclude", "method", "weights",
             "grid", "compute_unit", "on_error"]
        )
    )  # fmt: skip
    value = data.draw(
        st.one_of(st.floats(), st.sampled_from([g for g in GARBAGE if g != 10**400]), st.tuples(st.floats()))
    )
    compute = np.arange(0.0, 8000.0, 200.0)
    fit = attempt(lambda: fit_sigmoid(compute, sigmoid(compute, 0.6, 2.0, 2500.0, 0.3), **{name: value}))
    if fit is not None:
        assert_sound(fit)


@FEW
@given(series(), st.sampled_from(["power-law", "exponential", "log-linear"]), st.sampled_from([1.0, 0.5, math.inf]))
def test_other_forms_get_a_finite_result_or_an_error_of_ours(both, form, A_max):
    fit = attempt(lambda: fit_curve(*both, form=form, min_compute=0, A_max=A_max))
    if fit is not None:
        assert math.isfinite(fit.ssr)
        assert np.all(np.isfinite(fit.residual))
        assert np.all(np.isfinite(fit.predict(np.array(fit.compute_range))))
        assert str(fit)


@FEW
@given(st.data())
def test_bug_values_at_the_ends_of_floating_point_get_a_finite_result_or_an_error_of_ours(data):
    """Compute from 1e-300 to 1e300 and unbounded scores as large: refuse them in words, or fit them."""
    n = data.draw(st.integers(5, 12))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    if data.draw(st.booleans()):
        compute = np.unique(np.abs(data.draw(st.lists(finite, min_size=n, max_size=n))))
        y = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(compute), max_size=len(compute))))
        unbounded = {}
    else:
        compute, y = np.arange(float(n)), np.array(data.draw(st.lists(finite, min_size=n, max_size=n)))
        unbounded = {"A_max": math.inf}
    fit = attempt(lambda: fit_sigmoid(compute, y, min_compute=0, **unbounded))
    if fit is not None:
        assert_sound(fit)


PARAMS = st.tuples(st.floats(0.5, 1.0), st.floats(0.2, 8.0), st.floats(1e-2, 1e20), st.floats(0.0, 0.4))


@given(PARAMS, st.floats(0.02, 0.98))
def test_the_inverse_undoes_the_curve(params, share):
    A, _, _, R0 = params
    R = R0 + share * (A - R0)
    compute = sigmoid_inverse(R, *params)
    assume(0 < compute < 1e300)
    np.testing.assert_allclose(sigmoid(compute, *params), R, rtol=1e-9)


@given(PARAMS, st.lists(st.floats(0, 1e25), min_size=2, max_size=20))
def test_the_curve_rises_between_R0_and_A(params, compute):
    R = sigmoid(np.sort(compute), *params)
    assert np.all(np.diff(R) >= -1e-15)
    assert np.all((params[3] - 1e-15 <= R) & (params[0] + 1e-15 >= R))


@FEW
@given(
    st.tuples(st.floats(0.5, 0.9), st.floats(0.8, 3.0), st.floats(0.2, 1.2), st.floats(0.05, 0.4)),
    st.floats(-9, 24),
    st.sampled_from([{}, {"R0": "free"}]),
)
def test_noise_free_curves_are_found_in_any_unit(truth, exponent, given_options):
    A, B, middle, R0 = truth
    unit = 10.0**exponent
    compute = np.linspace(0.0, 4.0, 40) * unit
    fit = fit_sigmoid(compute, sigmoid(compute, A, B, middle * unit, R0), min_compute=0, **given_options)
    np.testing.assert_allclose(fit.params.as_tuple(), (A, B, middle * unit, R0), rtol=1e-6)
    assert fit.verdict.has_curve
    assert fit.verdict.identifies_ceiling or compute[-1] < 8.0 * fit.C_mid


@FEW
@given(st.integers(0, 10_000), st.permutations(range(4)))
def test_the_order_of_rows_in_a_batch_does_not_matter(seed, order):
    from rlscaling.solver.problem import Problem
    from rlscaling.solver.variable_projection import solve

    rng = np.random.default_rng(seed)
    compute = np.linspace(0.2, 5.0, 20)
    Y = np.clip(sigmoid(compute, 0.6, 1.9, 1.0, 0.3) + rng.normal(0, 0.01, (4, 20)), 0, 1)
    problem = Problem(compute=compute, weights=np.ones(20))
    np.testing.assert_allclose(solve(problem, Y[list(order)]).ssr, solve(problem, Y).ssr[list(order)], rtol=1e-9)
