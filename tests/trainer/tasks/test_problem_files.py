"""Reading problems, and a split that nothing but the text of a problem decides."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.stats import kstest

from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.tasks.problem_files import Domains, read_domains, read_problems, split_position

ROWS = [{"problem": f"What is {i} + {2 * i}?", "answer": str(3 * i)} for i in range(400)]


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


def held_out(domains: Domains, name: str, share: float = 0.1) -> set[str]:
    return {problem.text for problem in domains.problems[name] if problem.position < share}


def test_places_are_uniform() -> None:
    """Kolmogorov-Smirnov against the uniform distribution: a share of 5 % holds out 5 %."""
    places = [split_position(row["problem"]) for row in ROWS * 1]
    assert len(set(places)) == len(places)
    assert kstest(places, "uniform").pvalue > 0.01


def test_order_further_rows_and_repeats_move_no_problem(tmp_path: Path) -> None:
    first = read_domains({"m": write(tmp_path / "a.jsonl", ROWS[:300])}, {})
    mixed = random.Random(1).sample(ROWS + ROWS[:50], 450)
    later = read_domains({"m": write(tmp_path / "b.jsonl", mixed)}, {})
    assert 15 < len(held_out(first, "m")) < 45
    before = {problem.text for problem in first.problems["m"]}
    assert held_out(later, "m") & before == held_out(first, "m")
    assert len(later.problems["m"]) == 400
    assert later.notes == ("m: 50 repeated problems were left out; each is kept once",)
    again = read_domains({"m": write(tmp_path / "c.jsonl", mixed[::-1])}, {})
    assert again.fingerprint == later.fingerprint != first.fingerprint
    assert [p.text for p in again.problems["m"]] == [p.text for p in later.problems["m"]]


def test_repeated_problems_with_other_answers_and_spaces(tmp_path: Path) -> None:
    rows = [{"problem": "1+1?", "answer": 3}, {"problem": " 1+1?\n", "answer": "2"}, {"problem": "2+2?", "answer": 4.0}]
    for order in (rows, rows[::-1]):
        domains = read_domains({"m": write(tmp_path / "a.jsonl", order)}, {})
        assert {problem.text: problem.answer for problem in domains.problems["m"]} == {"1+1?": "2", "2+2?": "4.0"}
        assert domains.notes == (
            "m: 1 repeated problems, 1 of them with another answer were left out; each is kept once",
        )


def test_downstream_problems_are_never_trained_on(tmp_path: Path) -> None:
    data = {"a": write(tmp_path / "a.jsonl", ROWS[:50]), "b": write(tmp_path / "b.jsonl", ROWS[40:90])}
    domains = read_domains(data, {"aime": write(tmp_path / "d.jsonl", [*ROWS[45:47], *ROWS[200:210]])})
    sizes = {name: len(problems) for name, problems in domains.problems.items()}
    assert list(sizes) == ["a", "b", "aime"]
    assert sizes == {"a": 48, "b": 40, "aime": 12}
    assert domains.downstream == ("aime",)
    assert domains.notes == (
        "a: 2 problems that stand in a downstream set or an earlier data set were left out",
        "b: 10 problems that stand in a downstream set or an earlier data set were left out",
    )


def test_parquet_is_the_same(tmp_path: Path) -> None:
    """The layout of Polaris-53K: problem, answer, and columns that do not matter."""
    pd.DataFrame(ROWS).assign(difficulty="3/8").to_parquet(tmp_path / "a.parquet")
    problems = read_problems(tmp_path / "a.parquet")
    assert problems == read_problems(write(tmp_path / "a.jsonl", ROWS))
    pd.DataFrame({"problem": ["1+1?"], "answer": [2], "solution": ["one more than 1"]}).to_parquet(tmp_path / "b.pq")
    (only,) = read_problems(tmp_path / "b.pq")
    assert (only.answer, only.solution) == ("2", "one more than 1")


BAD_LINES = [
    (["not json"], r"a.jsonl, line 1: 'not json' is no JSON object"),
    ([ROWS[0], "[1]"], r"a.jsonl, line 2: '\[1\]' is no JSON object"),
    ([ROWS[0], "", {"problem": "1+1?"}], r"a.jsonl, line 3 has no 'answer', only problem; rename the column"),
    ([{"question": "1+1?", "answer": 2}], r"a.jsonl, line 1 has no 'problem', only answer, question"),
    ([ROWS[0], {"problem": "1+1?", "answer": None}], r"a.jsonl, line 2: the answer is None, not text or a number"),
    ([{"problem": "1+1?", "answer": "  "}], r"line 1: the answer is '  ', not text"),
    ([{"problem": "1+1?", "answer": True}], r"line 1: the answer is True"),
    (['{"problem": "1+1?", "answer": NaN}'], r"line 1: the answer is nan"),
    ([{"problem": "1+1?", "answer": ["2"]}], r"line 1: the answer is \['2'\]"),
    ([{"problem": "", "answer": "2"}], r"line 1: the problem is '', not text"),
    ([{"problem": {"text": "1+1?"}, "answer": "2"}], r"line 1: the problem is {'text': '1\+1\?'}, not text"),
    ([{"problem": "1+1?", "answer": "2", "solution": 7}], r"line 1: the solution is 7, not text"),
    ([""], r"a.jsonl holds no rows"),
]


@pytest.mark.parametrize(("rows", "match"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_rows_that_are_refused_are_named(rows: list[Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=match):
        read_problems(write(tmp_path / "a.jsonl", rows))


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="there is no such file"):
        read_problems(tmp_path / "a.jsonl")
    with pytest.raises(TrainError, match=r"problems are read from .jsonl, .ndjson, .parquet, .pq"):
        read_problems(tmp_path / "a.csv")
    (tmp_path / "a.jsonl").write_bytes(b'{"problem": "\xff"}')
    with pytest.raises(TrainError, match="is not text in UTF-8"):
        read_problems(tmp_path / "a.jsonl")
    pd.DataFrame({"problem": ["1+1?"], "result": [2]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TrainError, match=r"a.parquet has no 'answer', only problem, result"):
        read_problems(tmp_path / "a.parquet")
    pd.DataFrame({"problem": ["1+1?", "2+2?"], "answer": ["2", None]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TrainError, match=r"a.parquet, row 2: the answer is None"):
        read_problems(tmp_path / "a.parquet")
    pd.DataFrame(ROWS[:0], columns=["problem", "answer"]).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TrainError, match=r"a.parquet holds no rows"):
        read_problems(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TrainError, match="is not a readable Parquet file"):
        read_problems(tmp_path / "a.parquet")
