"""The report: what stands on the page, that it needs nothing else, its size, and the command that writes it."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from logfiles import SCORE, verl_file, verl_rows
from rlscaling import FitError, Trace, datasets, fit_trace, make_report, save_fit, simulate, write_trace
from rlscaling.cli import main
from rlscaling.results import SigmoidParams

DEMO = datasets.load_demo()
TRUTH = datasets.table1()["scalerl"]
RUNS = {name: DEMO[name] for name in ("scalerl", "batch-2048")} | {"three": DEMO["scalerl"].up_to(500)}
SECTIONS = ["verdicts", "comparison", "runs", "refused", "receipts", "method"]


class Page(HTMLParser):
    """Ids, sections, addresses and visible text of a page; tags must be closed in order."""

    VOID = ("meta", "link", "br", "img", "use", "path", "image")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.sections: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.sections += [given["id"]] if tag == "section" and given.get("id") else []
        self.addresses += [value for name, value in attrs if value and name in ("href", "src", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg", "title"} & set(self.open):
            self.text += [data.strip()] if data.strip() else []


@pytest.fixture(scope="module")
def report():
    return make_report(RUNS, rng=0)


def test_every_section_stands_and_the_verdict_comes_first(report) -> None:
    page = Page(report.html)
    assert page.sections == [section for section in SECTIONS if section != "receipts"]
    assert page.text[0] == "RL compute scaling"
    assert page.text[1].startswith(("decided: ", "undecided: "))
    assert "three" in page.text[page.text.index("Not used") :]
    assert report.refused[0][0] == "three"


def test_the_page_needs_nothing_else(report) -> None:
    page = Page(report.html)
    outside = [address for address in page.addresses if not address.startswith(("#", "data:"))]
    assert outside == []
    assert "<script" not in report.html
    assert len(page.ids) == len(set(page.ids))
    used = {address[1:] for address in page.addresses if address.startswith("#")}
    used |= set(re.findall(r"url\(#([^)]+)\)", report.html))
    assert used <= set(page.ids)


def test_numbers_are_those_of_the_results(report) -> None:
    page = Page(report.html)
    best = report.comparison.leader
    assert f"{best} is" in page.text[1]
    first = report.runs[0]
    assert first.name == best
    assert page.text.count(str(first.fit.verdict)) >= 1
    low, high = first.bootstrap.confidence_interval["A"]
    assert any(text == f"[{low:.3f}, {high:.3f}]" for text in page.text)
    assert first.backtest.headline in page.text
    assert first.plan.headline in page.text


def test_pictures_keep_their_numbers_and_follow_the_colours_of_the_page(report) -> None:
    pictures = re.findall(r"<svg.*?</svg>", report.html, flags=re.DOTALL)
    assert len(pictures) == 1 + 2 * 2
    assert all('role="img"' in picture and "aria-label=" in picture for picture in pictures)
    assert not any("#222222" in picture or "#ffffff" in picture.lower() for picture in pictures)
    labels = re.findall(r">([^<>]*P\(best\)[^<>]*)<", pictures[0])
    assert all(re.search(r"0\.\d{3}", label) for label in labels), labels


def test_the_same_seed_gives_the_same_page(report) -> None:
    again = make_report(
        {name: DEMO[name] for name in ("scalerl", "batch-2048")} | {"three": DEMO["scalerl"].up_to(500)}, rng=0
    )
    assert again.html == report.html


def test_names_are_text_and_nothing_else() -> None:
    name = '<b>&"bold"\'$x^2$'
    report = make_report({name: DEMO["scalerl"]}, rng=0, title=name)
    page = Page(report.html)
    assert page.text[0] == name
    assert "<b>" not in report.html
    colour = make_report({"#000000": DEMO["scalerl"]}, rng=0, n_resamples=100).html
    assert "var(--ink)" not in re.sub(r"<[^>]*>", "", colour[colour.index("<body>") :])


def test_fifty_runs_with_many_points_stay_under_a_megabyte() -> None:
    C = np.arange(0.0, 16_000.0, 16.0)
    runs = {f"run-{k}": simulate(TRUTH, compute=C if k < 3 else C[::20], rng=k, wander_sd=0.005) for k in range(20)}
    report = make_report(runs, rng=0, n_resamples=100)
    assert sum(run.detailed for run in report.runs) == 8
    assert len(report.html.encode()) < 1e6
    assert "12 more runs have their row among the verdicts" in " ".join(Page(report.html).text)


def test_a_run_of_many_evaluations_stays_small() -> None:
    C = np.geomspace(50.0, 16_000.0, 20_000)
    report = make_report({"big": simulate(TRUTH, compute=C, rng=0)}, rng=0, n_resamples=100)
    assert len(report.html.encode()) < 1e6


def test_the_runs_with_pictures_are_the_best_ones() -> None:
    C = np.arange(0.0, 16_000.0, 400.0)
    truths = {f"r{k:02}": SigmoidParams(0.50 + 0.01 * k, 1.9, 2500.0, 0.35) for k in range(12)}
    runs = {name: simulate(p, compute=C, rng=0, wander_sd=0.002) for name, p in truths.items()}
    shown = [run.name for run in make_report(runs, rng=0, n_resamples=100).runs if run.detailed]
    assert shown == sorted(runs, reverse=True)[:8]


def test_a_fit_and_other_units_have_a_report_too() -> None:
    steps = Trace(DEMO["scalerl"].compute, DEMO["scalerl"].pass_rate, compute_unit="steps")
    report = make_report({"a": fit_trace(steps, min_compute=1500), "b": steps}, min_compute=1500, rng=0)
    text = Page(report.html).text
    assert report.comparison is None
    assert "no budget was given" in report.not_compared
    assert any(line.startswith("no backtest: a saved fit holds no trace") for line in text)


def test_the_command_compares_as_compare_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = {"recipe": "same", "seed": 1, "device": "H100"}
    for name, more in (("scalerl", {}), ("batch-512", {"device": "A100"})):
        trace = dataclasses.replace(DEMO[name], metadata={**DEMO[name].metadata, **header, **more})
        write_trace(trace, tmp_path / f"{name}.jsonl")
    out = str(tmp_path / "report.html")
    command = ["report", str(tmp_path / "*.jsonl"), "-o", out, "--resamples", "100", "--json", "--overwrite"]
    assert main([*command, "--by", "recipe"]) == 2
    assert "both say recipe 'same', seed 1" in capsys.readouterr().err
    assert main(command) == 0
    assert "--device-factor" in json.loads(capsys.readouterr().out)["not_compared"]
    assert main([*command, "--device-factor", "H100=1", "--device-factor", "A100=0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == "scalerl"


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="no run could be fitted: x: "):
        make_report({"x": DEMO["scalerl"].up_to(500)})
    with pytest.raises(FitError, match="no runs were given"):
        make_report({})
    with pytest.raises(FitError, match="takes runs by name"):
        make_report([DEMO["scalerl"]])
    with pytest.raises(FitError, match="'zzz', which is none of the runs"):
        make_report({"x": DEMO["scalerl"]}, recipes={"zzz": "q"})
    steps = Trace(DEMO["scalerl"].compute, DEMO["scalerl"].pass_rate, compute_unit="steps")
    with pytest.raises(FitError, match="gpu-hours and steps; make a report for each"):
        make_report({"x": DEMO["scalerl"], "y": steps}, min_compute=0)
    taken = tmp_path / "r.html"
    taken.write_text("mine")
    report = make_report({"scalerl": DEMO["scalerl"]}, rng=0, n_resamples=100)
    with pytest.raises(FitError, match="exists and is not written over"):
        report.write(taken)
    with pytest.raises(FitError, match="does not exist"):
        report.write(tmp_path / "none" / "r.html")
    with pytest.raises(FitError, match="is a folder"):
        report.write(tmp_path, overwrite=True)
    assert taken.read_text() == "mine"
    report.write(taken, overwrite=True)
    assert taken.read_text().startswith("<!doctype html>")
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_the_command_writes_a_page_with_receipts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("scalerl", "batch-512"):
        write_trace(DEMO[name], tmp_path / f"{name}.jsonl")
    (tmp_path / "broken.csv").write_text("no,numbers\na,b\n")
    rows = verl_rows(400, 8)
    for row in rows:
        if SCORE in row:
            row[SCORE] = 0.6 - 0.3 / (1 + (row.get("training/global_step", 0) / 100) ** 2)
    log = verl_file(tmp_path, rows, "log.jsonl")
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "*.*"), "-o", str(out), "--resamples", "100", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == out.stat().st_size
    assert set(found["verdicts"]) == {"scalerl", "batch-512", "log"}
    assert [one["run"] for one in found["refused"]] == ["broken"]
    page = Page(out.read_text())
    assert page.sections == SECTIONS
    assert any("sha256" in text for text in page.text)
    assert main(["report", str(log), "-o", str(out)]) == 2
    assert "exists and is not written over" in capsys.readouterr().err
    assert main(["report", str(log), "-o", str(tmp_path / "x.pdf")]) == 2
    fit = save_fit(fit_trace(DEMO["scalerl"]), tmp_path / "fit.json")
    assert main(["report", str(fit), "-o", str(out), "--overwrite", "--resamples", "100"]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}: 1 runs")
