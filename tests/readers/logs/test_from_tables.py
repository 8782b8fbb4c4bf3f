"""Exports of charts: several runs in one wide table."""

from __future__ import annotations

from rlscaling import read_trace, read_traces

WIDE = (
    '"Step","a - eval/acc","a - eval/acc__MIN","a - eval/acc__MAX",'
    '"b - eval/acc","b - eval/acc__MIN","b - eval/acc__MAX"\n'
    "0,0.30,0.30,0.30,0.20,0.20,0.20\n10,0.35,0.31,0.39,,,\n20,0.40,0.40,0.40,0.30,0.30,0.30\n"
)


def test_wandb_csv_of_several_runs(tmp_path):
    path = tmp_path / "chart.csv"
    path.write_text(WIDE)
    runs = read_traces(path)
    assert list(runs) == ["chart:a", "chart:b"]
    assert runs["chart:a"].compute.tolist() == [0, 10, 20]
    assert runs["chart:b"].pass_rate.tolist() == [0.2, 0.3]
    assert runs["chart:a"].compute_unit == "steps"
    assert any("In 1 rows __MIN and __MAX differ" in note for note in runs["chart:a"].notes)
    column = read_trace(path, pass_rate_column="a - eval/acc")
    assert column.pass_rate.tolist() == [0.3, 0.35, 0.4]
