"""The published fits of the paper [ScaleRL, Table 1]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from rlscaling.curves.sigmoid import SigmoidParams

if TYPE_CHECKING:
    import pandas as pd


DEFAULT_R0 = 0.35
"""The paper does not publish R0; for its 8B runs 0.35 to 0.40 fits what is shown."""

_TABLE1 = {  # name: (A, B, C_mid), [ScaleRL, Table 1]
    "scalerl": (0.610, 1.92, 2542.0),
    "length-32k": (0.645, 1.89, 11272.0),
    "generations-8": (0.585, 2.44, 2542.0),
    "generations-24": (0.590, 2.22, 3054.0),
    "generations-32": (0.595, 2.07, 2936.0),
    "scout-moe": (0.710, 1.65, 4242.0),
    "batch-512": (0.605, 1.77, 2818.0),
    "batch-2048": (0.645, 1.70, 10909.0),
    "math-code-math": (0.595, 2.05, 2896.0),
    "math-code-code": (0.615, 1.09, 1675.0),
}


@overload
def table1(as_frame: Literal[False] = False, *, R0: float = DEFAULT_R0) -> dict[str, SigmoidParams]: ...
@overload
def table1(as_frame: Literal[True], *, R0: float = DEFAULT_R0) -> pd.DataFrame: ...
def table1(as_frame: bool = False, *, R0: float = DEFAULT_R0) -> dict[str, SigmoidParams] | pd.DataFrame:
    """Return the published fits [ScaleRL, Table 1].

    Parameters
    ----------
    as_frame
        Return a pandas DataFrame, one row per run, instead of a dict.
    R0
        Pass rate before RL to fill in; it is not published.

    Returns
    -------
    dict of str to SigmoidParams, or pandas.DataFrame

    Examples
    --------
    >>> table1()["scalerl"]
    SigmoidParams(A=0.61, B=1.92, C_mid=2542.0, R0=0.35)
    """
    fits = {name: SigmoidParams(A=A, B=B, C_mid=C_mid, R0=R0) for name, (A, B, C_mid) in _TABLE1.items()}
    if not as_frame:
        return fits
    import pandas as pd

    rows = {name: {"A": p.A, "B": p.B, "C_mid": p.C_mid, "R0": p.R0} for name, p in fits.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")
