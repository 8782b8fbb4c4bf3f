"""What the caller gave is questioned where the evaluations contradict it."""

from __future__ import annotations

import numpy as np
import pytest

from rlscaling import fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid

C = np.arange(0.0, 16001, 400)
Y = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + np.random.default_rng(0).normal(0, 0.004, len(C))


@pytest.mark.parametrize("A", [0.5, 0.55, 0.8])
def test_a_ceiling_that_the_late_evaluations_contradict_is_a_misfit(A):
    fit = fit_sigmoid(C, Y, A=A)
    assert fit.verdict == "misfit"
    assert f"A was given as {A:g}" in fit.reason
    assert "A = 0.61" in fit.reason


@pytest.mark.parametrize("given", [{"B": 5.0}, {"R0": 0.1}])
def test_other_given_parameters_are_questioned_in_a_note(given):
    (name,) = given
    notes = [note for note in fit_sigmoid(C, Y, **given).notes if note.startswith(f"{name} was given")]
    assert len(notes) == 1
    assert "contradict" in notes[0]


def test_what_the_evaluations_agree_with_is_not_questioned():
    for given in ({}, {"A": 0.61}, {"B": 1.9}, {"R0": 0.35}, {"A": 0.615, "R0": 0.345}):
        fit = fit_sigmoid(C, Y, **given)
        assert not [note for note in fit.notes if "contradict" in note]
        assert fit.verdict != "misfit"


def test_a_given_observation_of_R0_is_held_against_the_evaluation_at_compute_0():
    fit = fit_sigmoid(C, Y, R0=0.2, R0_se=0.02)
    (note,) = (note for note in fit.notes if note.startswith("R0 was given as 0.2"))
    assert "the evaluation at compute 0 (0.35" in note
    assert not [note for note in fit_sigmoid(C, Y).notes if "R0 was given" in note or "observation of R0" in note]


def test_an_observation_of_R0_far_off_the_curve_is_noted():
    """No evaluation at compute 0 speaks against it here: the curve does, since the run is long past its start."""
    compute = np.linspace(400.0, 16000.0, 40)
    y = sigmoid(compute, 0.61, 1.92, 2542.0, 0.35) + np.random.default_rng(0).normal(0, 0.001, 40)
    fit = fit_sigmoid(compute, y, R0=0.05, R0_se=0.01, min_compute=0)
    (note,) = (note for note in fit.notes if "observation of R0 (0.05" in note)
    assert "below the curve" in note
    assert "--R0 free" in note


def test_records_only_are_noted():
    noisy = sigmoid(C, 0.61, 1.92, 2542.0, 0.35) + np.random.default_rng(1).normal(0, 0.01, len(C))
    assert [note for note in fit_sigmoid(C, np.maximum.accumulate(noisy)).notes if "best scores so far" in note]
    for y in (noisy, sigmoid(C, 0.61, 1.92, 2542.0, 0.35)):
        assert not [note for note in fit_sigmoid(C, y).notes if "best scores so far" in note]
