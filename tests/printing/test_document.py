"""Tests of `rlscaling/printing/document.py`."""

from __future__ import annotations

import html
import json

import pytest

import rlscaling as rl
from rlscaling.printing.document import Document, Table, as_html, text_table

DEMO = rl.datasets.load_demo()
FIT = rl.fit_trace(DEMO["scalerl-8k"])
SEEDS = {"a": [rl.fit_trace(rl.datasets.simulate(FIT.params, compute=range(0, 16001, 200), rng=k)) for k in (1, 2)]}
RESULTS = {
    "fit": lambda: FIT,
    "failed fit": lambda: rl.fit_sigmoid([1.0], [0.1], on_error="return"),
    "curve": lambda: rl.fit_curve(FIT.data.compute, FIT.data.pass_rate, form="exponential"),
    "models": lambda: rl.select_model(FIT),
    "bootstrap": lambda: rl.bootstrap(FIT, n_resamples=50, rng=0),
    "prior": rl.Prior,
    "spread": lambda: rl.seed_spread(SEEDS),
    "forecast": lambda: rl.extrapolate(FIT, 16_000, method="averaged", rng=0),
    "reach": lambda: rl.compute_to_reach(FIT, 0.55, bootstrap=rl.bootstrap(FIT, n_resamples=50, rng=0)),
    "cutoffs": lambda: rl.cutoff_sensitivity(FIT, min_compute=[1500, 3000]),
    "backtest": lambda: rl.backtest(DEMO["scalerl"], cutoffs=[4000], methods=("last-value",), rng=0),
    "plan": lambda: rl.plan(FIT, rng=0),
    "allocation": lambda: rl.allocate({"a": FIT, "b": rl.refit(FIT, max_compute=6000)}, 1e4, rng=0),
    "monitor": lambda: rl.monitor(DEMO["scalerl"], FIT),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_prints_itself_the_same_way(name: str) -> None:
    result = RESULTS[name]()
    assert isinstance(result, Document)
    text, page = str(result), html.unescape(result._repr_html_())
    assert text.splitlines()[0] == result.headline
    assert result.headline in page
    assert all(isinstance(table, Table) for table in result.tables())
    for cell in [cell for table in result.tables() for row in table.rows for cell in row] + list(result.footnotes()):
        assert cell in text
        assert cell in page
    json.dumps(result.to_dict(), allow_nan=False)


class Unsafe(Document):
    headline = "t < u"

    def _record(self) -> dict[str, str]:
        return {"headline": self.headline}

    def tables(self) -> list[Table]:
        return [Table.of(["x & y", "n"], [["<b>", "1"]])]

    def footnotes(self) -> list[str]:
        return ["note > here"]


def test_tables():
    assert text_table([["a", "1"], ["long", "22"]], ["", "n"]) == "         n\n  a      1\n  long  22"
    html = as_html(Unsafe())
    assert "&lt;b&gt;" in html
    assert "x &amp; y" in html
    assert "t &lt; u" in html
    assert "note &gt; here" in html
