"""`save_fit` and `load_fit`: a fit with its data in one JSON file, to be bootstrapped or extrapolated later."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rlscaling.errors import FitError
from rlscaling.files import check_not_there, replace_file
from rlscaling.fitting.sigmoid_fit import SAVED_FIT_KIND, SigmoidFit


def save_fit(fit: SigmoidFit, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write ``fit`` with its data to a JSON file.

    Raises
    ------
    FitError
        When the file exists and ``overwrite`` is false: nothing is overwritten.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from rlscaling import datasets, fit_trace
    >>> fit = fit_trace(datasets.load_demo()["scalerl"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_fit(fit, Path(folder) / "fit.json")
    ...     load_fit(path).params == fit.params
    True
    """
    if not isinstance(fit, SigmoidFit):
        raise FitError(f"save_fit takes a SigmoidFit, not {type(fit).__name__}")
    target = Path(path)
    check_not_there(target, overwrite, error=FitError)
    text = json.dumps(fit.to_dict(), allow_nan=False, indent=1) + "\n"
    replace_file(target, text.encode(), error=FitError)
    return target


def load_fit(path: str | os.PathLike[str]) -> SigmoidFit:
    """Read a fit that `save_fit` (or ``--save``) wrote.

    Raises
    ------
    FitError
        When the file is not a saved fit.
    """
    source = Path(path)
    try:
        saved = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise FitError(f"cannot read {source}: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FitError(f"{source} is not a saved fit: it is not JSON ({error})") from error
    if not isinstance(saved, dict):
        raise FitError(f"{source} is not a saved fit: it holds a {type(saved).__name__}, not an object")
    return SigmoidFit.from_dict(saved)


def is_saved_fit(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a ``.json`` file that says it is a saved fit."""
    source = Path(path)
    if source.suffix != ".json" or not source.is_file():
        return False
    try:
        saved = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return False
    return isinstance(saved, dict) and saved.get("kind") == SAVED_FIT_KIND
