"""Problem files (JSON lines or Parquet with the columns ``problem`` and ``answer``) and their stable split.

Which problem is held out depends on its text alone: order of rows, further rows and repeated ones move none from the
training to the held-out prompts or back.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlscaling.trainer.errors import TrainError

JSON_LINES, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
_SPACES = re.compile(r"\s+")


@dataclasses.dataclass(frozen=True)
class Problem:
    """A row of a data set.

    Attributes
    ----------
    position
        In [0, 1): where the text of the problem falls; those below the held-out share are never trained on.
    solution
        A worked solution, for the supervised warm-up; empty where the data have none.
    """

    text: str
    answer: str
    solution: str
    position: float


def split_position(problem: str) -> float:
    r"""Return where the text of a problem falls in [0, 1), by SHA-256; spaces count once.

    Examples
    --------
    >>> split_position("What is 1 + 1?") == split_position(" What is  1 + 1?\n")
    True
    """
    text = _SPACES.sub(" ", unicodedata.normalize("NFC", problem)).strip()
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def read_problems(path: Path) -> list[Problem]:
    """Return the rows of a file.

    Raises
    ------
    TrainError
        For a file that is missing, empty, damaged or of another kind, a missing column, a row without problem or
        answer; it names the row.
    """
    kind = path.suffix.lower()
    if kind not in JSON_LINES + PARQUET:
        raise TrainError(f"{path}: problems are read from {', '.join(JSON_LINES + PARQUET)}; convert the file")
    if not path.is_file():
        raise TrainError(f"{path}: there is no such file; give the path of the problems")
    rows = _json_lines(path) if kind in JSON_LINES else _parquet(path)
    problems = [_problem(row, where) for where, row in rows]
    if not problems:
        raise TrainError(f"{path} holds no rows; a data set needs at least one problem with its answer")
    return problems


def _json_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="\n") as stream:
        lines = enumerate(stream, start=1)
        try:
            for number, line in lines:
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise TrainError(f"{where}: {line.strip()[:60]!r} is no JSON object; repair or remove the line")
                yield where, row
        except UnicodeDecodeError as error:
            raise TrainError(f"{path} is not text in UTF-8 ({error.reason}); convert the file") from None


def _parquet(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            for name in ("problem", "answer"):
                if name not in columns:
                    raise TrainError(_missing_column(str(path), name, columns))
            table = file.read([name for name in ("problem", "answer", "solution") if name in columns])
    except (pa.ArrowException, OSError) as error:
        raise TrainError(
            f"{path} is not a readable Parquet file ({str(error).splitlines()[0]}); copy it again"
        ) from None
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"{path}, row {number}", row


def _missing_column(where: str, name: str, columns: list[str]) -> str:
    return (
        f"{where} has no {name!r}, only {', '.join(sorted(columns)[:10]) or 'nothing'}; rename the column that holds it"
    )


def _problem(row: Mapping[str, Any], where: str) -> Problem:
    for name in ("problem", "answer"):
        if name not in row:
            raise TrainError(_missing_column(where, name, list(row)))
    text, answer, solution = row["problem"], row["answer"], row.get("solution")
    if not isinstance(text, str) or not text.strip():
        raise TrainError(f"{where}: the problem is {_short(text)}, not text; repair or remove the row")
    number = isinstance(answer, int | float) and not isinstance(answer, bool) and math.isfinite(answer)
    if not number and not (isinstance(answer, str) and answer.strip()):
        raise TrainError(f"{where}: the answer is {_short(answer)}, not text or a number; repair or remove the row")
    for name in ("problem", "answer", "solution"):
        if isinstance(row.get(name), str) and any("\ud800" <= c <= "\udfff" for c in row[name]):
            raise TrainError(
                f"{where}: the {name} has half of a character (a lone surrogate), which is no text; repair or remove "
                "the row"
            )
    if solution is not None and not isinstance(solution, str):
        raise TrainError(f"{where}: the solution is {_short(solution)}, not text; repair the row, or drop the column")
    return Problem(text.strip(), str(answer).strip(), (solution or "").strip(), split_position(text))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclasses.dataclass(frozen=True)
class Domains:
    """The data of a run.

    Attributes
    ----------
    problems
        By domain, each problem once, in the order of their positions.
    downstream
        Those of the domains that are only evaluated.
    notes
        What was left out, and why.
    """

    problems: Mapping[str, tuple[Problem, ...]]
    downstream: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that differ when any problem, answer or solution does."""
        digest = hashlib.sha256()
        for name, problems in self.problems.items():
            rows = [[name, problem.text, problem.answer, problem.solution] for problem in problems]
            digest.update(json.dumps(rows).encode())
        return digest.hexdigest()[:16]


def read_domains(data: Mapping[str, Path], downstream: Mapping[str, Path]) -> Domains:
    """Read all data sets; a problem stands in one of them, once.

    A repeated problem keeps its first answer, the smallest one where rows differ, whatever their order. A problem of a
    downstream set is never trained on, and one that two data sets share belongs to the first of them.
    """
    taken: set[float] = set()
    by_domain: dict[str, tuple[Problem, ...]] = {}
    notes: list[str] = []
    for name, path in [*downstream.items(), *data.items()]:
        rows = sorted(read_problems(path), key=lambda row: (row.position, row.answer, row.solution, row.text))
        once = {row.position: row for row in reversed(rows)}
        answers = len({(row.position, row.answer) for row in rows}) - len(once)
        own = tuple(row for position, row in sorted(once.items()) if name in downstream or position not in taken)
        notes += _notes(name, len(rows) - len(once), answers, len(once) - len(own))
        taken |= set(once)
        by_domain[name] = own
    ordered = {name: by_domain[name] for name in (*data, *downstream)}
    return Domains(ordered, tuple(downstream), tuple(notes))


def _notes(name: str, repeated: int, answers: int, shared: int) -> Iterator[str]:
    if repeated:
        differing = f", {answers:,} of them with another answer" if answers else ""
        yield f"{name}: {repeated:,} repeated problems{differing} were left out; each is kept once"
    if shared:
        yield f"{name}: {shared:,} problems that stand in a downstream set or an earlier data set were left out"
