"""Counts by prompt: what is refused, what becomes of them, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlscaling import PromptCounts, TraceError, read_counts

COUNTS = PromptCounts([0.0, 100.0], [[1, 0, 4], [2, 1, 4]], 4, ("a", "b", "c"), name="run")


def test_the_trace_is_the_mean_over_prompts() -> None:
    trace = COUNTS.to_trace()
    assert trace.pass_rate == pytest.approx([5 / 12, 7 / 12])
    assert trace.n_prompts is not None
    assert trace.n_prompts.tolist() == [3.0, 3.0]
    p = np.array([0.25, 0.0, 1.0])
    assert trace.pass_rate_se is not None
    assert trace.pass_rate_se[0] == pytest.approx(np.sqrt(np.sum(p * (1 - p) / 3)) / 3)


def test_the_error_is_that_of_sampling_the_same_prompts() -> None:
    """0.0019 to 0.0023 for mean@16 over 1,000 prompts of a public run, where pass rates are near 0 or 1."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.2, 0.2, 1000)
    runs = [PromptCounts([1.0], rng.binomial(16, p), 16).to_trace() for _ in range(200)]
    spread = np.std([run.pass_rate[0] for run in runs])
    stated = np.mean([run.pass_rate_se[0] for run in runs if run.pass_rate_se is not None])
    assert stated == pytest.approx(spread, rel=0.15)
    assert 0.0015 < stated < 0.0027


def test_a_file_comes_back(tmp_path: Path) -> None:
    some = PromptCounts([0.0, 100.0], [[1, 0, 0], [2, 1, 4]], [[4, 4, 0], [4, 4, 8]], ("a", "b", "c"), "steps", "run")
    some.write(tmp_path / "run.counts.parquet")
    back = read_counts(tmp_path / "run.counts.parquet")
    assert (back.compute_unit, back.name, back.prompts) == ("steps", "run", ("a", "b", "c"))
    assert np.array_equal(back.correct, some.correct)
    assert np.array_equal(back.samples, some.samples)
    with pytest.raises(TraceError, match="exists"):
        some.write(tmp_path / "run.counts.parquet")
    some.write(tmp_path / "run.counts.parquet", overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [[5]], 4), "prompt 0 at compute 0: 5 of 4 samples are right"),
        (([0.0], [[0.5]], 4), "correct must be whole numbers"),
        (([0.0, 0.0], [[1], [1]], 4), "compute must be finite, 0 or more, and increase"),
        (([0.0], [[1, 2]], 4, ("a", "a")), "1 different names for 2 prompts"),
        (([0.0], [[0, 0]], 0), "no samples at all"),
        (([0.0, 1.0], [[1, 2]], 4), "shape"),
        (([], [], []), "shape"),
        (([0.0], [[1, 2]], [4, 4, 4]), "samples has shape"),
    ],
)
def test_bad_counts_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        PromptCounts(*arguments)  # type: ignore[arg-type]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(TraceError, match="holds no counts by prompt"):
        read_counts(tmp_path / "x.parquet")
    with pytest.raises(TraceError, match="holds no counts by prompt"):
        read_counts(tmp_path / "missing.parquet")
