"""Simulated runs of a recipe and their fits."""

from __future__ import annotations

import math

import numpy as np

from rlscaling import fit_sigmoid
from rlscaling.curves.sigmoid import sigmoid

C = np.arange(0, 75) * 216.2
SCALERL = (0.610, 1.92, 2542.0, 0.35)
SLOW = (0.66, 1.70, 10909.0, 0.35)
LONG = np.arange(0, 149) * 216.2  # twice as long as C


def noisy(params, seed, *, compute=C, rho=0.6, sd=0.006):
    """One run: the curve, AR(1) wander, and the sampling noise of 16,000 rollouts."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(len(compute))
    for t in range(1, len(z)):
        z[t] = rho * z[t - 1] + math.sqrt(1 - rho * rho) * z[t]
    mean = sigmoid(compute, *params)
    return np.clip(mean + sd * z + np.sqrt(mean * (1 - mean) / 32000) * rng.standard_normal(len(z)), 0, 1)


def fitted(params, seed=None, *, compute=C, **options):
    y = sigmoid(compute, *params) if seed is None else noisy(params, seed, compute=compute)
    return fit_sigmoid(compute, y, **options)
