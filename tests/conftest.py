"""What every test may use: fixed random numbers, the shared data, a plotting backend without a screen."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import matplotlib as mpl
import numpy as np
import pytest

from helpers.tiny_checkpoints import word_problems

PROJECT = Path(__file__).resolve().parent.parent

mpl.use("Agg")

# "ci" gives the same examples on every run; "explore" looks for new ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed: the same numbers in every run and in every order of tests."""
    return np.random.default_rng(20_251_015)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces and reference fits that lies beside the project, where it does."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    return folder


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train.jsonl``, ``harder.jsonl`` and ``tiny-qwen2/``."""
    path = tmp_path_factory.mktemp("problems")
    word_problems().write_all(path, 300)
    return path
