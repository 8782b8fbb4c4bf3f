"""What the package prints and writes, kept in ``golden/``: a change that is not meant to alter an output shows here.

Everything goes through the public interface, so that modules may move. Text is compared exactly. JSON is kept with six
significant digits and compared exactly but for its numbers, which may differ by one part in 10,000. Versions and
folders are replaced by placeholders, drawings by what they show.

After a change that is meant, write them again and read the difference:
``python tests/project/test_golden_outputs.py --renew``.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden.commands import CALLS, COMMANDS, REFUSALS
from golden.inputs import at_work, boot, compared, demo, fallen, fit, lay_out, left_out, seed_fits, seeds, seeds_report
from golden.outputs import (
    demo_as_json,
    drawn,
    frame_of,
    help_of,
    json_of,
    kernels_as_json,
    kernels_as_text,
    page,
    plain,
    report_as_json,
    said,
    settled,
    text_of,
    told,
)  # fmt: skip

import rlscaling as rl
from rlscaling import trainer

GOLDEN = Path(__file__).with_name("golden")
RENEW = "python tests/project/test_golden_outputs.py --renew"
REL, ABS, MOST_DIFFERENCES = 1e-4, 1e-9, 80


def file_of(write: Callable[[Path], object], name: str) -> str:
    write(Path(name))
    return settled(Path(name).read_text(encoding="utf-8"))


def parquet_of(path: str) -> Any:
    """Return schema, metadata and rows of a Parquet file."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    about = {key: json.loads(value) if value[:1] in "{[" else value for key, value in about.items() if key != "pandas"}
    columns = {field.name: str(field.type) for field in table.schema}
    return plain({"columns": columns, "metadata": about, "rows": table.to_pylist()})


def fitted_table() -> Any:
    said(CALLS["fit-table"])
    return parquet_of("table.parquet")


def written_by_writer() -> str:
    with rl.TraceWriter("running.jsonl", {"recipe": "scalerl", "seed": 1, "run_id": "r1"}) as writer:
        writer.write("eval", step=0, compute_gpu_hours=0.0, pass_rate=0.35)
        writer.write("train", step=1, compute_gpu_hours=0.5, loss=0.25)
    return Path("running.jsonl").read_text()


def read_again(name: str) -> Any:
    rl.write_trace(demo()["scalerl-8k"], name)
    trace = rl.read_trace(name)
    rows = parquet_of(name) if name.endswith(".parquet") else None
    return plain({"repr": repr(trace), "metadata": trace.metadata, "frame": frame_of(trace.to_frame()), "file": rows})


def export_log() -> str:
    return text_of("export-log logs/trained.jsonl -o verl.jsonl") + "--- verl.jsonl\n" + Path("verl.jsonl").read_text()


def saved_fit() -> Any:
    """The file of a saved fit, and that it comes back."""
    rl.save_fit(fit(), "fit.json")
    text = Path("fit.json").read_text()
    value = json.loads(text)
    layout = [n for n in (None, 1, 2, 4) if json.dumps(value, indent=n, ensure_ascii=text.isascii()) == text.rstrip()]
    again = rl.load_fit("fit.json").to_dict() == fit().to_dict()
    return plain({"indent": layout, "ascii": text.isascii(), "comes back": again, "file": value})


def refused(call: Callable[[], object]) -> str:
    try:
        return f"no error: {call()!r}"
    except rl.RLScalingError as error:
        return f"{type(error).__name__}: {error}"


def library_refusals() -> Any:
    run = demo()["scalerl"]
    calls: dict[str, Callable[[], object]] = {
        "unknown scheme": lambda: rl.bootstrap(fit(), scheme="magic"),
        "negative budget": lambda: rl.extrapolate(fit(), -1),
        "other lengths": lambda: rl.fit_sigmoid([1, 2, 3], [0.1, 0.2]),
        "falling compute": lambda: rl.Trace([2, 1], [0.1, 0.2]),
        "percent": lambda: rl.fit_sigmoid([1, 2, 3], [10, 20, 30]),
        "unknown unit": lambda: rl.fit_sigmoid(run.compute, run.pass_rate, compute_unit="miles"),
        "unknown form": lambda: rl.fit_curve(run.compute, run.pass_rate, form="cubic"),
        "one recipe": lambda: rl.compare({"scalerl": fit()}),
        "unknown recipe": lambda: compared("scalerl", "batch-512").verdict("scalerl", "grpo"),
        "no saved fit": lambda: rl.SigmoidFit.from_dict({"kind": "cat"}),
        "newer saved fit": lambda: rl.SigmoidFit.from_dict(fit().to_dict() | {"schema_version": 99}),
        "exists": lambda: rl.write_trace(run, "demo/scalerl.jsonl"),
        "two fits for a prior": lambda: rl.learn_prior([fit(), fit("batch-512")]),
        "prior without spread": lambda: rl.Prior(A=(0.5, 0.0)),
        "target of a plan": lambda: rl.plan(fit(), target_half_width=0),
        "budget of an allocation": lambda: rl.allocate({"a": fit(), "b": fit("batch-512")}, -1),
    }
    return plain({name: refused(call) for name, call in calls.items()})


# --- cases -----------------------------------------------------------------------------------------------------------

PAIR = ("scalerl", "batch-2048")
EQUAL = ("scalerl", "batch-512")
RESULTS: dict[str, Callable[[], Any]] = {
    "trace": lambda: demo()["scalerl-8k"],
    "sigmoid-params": lambda: fit().params,
    "sigmoid-fit": fit,
    "sigmoid-fit-early": lambda: fit(max_compute=3000),
    "sigmoid-fit-flat": lambda: rl.fit_trace(rl.read_trace("logs/flat.jsonl")),
    "sigmoid-fit-refit": lambda: rl.refit(fit(), B=1.9),
    "failed-fit": lambda: rl.fit_trace(demo()["scalerl"].up_to(600), on_error="return"),
    "curve-fit": lambda: rl.fit_curve(demo()["scalerl"].compute, demo()["scalerl"].pass_rate, form="gompertz"),
    "power-law-fit": lambda: rl.fit_power_law(demo()["scalerl"].compute, demo()["scalerl"].pass_rate),
    "bootstrap": boot,
    **{
        f"bootstrap-{scheme}": functools.partial(boot, "scalerl-8k", scheme=scheme, n_resamples=200)
        for scheme in ("residual", "pairs", "block", "binomial", "posterior")
    },
    "bootstrap-at-level": lambda: boot().at_level(0.8),
    "forecast": lambda: rl.extrapolate(fit("scalerl-8k"), [16_000, 100_000], bootstrap=boot("scalerl-8k"), rng=0),
    "forecast-auto": lambda: rl.extrapolate(fit("scalerl-8k"), 100_000, method="auto", rng=0),
    "reach": lambda: rl.compute_to_reach(fit(), 0.6, bootstrap=boot(), rng=0),
    "reach-never": lambda: rl.compute_to_reach(fit(), 0.7, bootstrap=boot(), rng=0),
    "cutoff-sensitivity": lambda: rl.cutoff_sensitivity(demo()["scalerl"]),
    "backtest": lambda: rl.backtest(demo()["scalerl"], cutoffs=[4000, 8000], rng=0),
    "plan": lambda: rl.plan(fit("scalerl-8k"), rng=0),
    "allocation": lambda: rl.allocate({name: fit(name) for name in demo()}, 20_000, rng=0),
    "monitor-report": lambda: rl.monitor(demo()["scalerl"], fit("scalerl-8k")),
    "monitor-report-fallen": lambda: rl.monitor(fallen(), fit("scalerl-8k")),
    "seed-spread": lambda: rl.seed_spread(seed_fits()),
    "model-selection": lambda: rl.select_model(demo()["scalerl"]),
    "comparison": lambda: compared(*PAIR),
    "comparison-of-seeds": lambda: rl.compare(seed_fits(), rng=0),
    "crossover": lambda: compared(*PAIR).crossover(*PAIR),
    "crossover-none": lambda: compared(*EQUAL).crossover(*EQUAL),
    "multiplier": lambda: compared(*PAIR).multiplier(*PAIR),
    "match": lambda: compared(*PAIR).pair(*PAIR),
    "common-ceiling": lambda: compared(*EQUAL).common_ceiling,
    "leave-one-out": left_out,
    "fit-table": lambda: rl.fit_many(demo(), compute=100_000, n_resamples=100),
    "prior": rl.Prior,
    "prior-learned": lambda: rl.learn_prior([fit(name) for name in ("batch-2048", "batch-512", "scalerl")]),
    "simulated-trace": lambda: seeds()["swift"][0],
    "report": lambda: rl.make_report({"scalerl": demo()["scalerl"]}, n_resamples=100, rng=0),
}
DRAWINGS: dict[str, Callable[[], Any]] = {
    "trace": lambda: rl.plot_trace(demo()["scalerl"]),
    "fit": lambda: rl.plot_fit(fit(), bootstrap=boot()),
    "forecast": lambda: rl.plot_forecast(rl.extrapolate(fit(), 100_000, bootstrap=boot(), rng=0), bootstrap=boot()),
    "runs": lambda: rl.plot_runs({name: fit(name) for name in PAIR}, at=100_000),
    "comparison": lambda: rl.plot_comparison(compared(*PAIR)),
    "crossover": lambda: rl.plot_crossover(compared(*PAIR), *PAIR),
    "loo": lambda: rl.plot_loo(left_out()),
    "backtest": lambda: rl.plot_backtest(rl.backtest(demo()["scalerl"], cutoffs=[4000, 8000], rng=0)),
    "plan": lambda: rl.plot_plan(rl.plan(fit("scalerl-8k"), rng=0)),
}


def cases() -> dict[str, Callable[[], Any]]:
    """Return what makes each output, by the name of its file."""
    found: dict[str, Callable[[], Any]] = {"help.txt": functools.partial(help_of, "")}
    found["version.txt"] = functools.partial(text_of, "--version")
    found |= {f"help-{name}.txt": functools.partial(help_of, name) for name in COMMANDS}
    for name, line in CALLS.items():
        found |= {
            f"cli-{name}.txt": functools.partial(text_of, line),
            f"cli-{name}.json": functools.partial(json_of, line),
        }
    found |= {"cli-kernels.txt": kernels_as_text, "cli-kernels.json": kernels_as_json}
    found |= {"cli-report.json": report_as_json, "cli-demo.json": demo_as_json, "cli-export-log.txt": export_log}
    found |= {f"refused-{name}.txt": functools.partial(text_of, line) for name, line in REFUSALS.items()}
    found["refused-by-the-library.json"] = library_refusals
    for name, make in RESULTS.items():
        found[f"result-{name}.json"] = lambda make=make: told(make())
    for name, draw in DRAWINGS.items():
        found[f"drawing-{name}.json"] = lambda draw=draw: drawn(draw)
    found |= {
        "file-trace.jsonl.txt": lambda: file_of(lambda path: rl.write_trace(demo()["scalerl-8k"], path), "t.jsonl"),
        "file-trace.csv.txt": lambda: file_of(lambda path: rl.write_trace(demo()["scalerl-8k"], path), "t.csv"),
        **{
            f"file-trace-{kind}.json": functools.partial(read_again, f"t.{kind}")
            for kind in ("jsonl", "csv", "parquet")
        },
        "file-traces.json": lambda: parquet_of("logs/demo.parquet"),
        "file-running.txt": written_by_writer,
        "file-saved-fit.json": saved_fit,
        "file-table.json": fitted_table,
        "file-report.txt": lambda: page(rl.make_report({name: demo()[name] for name in PAIR}, rng=0)),
        "file-report-seeds.txt": lambda: page(seeds_report()),
        "names.json": lambda: {"rlscaling": sorted(rl.__all__), "rlscaling.trainer": sorted(trainer.__all__)},
    }
    return found


CASES = cases()


def written(name: str, value: Any) -> str:
    """Return an output as its file has it; lists of numbers take one line."""
    if name.endswith(".txt"):
        return value if value.endswith("\n") else value + "\n"
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    return re.sub(r'\[\n\s+[^\[\]{}"]*?\n\s+\]', lambda found: " ".join(found[0].split()), text)


def close(made: Any, kept: Any) -> Any:
    """Return what was made, with the kept number in place of each that is close to it."""
    if isinstance(made, dict) and isinstance(kept, dict):
        return {key: close(item, kept.get(key)) for key, item in made.items()}
    if isinstance(made, list) and isinstance(kept, list) and len(made) == len(kept):
        return [close(*pair) for pair in zip(made, kept, strict=True)]
    both = isinstance(made, float) and isinstance(kept, float)
    return kept if both and math.isclose(made, kept, rel_tol=REL, abs_tol=ABS) else made


def produced(name: str, files: Path, folder: Path) -> Any:
    with at_work(files, folder):
        made = CASES[name]()
        return made if name.endswith(".txt") else plain(made)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    lay_out(folder)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_output_is_the_kept_one(name: str, files: Path, tmp_path: Path) -> None:
    if "kernels" in name:
        pytest.importorskip("torch")
    kept = (GOLDEN / name).read_text(encoding="utf-8")
    made = produced(name, files, tmp_path)
    text = written(name, made if name.endswith(".txt") else close(made, json.loads(kept)))
    lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", lineterm="")
    difference = list(lines)[:MOST_DIFFERENCES]
    assert not difference, "\n".join([f"{name} is not what it was; if that is meant: {RENEW}", *difference])


def kept_files() -> list[Path]:
    return [path for path in GOLDEN.iterdir() if path.suffix in (".txt", ".json")]


def test_every_kept_file_has_its_case() -> None:
    assert {path.name for path in kept_files()} == set(CASES)


def renew() -> None:
    with tempfile.TemporaryDirectory() as top:
        files = Path(top) / "files"
        files.mkdir()
        lay_out(files)
        made = {name: written(name, produced(name, files, Path(top) / name.replace(".", "-"))) for name in CASES}
    for path in kept_files():
        path.unlink()
    for name, text in made.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--renew"]:
        sys.exit(f"to write the kept outputs again: {RENEW}")
    renew()
