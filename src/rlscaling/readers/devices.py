"""Relative speeds of accelerators, by which hours on one are converted to hours on another."""

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
"""Peak dense 16-bit matrix rate as stated by the maker, TFLOP/s; not measured here.

Sources: the data sheets of NVIDIA (V100 to GB200; half of the rates with sparsity) and AMD (MI250X to MI325X), and
Google Cloud's pages on TPU versions. A ratio of peaks is a first guess: generation is bound by memory, and no run
reaches the peak. Where you know the ratio of your own step times or prices, give that number instead.
"""

PRICE: Mapping[str, float] = {"A100": 1.30, "H100": 3.00, "H200": 4.00}
"""Dollars per hour on demand: the middle of the range of specialised clouds in May 2026.

Source: https://www.mercatus-ai.com/blog/cloud-gpu-pricing (1.10 to 1.50, 2.50 to 3.50, 3.50 to 4.50). The same device
costs up to four times as much elsewhere, and prices move: your own contract is the better number.
"""


def device_factor(factor: float | str) -> tuple[float, str]:
    """Return what hours are multiplied by, and the sentence that says where it is from.

    Parameters
    ----------
    factor
        The factor; ``"FROM:TO"``, the peak rate of the first over that of the second; or ``"price:FROM:TO"``, the
        price of an hour of the first over that of the second.

    Raises
    ------
    TraceError
        When a device is not in the table, or the factor is not a positive number.

    Examples
    --------
    >>> device_factor("A100:H100")
    (0.3153, 'A100:H100 = 0.3153, the ratio of the peak dense 16-bit rates that their makers state')
    >>> device_factor("price:A100:H100")
    (0.4333, 'A100:H100 = 0.4333, the ratio of prices per hour on specialised clouds in May 2026')
    """
    if not isinstance(factor, str):
        return float(factor), f"{factor:g}, as given"
    try:
        number = float(factor)
    except ValueError:
        return _ratio(factor)
    if not 0 < number < math.inf:
        raise TraceError(f"device_factor={factor!r} is not a positive, finite number; correct it")
    return number, f"{number:g}, as given"


def _ratio(text: str) -> tuple[float, str]:
    names = [name.strip().upper() for name in text.split(":")]
    table, what = PEAK, "the peak dense 16-bit rates that their makers state"
    if names[0] == "PRICE":
        names, table, what = names[1:], PRICE, "prices per hour on specialised clouds in May 2026"
    if len(names) != 2 or any(name not in table for name in names):
        raise TraceError(
            f"device_factor={text!r} is neither a number, nor FROM:TO of known devices ({', '.join(PEAK)}), nor "
            f"price:FROM:TO ({', '.join(PRICE)}); give the ratio of their speeds or prices as a number"
        )
    factor = table[names[0]] / table[names[1]]
    return factor, f"{':'.join(names)} = {factor:.4g}, the ratio of {what}"
