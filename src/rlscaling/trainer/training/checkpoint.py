"""The folder of a run: its trace, its checkpoint, and how a killed run resumes.

A checkpoint is taken between two updates and holds everything the next one depends on: weights, optimizer,
completions in flight with their tokens, log-probabilities, versions and stale keys and values, finished ones that
wait, the curriculum, the virtual clock, the meter. It replaces the one before in a single step, so a kill at any
moment leaves one that is whole. Rows of the trace after it move to ``trace.discarded.jsonl`` on resume.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch

from rlscaling.files import replace_file
from rlscaling.traces.jsonl import read_jsonl
from rlscaling.traces.writer import TraceWriter, rewind
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.model.hf_weights import check_target
from rlscaling.trainer.settings.config import TrainConfig
from rlscaling.trainer.settings.make import FREE, PATHS

TRACE, CHECKPOINT = "trace.jsonl", "checkpoint.pt"
CHECKPOINT_VERSION = 2
MAX_SHOWN = 8  # settings that differ
ONE_PROCESS, RANKS = "one process", "ranks of torchrun"
_COMMANDS = {ONE_PROCESS: "rlscaling train", RANKS: "torchrun -m rlscaling.trainer"}


def check_free(folder: Path) -> None:
    """Check that a folder holds no run.

    Raises
    ------
    TrainError
        When it does, or is no folder.
    """
    _check_folder(folder)
    if (folder / TRACE).exists() or (folder / CHECKPOINT).exists():
        raise TrainError(
            f"{folder} holds a run already and was left as it is; pass --resume (resume=True) to go on with it, or "
            "choose another folder"
        )


def check_save(config: TrainConfig, folder: str | Path | None, out: str | Path | None = None) -> None:
    """Check that the model has a published layout and can be saved to a folder, before any compute is spent."""
    if folder is None:
        return
    if not config.model_path:
        raise TrainError(
            f"save_model={str(folder)!r} without model_path: only a pretrained model has a layout to save in"
        )
    if out is not None and Path(folder).resolve() == Path(out).resolve():
        raise TrainError(f"save_model={str(folder)!r} is the folder of the run itself; choose another")
    check_target(folder)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise TrainError(f"{folder} is a file; choose a folder for the run")


class RunFolder:
    """Where a run writes; without a folder its rows are kept in memory only.

    Parameters
    ----------
    folder
        Made if it is not there; None writes nothing.
    header
        Header of the trace; ``config_hash`` decides whether a folder belongs to this run.
    resume
        Go on with the run in the folder; a folder that holds none yet begins one.
    writer
        What writes the checkpoints: one process, or ranks. Neither can resume those of the other.

    Attributes
    ----------
    state : dict or None
        The checkpoint to go on from.
    lost : float
        Compute of all steps that resumes threw away, in hours.

    Raises
    ------
    TrainError
        When the folder holds a run and ``resume`` is false, or holds another run.
    """

    def __init__(
        self,
        folder: str | Path | None,
        header: Mapping[str, Any],
        *,
        resume: bool = False,
        writer: str = ONE_PROCESS,
    ) -> None:
        self.folder = Path(folder) if folder is not None else None
        self.writer = writer
        self._rows: list[dict[str, Any]] = []  # without a folder
        self.state: dict[str, Any] | None = None
        self.saved_at: int | None = None
        self.lost = 0.0
        self._writer: TraceWriter | None = None
        if self.folder is None:
            return
        self._check_same_run(header, resume)
        self.folder.mkdir(parents=True, exist_ok=True)
        if resume and self._holds_a_header():
            self._rewind(str(header["compute_column"]))
            header = {key: value for key, value in header.items() if key != "run_id"}  # the one in the file stays
        self._writer = TraceWriter(self.folder / TRACE, header, append=resume)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the trace, those of earlier processes included."""
        return self._rows if self.trace is None else read_jsonl(self.trace)[1]

    def has_evaluation(self, step: int) -> bool:
        """Whether the trace has an evaluation at a step."""
        return any(row["kind"] == "eval" and row["step"] == step for row in self.rows)

    @property
    def trace(self) -> Path | None:
        """The trace file."""
        return self.folder / TRACE if self.folder is not None else None

    def _check_same_run(self, header: Mapping[str, Any], resume: bool) -> None:
        assert self.folder is not None
        trace, checkpoint = self.folder / TRACE, self.folder / CHECKPOINT
        if not resume:
            check_free(self.folder)
            return
        _check_folder(self.folder)
        if self._holds_a_header():
            before = read_jsonl(trace)[0]
            self._same_config(before.get("config_hash"), header, trace, before.get("config"))
        if checkpoint.exists():
            self.state = load_checkpoint(checkpoint)
            writer = self.state.get("writer", ONE_PROCESS)
            if writer != self.writer:
                raise TrainError(
                    f"{checkpoint} was written by {writer} and {self.writer} cannot go on from it; start it the way it "
                    f"was started ({_COMMANDS[writer]}), or choose another folder"
                )
            self._same_config(self.state["config_hash"], header, checkpoint)
            self._has_steps_left(header)
            if not self._holds_a_header():
                raise TrainError(
                    f"{checkpoint} stands without its {TRACE}: the rows before step {self.state['step']} would be "
                    "missing; put the trace back, or choose another folder"
                )

    @staticmethod
    def _same_config(config_hash: Any, header: Mapping[str, Any], path: Path, before: Any = None) -> None:
        if config_hash != header["config_hash"]:
            raise TrainError(
                f"{path} belongs to a run of other settings (config {config_hash}, not {header['config_hash']})"
                f"{_difference(before, header.get('config'))}; resume with the settings in the header of its trace, or "
                "choose another folder"
            )

    def _has_steps_left(self, header: Mapping[str, Any]) -> None:
        assert self.state is not None
        done, wanted = self.state["step"], header["config"]["steps"]
        if wanted < done:
            raise TrainError(
                f"{self.folder} has done {done} steps already, more than steps={wanted}, and was left as it is; resume "
                f"with at least steps={done}"
            )

    def _holds_a_header(self) -> bool:
        trace = self.trace
        return trace is not None and trace.exists() and b"\n" in trace.read_bytes()

    def _rewind(self, compute_column: str) -> None:
        """Move the rows past the checkpoint aside, and count what they had cost."""
        assert self.folder is not None
        trace, last = self.folder / TRACE, -1
        rows = read_jsonl(trace)[1]
        if self.state is not None:
            last = self.saved_at = int(self.state["step"])
            kept = max((row[compute_column] for row in rows if row["step"] <= last), default=0.0)
            redone = max((row[compute_column] for row in rows), default=0.0) - kept
            self.lost = self.state["lost"] = float(self.state["lost"]) + redone
            if redone:  # once the rows have moved, only the checkpoint knows
                self._store(self.state)
        rewind(trace, last)

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        """Append a row to the trace.

        Raises
        ------
        TrainError
            When the disk takes no more; the trace up to here is whole.
        """
        if self._writer is None:
            self._rows.append({"kind": kind, **row})
        else:
            writer = self._writer
            self._guard(lambda: writer.write(kind, **row), "the row", row["step"])

    def save(self, step: int, state: Mapping[str, Any], config_hash: str) -> None:
        """Replace the checkpoint."""
        if self.folder is None:
            return
        head = {"version": CHECKPOINT_VERSION, "writer": self.writer, "step": step, "config_hash": config_hash}
        self._store({**head, "lost": self.lost, **state})
        self.saved_at = step

    def _store(self, state: Mapping[str, Any]) -> None:
        assert self.folder is not None
        path, buffer = self.folder / CHECKPOINT, io.BytesIO()
        torch.save(dict(state), buffer)
        self._guard(lambda: replace_file(path, buffer.getvalue()), "the checkpoint", state["step"])

    def _guard(self, action: Callable[[], None], what: str, step: int) -> None:
        try:
            action()
        except OSError as error:
            raise TrainError(
                f"{what} of step {step} could not be written to {self.folder}: {error.strerror}; the trace up to there "
                "is whole: make room and resume"
            ) from error

    def close(self) -> None:
        """Let another process have the trace."""
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds.

    Raises
    ------
    TrainError
        When it is torn, or of another format.
    """
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError) as error:
        raise TrainError(
            f"{path} cannot be read as a checkpoint ({type(error).__name__}); remove it to begin the run again"
        ) from error
    if state.get("version") != CHECKPOINT_VERSION:
        raise TrainError(
            f"{path} is a checkpoint of format {state.get('version')!r}, this version reads {CHECKPOINT_VERSION}; "
            "resume with the version that wrote it"
        )
    return state


def _difference(before: Any, now: Any) -> str:
    """Return in a few words which settings differ; those that a resume may change are left out."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return ""
    names = [name for name in (*before, *now) if name not in (*FREE, *PATHS) and before.get(name) != now.get(name)]
    shown = [f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in dict.fromkeys(names)]
    if not shown:
        return ": the content of its data or of its pretrained model has changed"
    more = [f"and {len(shown) - MAX_SHOWN} more"] if len(shown) > MAX_SHOWN else []
    return ": " + "; ".join(shown[:MAX_SHOWN] + more)
