"""`scale_of`: what a column's name says of its scale: thousands, tokens in billions, petaFLOPs, days, a logarithm."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from rlscaling.arrays import FloatArray
from rlscaling.errors import TraceError

DEVICES = r"(?:[ghnt]pu|[ahbl]\d{2,3}|g[bh]200|v100|p100|mi\d{3}[ax]?|device|accelerator|xpu|chip|core)s?"
HOUR = r"(?:h|hr|hrs|hours?)(?![a-z])"
_TIMES = {"second": 1.0 / 3600.0, "minute": 1.0 / 60.0, "day": 24.0, "week": 168.0, "year": 8766.0}  # in hours
_WORDS = {
    "thousand": 1e3, "kilo": 1e3, "million": 1e6, "mega": 1e6, "mio": 1e6, "mn": 1e6, "mm": 1e6, "billion": 1e9,
    "giga": 1e9, "bn": 1e9, "trillion": 1e12, "tera": 1e12, "peta": 1e15, "exa": 1e18, "zetta": 1e21, "yotta": 1e24,
}  # fmt: skip
_LETTERS = {
    "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18, "z": 1e21, "y": 1e24,
}  # fmt: skip
_OF_TOKENS = "kmbgt"
_COUNTED = (  # what is counted, and the letters that stand for powers of ten before or behind it
    (r"flops?(?![a-z])", "kmbgtpezy"),
    (rf"{DEVICES}[ _./-]*(?:{HOUR}|(?:{'|'.join(_TIMES)})s?(?![a-z]))", "km"),
    (r"tok(?:en)?s?(?![a-z])", _OF_TOKENS),
    (r"(?:rollouts?|episodes?|completions)(?![a-z])", "kmb"),
    (r"(?:steps?|iterations?|iters?|updates?|frames?)(?![a-z])", "km"),
    (r"(?:hours?|hrs)(?![a-z])", "k"),
    (r"(?<![a-z])compute(?![a-z])", "km"),
)
_WORD = f"(?:{'|'.join(_WORDS)})s?"
_NUMBER = r"(?:[x×] ?)?(?:10(?:\^|\*\*)\d+|1e\+?\d+|1000000|1000)s?"
_SO_FAR = r"(?:[ _./-]+(?:seen|processed|trained|consumed|generated|used|total|so[ _]far|cum(?:ulative)?))*"
_RATE_TIME = re.compile(  # petaFLOP/s-days, PF-days: work, as a rate times a time
    r"(?<![a-z])(?P<size>tera|peta|exa|zetta|[tpez])f(?:lops?)?(?:[ _./-]*s(?:ec)?)?[ _./-]*"
    r"(?P<time>days?|hours?)(?![a-z])"
)
_LOGS = {"log10": 10.0, "log2": 2.0, "ln": math.e, "log1p": math.e, "log": math.nan}
_LOG_FIRST = re.compile(
    r"^(?P<log>log[ _]?10|log[ _]?2|log1p|ln|log)"
    r"(?:[ _]*[(\[](?P<inside>.+)[)\]]|(?:[ _-]+|(?<=\d)(?=[a-z]))(?P<rest>.+))$"
)
_LOG_LAST = re.compile(r"^(?P<rest>.+?)[ _([-]+(?:in[ _])?(?P<log>log10|log2|log1p|ln|log)(?:[ _-]scale)?[)\]]*$")
_GLUED = re.compile(r"(?<=[a-z])(?=[KMBT]$)")  # tokensB
_KILO_H = re.compile(rf"({DEVICES}[ _./-]*)k(h|hrs?)$", re.IGNORECASE)  # GPU-kh
MOST_LOG = 100.0  # a larger logarithm is none


@dataclass(frozen=True)
class ColumnScale:
    """What the name of a column says about its numbers.

    Attributes
    ----------
    core : str
        The name in lower case without it: what is counted.
    factor : float
        By which the numbers are multiplied.
    logarithm : str
        ``log10``, ``log2``, ``ln``, ``log1p``, ``log`` (of unknown base), or empty.
    """

    core: str
    factor: float = 1.0
    logarithm: str = ""

    def values(self, column: str, numbers: FloatArray, notes: list[str]) -> FloatArray:
        """Return the numbers without logarithm and factor; ``notes`` get what was done.

        Raises
        ------
        TraceError
            For a logarithm of unknown base, or numbers that are no logarithms.
        """
        if self.logarithm:
            numbers = self._without_log(column, numbers)
            notes.append(f"Took column {column!r} as a logarithm ({self.logarithm}), as its name says.")
        if self.factor != 1.0:
            notes.append(f"Multiplied column {column!r} by {self.factor:,.10g}, as its name says.")
        return np.asarray(numbers * self.factor)

    def _without_log(self, column: str, numbers: FloatArray) -> FloatArray:
        base = _LOGS[self.logarithm]
        if math.isnan(base):
            raise TraceError(
                f"column {column!r} looks like a logarithm of unknown base; rename it to log10_..., ln_... or "
                "log2_..., or leave 'log' out of its name if it is none"
            )
        largest = float(np.max(numbers, initial=-math.inf)) * math.log10(base)
        if largest > MOST_LOG:
            raise TraceError(
                f"column {column!r} holds {float(numbers.max()):g}, too large for a logarithm; leave "
                f"{self.logarithm!r} out of its name if it is none"
            )
        return np.expm1(numbers) if self.logarithm == "log1p" else np.power(base, numbers)


def scale_of(name: str) -> ColumnScale:
    """Return what a column's name says about its scale.

    Examples
    --------
    >>> scale_of("tokens_B")
    ColumnScale(core='tokens', factor=1000000000.0, logarithm='')
    >>> scale_of("log10_kGPU-hours")
    ColumnScale(core='gpu-hours', factor=1000.0, logarithm='log10')
    >>> scale_of("gpu_days"), scale_of("gpu_hours").factor
    (ColumnScale(core='gpu_hours', factor=24.0, logarithm=''), 1.0)
    """
    name = _KILO_H.sub(r"k\1\2", _GLUED.sub("_", name.strip()))
    log = _LOG_FIRST.match(name.lower()) or _LOG_LAST.match(name.lower())
    if log is None:
        return _scaled(name)
    part = "inside" if log.groupdict().get("inside") else "rest"
    inner = _scaled(name[log.start(part) : log.end(part)])
    base = re.sub(r"[ _]", "", log["log"])
    counted = any(re.search(pattern, inner.core) for pattern, _ in _COUNTED)
    if not counted or (base == "log" and re.search(_COUNTED[4][0], inner.core)):  # log_step: the step of a log
        return _scaled(name)
    return ColumnScale(inner.core, inner.factor, base)


def _scaled(name: str) -> ColumnScale:
    lower = name.lower()
    rate = _RATE_TIME.search(lower)
    if rate:
        factor = (_LETTERS | _WORDS)[rate["size"]] * (86400.0 if rate["time"].startswith("d") else 3600.0)
        return ColumnScale(lower[: rate.start()] + "flops" + lower[rate.end() :], factor)
    for pattern, letters in _COUNTED:
        found = re.search(pattern, lower)
        if found is None:
            continue
        head, before = _before(name[: found.start()], letters)
        tail, behind = _behind(name[found.end() :], letters)
        if before != 1.0 and behind != 1.0:
            continue  # two sizes: no way to write one number
        what, hours = _in_hours(found[0])
        return ColumnScale((head + what + tail).lower(), before * behind * hours)
    return ColumnScale(lower)


def _before(head: str, letters: str) -> tuple[str, float]:
    """Return what stands before the thing counted without a size, and the size."""
    word = re.search(rf"(?<![a-z])(?P<size>{_WORD})(?:[ _-]+of)?[ _-]*$", head, re.IGNORECASE)
    number = re.search(rf"(?<![a-z0-9.])(?P<size>{_NUMBER})[ _-]*$", head, re.IGNORECASE)
    glued = re.search(rf"(?<![a-zA-Z0-9])(?P<size>[{letters}])$", head, re.IGNORECASE)
    apart = re.search(r"(?<![a-zA-Z0-9])(?<!top_)(?<!top-)(?P<size>[kKMB])[ _-]$", head)
    for found in (word, number, glued, apart):
        if found and (found is not apart or found["size"].lower() in letters):
            return head[: found.start()], _size(found["size"])
    return head, 1.0


def _behind(tail: str, letters: str) -> tuple[str, float]:
    """Return what stands behind the thing counted without a size, and the size."""
    size, upper = f"(?i:{_WORD}|{_NUMBER})", letters.upper()
    small = "kmb" if letters == _OF_TOKENS else "km"  # steps_b may be those of a run b
    apart = rf"[ _./-]+(?:in[ _-]+)?(?P<apart>{size}|(?=[{letters}{upper}])[{upper}{small}])"
    in_brackets = rf"[ _./-]*[(\[] *(?:in )?(?P<in_brackets>{size}|[{letters}{upper}]) *[)\]]"
    found = re.fullmatch(rf"(?P<so_far>(?i:{_SO_FAR}))(?:{apart}|{in_brackets})", tail)
    if found is None:
        return tail, 1.0
    return found["so_far"], _size(found["apart"] or found["in_brackets"])


def _size(text: str) -> float:
    """Return the number that a letter, a word or digits stand for."""
    text = text.lower()
    if text in _LETTERS:
        return _LETTERS[text]
    if text.removesuffix("s") in _WORDS:
        return _WORDS[text.removesuffix("s")]
    digits = text.lstrip("x× ").removesuffix("s")
    power = re.fullmatch(r"10(?:\^|\*\*)(\d+)", digits)
    return 10.0 ** int(power[1]) if power else float(digits)


def _in_hours(thing: str) -> tuple[str, float]:
    """Return device-days and the like as hours, and the hours in one of them."""
    found = re.search(f"({'|'.join(_TIMES)})s?$", thing)
    return (thing, 1.0) if found is None else (thing[: found.start()] + "hours", _TIMES[found[1]])
