"""Data that ship with the package: published fits and figures, simulated runs, and the traces of the demo."""

from rlscaling.datasets.demo import load_demo
from rlscaling.datasets.figure1 import figure1
from rlscaling.datasets.published import DEFAULT_R0, table1
from rlscaling.datasets.simulation import simulate

__all__ = ["DEFAULT_R0", "figure1", "load_demo", "simulate", "table1"]
