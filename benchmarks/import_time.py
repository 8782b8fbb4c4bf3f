"""What does `from rlscaling import fit_sigmoid` cost, and what does it load?

CPU time (user and system) of a fresh interpreter, against one that imports numpy and scipy.optimize; the two take
turns, after one unmeasured round that fills the caches. The ratio is the median over the rounds.
"""

from __future__ import annotations

import _common as common

# isort: split
import json
import os
import statistics
import subprocess
import sys

OURS = "from rlscaling import fit_sigmoid"
THEIRS = "import numpy, scipy.optimize"
NOTHING = "pass"
FORBIDDEN = ("torch", "pandas", "matplotlib", "lmfit", "pyarrow", "scipy.stats", "polars", "joblib", "rich")


def cpu_seconds(code: str) -> float:
    """Return the user and system time of an interpreter that runs ``code``."""
    child = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{code!r} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


def loaded(code: str) -> list[str]:
    """Return the modules in memory after ``code``."""
    report = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    return list(json.loads(subprocess.run([sys.executable, "-c", report], capture_output=True, check=True).stdout))


def main() -> int:
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    codes = (OURS, THEIRS, NOTHING)
    for code in codes:
        cpu_seconds(code)
    rounds = [[cpu_seconds(code) for code in codes] for _ in range(options.rounds)]
    ours, theirs, nothing = (list(column) for column in zip(*rounds, strict=True))
    medians = [statistics.median(column) * 1e3 for column in (ours, theirs, nothing)]
    modules = loaded(OURS)
    found = [name for name in FORBIDDEN if name in modules]
    note = "{:.0f} ms / {:.0f} ms; an empty interpreter {:.0f} ms".format(*medians)
    checks = [
        common.Check("CPU time of the import", common.median_ratio(ours, theirs), 1.15, False, note=note),
        common.Check(
            "modules that must not be loaded",
            len(found),
            0,
            False,
            "",
            ", ".join(found) or "none of " + " ".join(FORBIDDEN),
        ),
    ]
    about = common.versions("rlscaling", "numpy", "scipy")
    more: dict[str, object] = {
        "seconds": {"ours": ours, "theirs": theirs, "nothing": nothing},
        "n_modules": len(modules),
    }
    return common.finish(f"{OURS} / {THEIRS}", checks, about, options.json, more)


if __name__ == "__main__":
    sys.exit(main())
