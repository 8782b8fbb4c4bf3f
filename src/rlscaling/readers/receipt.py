"""`Receipt`: what was matched, assumed and left out when a run was read, and from which files."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CHUNK = 1 << 20


class Finding(NamedTuple):
    """One doubtful thing about a run.

    Attributes
    ----------
    severity : str
        ``"decide"``: no result can be trusted until this is decided; ``"warn"``: it was read in the stated way.
    what, remedy : str
        What is doubtful, and what to do about it.
    """

    severity: str
    what: str
    remedy: str


@dataclasses.dataclass
class Receipt:
    """What a reader did with one run; filled while it reads, then kept in ``Trace.metadata["receipt"]``.

    Attributes
    ----------
    reader, framework
        The format, and the framework that its keys belong to; "" for none.
    run, domain
        Which run and evaluation set of the source.
    files : list of dict
        Name, size in bytes and SHA-256 of every input; the hash is taken by ``rlscaling ingest`` and ``doctor`` only.
    columns : dict of str to str
        Role -> the key that fills it: ``pass_rate``, ``step``, ``seconds``, ``tokens`` ...
    rows_read, rows_kept : int
        Rows of the run, and those that became evaluations.
    dropped : dict of str to int
        Reason -> rows that were left out for it.
    assumed : dict
        Setting -> value: GPU count and how it was obtained, evaluation time, resume policy, scale ...
    warnings : list of Finding
        What looks wrong, and what to do about it.
    """

    reader: str = ""
    framework: str = ""
    run: str = ""
    domain: str = ""
    files: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    columns: dict[str, str] = dataclasses.field(default_factory=dict)
    rows_read: int = 0
    rows_kept: int = 0
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    assumed: dict[str, Any] = dataclasses.field(default_factory=dict)
    warnings: list[Finding] = dataclasses.field(default_factory=list)

    def drop(self, reason: str, n: int) -> None:
        """Count rows that were left out."""
        if n:
            self.dropped[reason] = self.dropped.get(reason, 0) + int(n)

    def warn(self, what: str, remedy: str, *, decide: bool = False) -> None:
        """Add a warning, unless it is there already."""
        finding = Finding("decide" if decide else "warn", what, remedy)
        if finding not in self.warnings:
            self.warnings.append(finding)

    def copy(self) -> Receipt:
        """Return a receipt that can be filled further without changing this one."""
        return Receipt(**self._fields())

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as JSON-ready values."""
        return self._fields() | {"warnings": [finding._asdict() for finding in self.warnings]}

    def _fields(self) -> dict[str, Any]:
        return {name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self).items()}


def fingerprints(files: Sequence[Path], content: bytes | None = None, *, hashed: bool = True) -> list[dict[str, Any]]:
    """Return name, size and SHA-256 of some files; a folder stands for the files in it.

    ``content`` is that of the only file, if it has been read already. Without ``hashed`` the SHA-256 is left out.
    """
    if content is not None and len(files) == 1:
        digest = hashlib.sha256(content).hexdigest() if hashed else None
        return [{"name": files[0].name, "bytes": len(content), "sha256": digest}]
    inside = [
        file
        for path in files
        for file in (sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path])
    ]
    return [
        {"name": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file) if hashed else None}
        for file in inside
    ]


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def receipt_lines(receipt: Mapping[str, Any]) -> list[str]:
    """Return a receipt as lines of text."""
    framework = "" if receipt["framework"] in receipt["reader"] else receipt["framework"]
    kind = " of ".join(filter(None, (receipt["reader"], framework)))
    lines = [f"read as: {kind or 'a table'}"]
    lines += [
        f"input: {file['name']} ({file['bytes']:,} bytes, sha256 {(file['sha256'] or 'not taken')[:12]})"
        for file in receipt["files"][:8]
    ]
    if len(receipt["files"]) > 8:
        lines.append(f"input: and {len(receipt['files']) - 8} files more")
    lines += [f"{role}: {key}" for role, key in receipt["columns"].items()]
    lines.append(f"rows: {receipt['rows_read']:,} read, {receipt['rows_kept']:,} kept as evaluations")
    lines += [f"left out: {n:,} rows: {reason}" for reason, n in receipt["dropped"].items()]
    lines += [f"{name}: {_shown(value)}" for name, value in receipt["assumed"].items()]
    return lines + [f"warning: {finding['what']}" for finding in receipt["warnings"]]


def _shown(value: Any) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
