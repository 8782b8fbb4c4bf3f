"""Curves of real runs, by repository, and the two halves that the repositories fall into."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FIRST_HALF = (
    "DrEternity/gsm8k-post-training", "MiuLab/DDQ", "beibeizzz/countdown_post_train", "facebookresearch/drqv2",
    "nicklashansen/tdmpc", "rasbt/reasoning-from-scratch", "tonywang1990/gsm8k-grpo",
)  # fmt: skip
"""Repositories that choices may look at; all others are the half that is scored."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One real curve: scores by compute."""

    name: str
    repository: str
    bounded: bool
    of_language_model: bool
    compute: np.ndarray
    score: np.ndarray

    @property
    def first_half(self) -> bool:
        return self.repository in FIRST_HALF


def curves(folder: Path) -> Iterator[Curve]:
    """Yield every curve of the two folders of real runs."""
    for table, traces in (("traces_sources.csv", "traces"), ("traces2_sources.csv", "traces2")):
        with open(folder / table, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in sorted(rows, key=lambda row: row["file"]):
            data = np.genfromtxt(folder / traces / row["file"], delimiter=",", skip_header=1, usecols=(0, 1))
            data = data[np.isfinite(data).all(axis=1)]
            compute, first = np.unique(data[:, 0], return_index=True)
            score, bounded = data[first, 1], row.get("scale", "bounded") == "bounded"
            if bounded and score.max() > 1.0:
                score = score / (100.0 if score.max() <= 100.0 else 1000.0)
            llm = row["kind"] != "classic" and not row["repository"].startswith(("facebookresearch", "nicklashansen"))
            yield Curve(row["file"][:-4], row["repository"], bounded, llm, compute, score)
