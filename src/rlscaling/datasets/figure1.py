"""The two runs of Figure 1 of the paper, read off the picture."""

from __future__ import annotations

from rlscaling.datasets.bundled import read_bundled
from rlscaling.traces.trace import Trace


def figure1() -> dict[str, Trace]:
    """Return the two real runs of the paper's Figure 1, digitised: 66 evaluations [ScaleRL, Figure 1].

    ``scalerl-8b`` is the 8B dense model at batch 2048 to 100,000 GPU-hours (34 points), ``scalerl-moe`` the
    Llama-4 Scout 17Bx16 MoE to 45,000 (32 points). Each value is the mean of 1,000 held-out prompts x 16 samples.

    Returns
    -------
    dict of str to Trace
        The metadata state ``source``, ``license``, ``accuracy`` and ``R0_of_drawn_curve``: the pass rate before RL
        of the curve that the figure draws, 0.4017 and 0.5116. The paper prints no R0.

    Notes
    -----
    The values are those of pixels, not of the authors' log: about 0.001 in pass rate and 1 % in compute. The
    evaluation nearest to 50,000 GPU-hours lies at 50,640, so the paper's window "to 50k" is ``max_compute=51_000``.
    Markers that overlap in the figure are missing. The figure is CC BY 4.0, by Khatri et al., arXiv 2510.13786; the
    points were digitised for https://github.com/kiankyars/rlvrbook.

    Examples
    --------
    >>> from rlscaling import fit_trace
    >>> run = figure1()["scalerl-8b"]
    >>> run
    Trace('scalerl-8b': 34 evaluations, 1328 to 89367 gpu-hours, pass rate 0.402 to 0.64)
    >>> fit = fit_trace(run, max_compute=51_000)  # the paper's fit: A 0.645, B 1.70
    >>> round(fit.A, 3), round(fit.B, 2)
    (0.639, 1.7)
    """
    return read_bundled("figure1")
