"""Sphinx configuration. Build with `nox -s docs`; a warning is an error."""

from __future__ import annotations

import shutil
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).resolve().parent

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
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# Types stand in the numpydoc sections, in words; a second copy in the signature would only repeat them.
autodoc_typehints = "none"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Notebooks live beside docs/, are tested by their own job and appear here as they are committed.
nb_execution_mode = "off"
suppress_warnings = ["toc.empty_glob"]  # a checkout without notebooks still builds


def copy_notebooks() -> None:
    """Put the notebooks where Sphinx finds them, leaving none behind that is gone."""
    target = HERE / "notebooks"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, target)


copy_notebooks()
