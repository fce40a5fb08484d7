"""Settings of the documentation: ``python -m sphinx -W -b html docs documentation``."""

from __future__ import annotations

import importlib.resources
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import dperm
from dperm.errors import ExactScoreWarning, ExactSizeWarning, SeededNoiseWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from papers import framework, page

project = "dperm"
author = "the authors of dperm"
version = release = dperm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["examples", "**.ipynb", "README.md", "sg_execution_times.rst"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"dperm {version}"
# Formulas need no network: the site has a copy of MathJax.
html_static_path = ["_static", str(importlib.resources.files("sphinx-mathjax-offline") / "static")]
mathjax_path = "mathjax/tex-chtml.js"
html_css_files = ["dperm.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_nav_level": 1,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
}
html_sidebars = {"start": [], "glossary": [], "performance": []}
copyright = "the authors of dperm; BSD-3-Clause"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]

autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # types are in the docstrings
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

nitpicky = True
# Names of other packages, and internal names that docstrings mention.
nitpick_ignore_regex = [
    (r"py:.*", r"(sklearn|numpy|np|scipy|pandas|polars|dask|typing|collections)(\..*)?"),
    (r"py:.*", r"dperm\.(accounting|algorithms|mechanisms|objective|private_values)\..*"),
    (r"py:.*", r"(.*\.)?(SOLVERS|MAX_STEPS|learn_statistic|symmetric_matrix|mean_weight|noisy_descent)"),
]

# Examples run in seconds, on bundled or generated data; pages show what they print.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "remove_config_comments": True,
    "min_reported_time": 3600,
    "show_signature": False,
    "show_memory": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
}
warnings.simplefilter("ignore", SeededNoiseWarning)
warnings.simplefilter("ignore", ExactScoreWarning)
warnings.simplefilter("ignore", ExactSizeWarning)


def link_by_last_name(app: Any, env: Any, node: Any, contents: Any) -> Any:
    """Resolve a Python name that a docstring gives without its module."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains["py"]
    wanted = node.get("reftarget", "").lstrip("~.")
    ending = re.compile(rf"(^|\.){re.escape(wanted)}$")
    found = [name for name, entry in domain.objects.items() if ending.search(name) and not entry.aliased]
    if not found:
        return None
    docname = node.get("refdoc", "")
    # A class may also be documented where it is defined: the shortest name is the public one.
    return domain.resolve_xref(env, docname, app.builder, "obj", min(found, key=len), node, contents)


def link_within_the_site(app: Any, docname: str, source: list[str]) -> None:
    """Point links to files outside ``docs/`` to the pages that include them."""
    source[0] = source[0].replace("](../SECURITY.md)", "](reporting.md)")


def write_pages_of_papers(app: Any) -> None:
    """Make the pages and figures of the papers' tables from the numbers in ``reproduced/``."""
    folder = Path(app.srcdir) / "reproduced"
    for name in framework.published(folder):
        table = framework.read(name, quick=True)
        page.write(table, page.read_numbers(table, folder / f"{name}.json"), folder)


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("builder-inited", write_pages_of_papers)
    app.connect("missing-reference", link_by_last_name)
    app.connect("source-read", link_within_the_site)
