"""`TraceWriter`: rows appended to a trace file, each on the disk when ``write`` returns.

The file has a header, then one JSON object per evaluation or training step (``docs/traces.md``). A line cut short
by a kill is moved aside when the file is opened again, and no logged row is ever lost.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlscaling.errors import TraceError
from rlscaling.files import AppendOnlyFile, open_locked, replace_file, sync_folder, write_all
from rlscaling.serialization import json_line, plain
from rlscaling.traces.jsonl import HEADER_START, Line, check_header, parse_lines
from rlscaling.traces.schema import SCHEMA_VERSION

_REQUIRED_FINITE = ("compute", "compute_gpu_hours", "pass_rate")


class TraceWriter(AppendOnlyFile):
    """Append rows to a trace file; each is on the disk when ``write`` returns.

    Parameters
    ----------
    path
        The file, in a folder that exists.
    header
        What is known about the run: ``run_id``, ``recipe``, ``change`` (what a leave-one-out recipe undoes in the
        reference, in a few words), ``seed``, ``compute_unit``, ``config_hash`` ...
    append
        Continue a file that is there. A torn last line is moved to ``<path>.torn``.

    Attributes
    ----------
    header : dict
        The header in the file.
    n_rows : int
        Rows in the file, not counting the header.
    recovered : str
        What was recovered on opening, one sentence; empty when nothing was.

    Raises
    ------
    TraceError
        When the file exists and ``append`` is false, belongs to another run, or is being written already.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "trace.jsonl"
    >>> with TraceWriter(path, {"recipe": "scalerl", "seed": 1}) as writer:
    ...     writer.write("eval", step=0, compute_gpu_hours=0.0, pass_rate=0.35)
    >>> from rlscaling.traces.jsonl import read_jsonl
    >>> read_jsonl(path)[1]
    [{'kind': 'eval', 'step': 0, 'compute_gpu_hours': 0.0, 'pass_rate': 0.35}]
    """

    def __init__(self, path: str | Path, header: Mapping[str, Any], *, append: bool = False) -> None:
        self.recovered = ""
        self.n_rows = 0
        self.header: dict[str, Any] = plain({"kind": "header", "schema_version": SCHEMA_VERSION, **header})
        super().__init__(Path(path), append=append)
        try:
            if not append or not self._resume(dict(header)):
                self._append(json_line(self.header))
                sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def _resume(self, expected: dict[str, Any]) -> bool:
        """Set aside a torn last line and read the header; False when the file holds none yet."""
        assert self._fd is not None
        lines, self.recovered = _recover(self._fd, self.path)
        if not lines:
            return False
        self.header = check_header(lines, self.path.name)
        for key in ("run_id", "config_hash"):
            if key in expected and key in self.header and plain(expected[key]) != self.header[key]:
                raise TraceError(
                    f"{self.path} belongs to another run: its {key} is {self.header[key]!r}, not "
                    f"{expected[key]!r}; resume with the same configuration or choose another folder"
                )
        self.n_rows = len(lines) - 1
        return True

    def write(self, kind: str, **columns: Any) -> None:
        """Append one row.

        Parameters
        ----------
        kind
            ``"eval"`` or ``"train"``.
        **columns
            Values of the row. A metric that is not finite is written as null.

        Raises
        ------
        TraceError
            When compute or pass rate is not a finite number; nothing is written then.
        """
        if not kind or kind == "header":
            raise TraceError(f'kind={kind!r} cannot be written as a row; use "eval" or "train"')
        row = {"kind": kind, **plain(columns)}
        for key in _REQUIRED_FINITE:
            if key in row and (isinstance(row[key], bool) or not isinstance(row[key], int | float)):
                raise TraceError(
                    f"{key} is {columns[key]!r} in {kind} row {self.n_rows + 1}: not a finite number; correct "
                    "it before writing"
                )
        self._append(json_line(row))
        self.n_rows += 1


def rewind(path: str | Path, step: int) -> int:
    """Move the rows after ``step`` to ``<stem>.discarded.jsonl`` beside the file, for a resume.

    The rows are on the disk in the second file before they leave the first, so a kill loses none; when the
    call is repeated after a kill, rows that were copied already are not copied again.

    Parameters
    ----------
    path
        The trace file, not open in a writer.
    step
        Step of the checkpoint; rows of this step stay, and so do rows without a step.

    Returns
    -------
    int
        Number of rows moved.
    """
    path = Path(path)
    fd = open_locked(path, create=False)
    try:
        lines, _ = _recover(fd, path)
        check_header(lines, path.name)
        late = [line for line in lines if isinstance(at := line.row.get("step"), int | float) and at > step]
        if not late:
            return 0
        _append_once(path.with_name(f"{path.stem}.discarded.jsonl"), [line.raw for line in late])
        gone = {line.number for line in late}
        replace_file(path, b"".join(line.raw for line in lines if line.number not in gone))
        return len(late)
    finally:
        os.close(fd)


def _append_once(path: Path, raws: list[bytes]) -> None:
    """Append the lines that are not yet in the file."""
    fd = open_locked(path, create=True)
    try:
        present = Counter(line.raw for line in _recover(fd, path)[0])
        missing = []
        for raw in raws:
            if present[raw]:
                present[raw] -= 1
            else:
                missing.append(raw)
        write_all(fd, b"".join(missing))
        sync_folder(path.parent)
    finally:
        os.close(fd)


def _recover(fd: int, path: Path) -> tuple[list[Line], str]:
    """Make an open file end in a complete line; what follows it is moved to ``<path>.torn``."""
    data = path.read_bytes()
    lines, good = parse_lines(data, path.name)
    if good == len(data):
        if data and not data.endswith(b"\n"):  # the row is whole, only its line end is missing
            write_all(fd, b"\n")
            lines[-1] = lines[-1]._replace(raw=lines[-1].raw + b"\n")
        return lines, ""
    if good == 0 and not HEADER_START.startswith(data[: len(HEADER_START)]):
        raise TraceError(f"{path} is not a trace (it does not begin with the header of one); it was left as it is")
    torn = path.with_name(path.name + ".torn")
    torn_fd = os.open(torn, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        write_all(torn_fd, data[good:].rstrip(b"\n") + b"\n")
    finally:
        os.close(torn_fd)
    sync_folder(path.parent)
    os.ftruncate(fd, good)
    os.fsync(fd)
    moved = f"its {len(data) - good} bytes were moved to {torn.name}"
    return lines, f"The last line of {path.name} was cut short; {moved}."
