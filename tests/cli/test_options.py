"""Options that several commands share: their choices are those of the library."""

from __future__ import annotations

from rlscaling.cli import parser
from rlscaling.fitting.options import METHODS
from rlscaling.readers.options import ReadOptions
from rlscaling.solver.resampling import SCHEMES
from rlscaling.traces.schema import COMPUTE_UNITS
from rlscaling.traces.schema import SCALES as READER_SCALES
from rlscaling.uncertainty.bootstrap import POSTERIOR


def test_choices_are_those_of_the_library() -> None:
    assert set(parser.UNITS) == set(COMPUTE_UNITS)
    assert set(parser.SCALES) == {*READER_SCALES, "auto"}
    assert tuple(parser.SCHEMES) == (*SCHEMES, POSTERIOR)
    assert parser.METHODS == METHODS
    assert ReadOptions(scale="auto").scale == "auto"
