"""Published fits as printed; simulated runs with the noise they claim; demo traces that say what they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rlscaling.datasets import load_demo, simulate, table1
from rlscaling.errors import TraceError
from rlscaling.results import SigmoidParams

ROOT = Path(__file__).parents[1]
PARAMS = SigmoidParams(A=0.61, B=1.92, C_mid=2542, R0=0.35)
HOURS = 216.2 * np.arange(75)

# [ScaleRL, Table 1], as printed: C_mid, B, A
PRINTED = {
    "scalerl": (2542, 1.92, 0.610),
    "length-32k": (11272, 1.89, 0.645),
    "generations-8": (2542, 2.44, 0.585),
    "generations-24": (3054, 2.22, 0.590),
    "generations-32": (2936, 2.07, 0.595),
    "scout-moe": (4242, 1.65, 0.710),
    "batch-512": (2818, 1.77, 0.605),
    "batch-2048": (10909, 1.70, 0.645),
    "math-code-math": (2896, 2.05, 0.595),
    "math-code-code": (1675, 1.09, 0.615),
}


def test_table1_is_as_printed():
    assert {name: (p.C_mid, p.B, p.A) for name, p in table1().items()} == PRINTED
    assert {p.R0 for p in table1(R0=0.3).values()} == {0.3}
    frame = table1(as_frame=True)
    assert frame.loc["scout-moe"].to_dict() == {"A": 0.71, "B": 1.65, "C_mid": 4242, "R0": 0.35}
    assert list(frame.index) == list(PRINTED)


def test_without_noise_the_points_lie_on_the_law():
    t = simulate(PARAMS, compute=HOURS, n_prompts=None)
    with np.errstate(divide="ignore"):
        law = 0.35 + 0.26 / (1 + (2542 / HOURS) ** 1.92)
    np.testing.assert_allclose(t.pass_rate, law, rtol=1e-13)
    assert t.columns == {}


@pytest.mark.parametrize(
    ("mean", "n_prompts", "n_samples"), [(0.5, 1000, 16), (0.35, 1000, 16), (0.3, 10, 4), (0.9, 50, 2)]
)
def test_generation_noise_has_the_variance_of_beta_prompts(mean, n_prompts, n_samples):
    # oracle: fixed prompts p_i ~ Beta(mean, 1 - mean), so a + b = 1, and binomial counts
    flat = SigmoidParams(A=mean, B=1, C_mid=1, R0=mean)
    n = 20_000
    t = simulate(flat, compute=np.arange(n), n_prompts=n_prompts, n_samples=n_samples, rng=5)
    p = stats.beta(mean, 1 - mean)
    variance = p.expect(lambda x: x * (1 - x)) / (n_prompts * n_samples)
    sem = np.sqrt(variance / n)
    assert abs(t.pass_rate.mean() - mean) < 4 * sem
    assert t.pass_rate.var() / variance == pytest.approx(1, abs=4 * np.sqrt(2 / n))
    np.testing.assert_allclose(t.pass_rate_se, np.sqrt(variance), rtol=1e-6)
    counts = t.pass_rate * n_prompts * n_samples
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)


@pytest.mark.parametrize("mean", [0.0, 1.0, 0.001, 0.999])
def test_at_the_ends_pass_rates_stay_fractions_and_unbiased(mean):
    flat = SigmoidParams(A=mean, B=1, C_mid=1, R0=mean)
    t = simulate(flat, compute=np.arange(20_000), n_prompts=10, n_samples=4, rng=1)
    assert t.pass_rate.min() >= 0
    assert t.pass_rate.max() <= 1
    assert t.pass_rate.mean() == pytest.approx(mean, abs=2e-4)


def test_wander_is_a_stationary_chain():
    flat = SigmoidParams(A=0.5, B=1, C_mid=1, R0=0.5)
    n, rho, sd = 50_000, 0.6, 0.006
    w = simulate(flat, compute=np.arange(n), n_prompts=None, rho=rho, wander_sd=sd, rng=2).pass_rate - 0.5
    assert w.std() == pytest.approx(sd, rel=0.03)
    for lag in (1, 2, 3):
        assert np.corrcoef(w[:-lag], w[lag:])[0, 1] == pytest.approx(rho**lag, abs=0.02)
    first = [
        simulate(flat, compute=[0], n_prompts=None, rho=rho, wander_sd=sd, rng=s).pass_rate[0] for s in range(2000)
    ]
    assert np.std(first) == pytest.approx(sd, rel=0.08)


def test_seeds():
    def run(rng):
        return simulate(PARAMS, compute=HOURS, rho=0.5, wander_sd=0.004, rng=rng).pass_rate.tolist()

    assert run(3) == run(3) == run(np.random.default_rng(3)) == run(np.int64(3))
    assert run(3) != run(4)
    assert run(None) != run(None)


def test_simulated_runs_say_so():
    t = simulate(PARAMS, compute=HOURS, rng=3, name="x", compute_unit="tokens")
    assert t.metadata["simulated"] is True
    assert t.metadata["true_params"] == {"A": 0.61, "B": 1.92, "C_mid": 2542, "R0": 0.35}
    assert t.metadata["seed"] == 3
    assert (t.name, t.compute_unit) == ("x", "tokens")
    assert t.n_prompts[0] == 1000
    assert t.n_samples[0] == 16


def test_unbounded_scores_have_no_prompts():
    params = SigmoidParams(A=700, B=1, C_mid=10, R0=-5)
    t = simulate(params, compute=[0, 10], n_prompts=None)
    assert t.pass_rate.tolist() == [-5, 347.5]
    assert t.scale == "reward"
    with pytest.raises(TraceError, match=r"not pass rates.*n_prompts=None"):
        simulate(params, compute=[0, 10])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1.0}, "rho=1.0: a correlation"),
        ({"wander_sd": -1}, "wander_sd=-1: a standard deviation"),
        ({"n_prompts": 0}, "n_prompts=0, n_samples=16: both count from 1"),
        ({"compute": [2, 1]}, "sort by compute"),
        ({"compute": ["a"]}, r"compute\[0\] is 'a'"),
    ],
)
def test_simulate_refuses(options, message):
    with pytest.raises(TraceError, match=message):
        simulate(PARAMS, **{"compute": [1, 2], **options})


def test_demo_traces():
    demo = load_demo()
    assert set(demo) == {"scalerl", "scalerl-8k", "batch-512", "batch-2048"}
    ends = {"scalerl": 16_000, "scalerl-8k": 8_000, "batch-512": 16_000, "batch-2048": 50_000}
    for name, trace in demo.items():
        assert trace.name == name
        assert trace.compute[0] == 0
        assert 0 <= ends[name] - trace.compute[-1] < np.diff(trace.compute)[-1] + 0.1
        assert trace.notes == ()
        assert trace.metadata["simulated"] is True
        assert trace.metadata["true_params"]["A"] == table1()[trace.metadata["table1_row"]].A
        assert isinstance(trace.metadata["seed"], int)
    half = demo["scalerl"].up_to(8000)
    assert demo["scalerl-8k"].pass_rate.tolist() == half.pass_rate.tolist()
    assert demo["scalerl-8k"].compute.tolist() == half.compute.tolist()
    assert sum(file.stat().st_size for file in (ROOT / "src/rlscaling/data").iterdir()) < 100_000


def test_demo_traces_are_what_the_tool_makes(tmp_path):
    spec = importlib.util.spec_from_file_location("make_demo_traces", ROOT / "tools" / "make_demo_traces.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tool.main(tmp_path)
    for name, trace in load_demo().items():
        made = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        assert len(made) == len(trace) + 1
        # another processor may round the last digit of an exponential the other way: one count of 16,000
        again = tool.demo_run(trace.metadata["table1_row"]).pass_rate[: len(trace)]
        np.testing.assert_allclose(again, trace.pass_rate, atol=1.01 / 16_000)
