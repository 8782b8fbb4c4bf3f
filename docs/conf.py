"""Sphinx configuration. Build with `nox -s docs`; a warning is an error."""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from rlscaling.batch.analysis import AnalysisOptions
from rlscaling.fitting.options import FitOptions
from rlscaling.fitting.verdict import THRESHOLDS
from rlscaling.readers.options import ReadOptions

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from option_tables import option_table  # noqa: E402 - it lies beside this file

project = "rlscaling"
author = "The rlscaling authors"
project_copyright = author
version = release = installed_version("rlscaling")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"rlscaling {version}"

# Headings get anchors, so that `page.md#heading` links resolve; $..$ and amsmath blocks are formulas.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "substitution"]
myst_heading_anchors = 3

# {{ identified }}, {{ approximate }} and {{ weak }} are the half-widths of these verdicts; the tables are those of the
# command's options. Both come from the source, so that the pages cannot differ from it.
myst_substitutions = {
    **{str(verdict): f"{half_width:.2f}" for verdict, half_width in THRESHOLDS.items()},
    "fit_options": option_table(FitOptions, first=("min_compute", "max_compute", "exclude")),
    "read_options": option_table(ReadOptions),
    "analysis_options": option_table(AnalysisOptions),
}

# Types stand in the numpydoc sections, in words; a second copy in the signature would only repeat them.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Notebooks live beside docs/, are tested by their own job and appear here as they are committed. A page that says
# `execution_mode: force` at its top (the gallery) is run by the build; a cell that fails is an error.
nb_execution_mode = "off"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
suppress_warnings = ["toc.empty_glob"]  # a checkout without notebooks still builds


def copy_notebooks() -> None:
    """Put the notebooks where Sphinx finds them, leaving none behind that is gone."""
    target = HERE / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, target)


copy_notebooks()
