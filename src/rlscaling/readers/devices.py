"""How fast accelerators are beside each other, so that hours on one can be told in hours on another."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlscaling.errors import TraceError

PEAK: Mapping[str, float] = {
    "V100": 125,
    "A10": 125,
    "L4": 121,
    "A40": 149.7,
    "RTX4090": 165.2,
    "A100": 312,
    "A800": 312,
    "L40S": 362,
    "H20": 148,
    "H100-PCIE": 756,
    "H100": 989.4,
    "H800": 989.4,
    "H200": 989.4,
    "B200": 2250,
    "GB200": 2500,
    "MI250X": 383,
    "MI300X": 1307.4,
    "MI325X": 1307.4,
    "TPU-V4": 275,
    "TPU-V5E": 197,
    "TPU-V5P": 459,
    "TPU-V6E": 918,
}
"""Peak dense 16-bit matrix rate as its maker states it, TFLOP/s; not measured here.

A ratio of peaks is a first guess: generation is bound by memory, and no run reaches the peak. Where you know the ratio
of your own step times or of your prices, give that number instead.
"""


def device_factor(given: float | str) -> tuple[float, str]:
    """Return what hours are multiplied by, and how it is told.

    Parameters
    ----------
    given
        The factor, or ``"FROM:TO"``: the peak rate of the first over that of the second.

    Raises
    ------
    TraceError
        When a device is not in the table, or the factor is no positive number.

    Examples
    --------
    >>> device_factor("A100:H100")
    (0.3153, 'A100:H100 = 0.3153, the ratio of the peak dense 16-bit rates that their makers state')
    """
    if not isinstance(given, str):
        return float(given), f"{given:g}, as given"
    try:
        factor = float(given)
    except ValueError:
        pass
    else:
        if not 0 < factor < math.inf:
            raise TraceError(f"device_factor={given!r} is not a positive, finite number; correct it")
        return factor, f"{factor:g}, as given"
    names = [name.strip().upper() for name in given.split(":")]
    unknown = [name for name in names if name not in PEAK]
    if len(names) != 2 or unknown:
        raise TraceError(
            f"device_factor={given!r} is neither a number nor FROM:TO of known devices ({', '.join(PEAK)}); give "
            "the ratio of their speeds or prices as a number"
        )
    factor = PEAK[names[0]] / PEAK[names[1]]
    return factor, f"{':'.join(names)} = {factor:.4g}, the ratio of the peak dense 16-bit rates that their makers state"
