"""The examples in docstrings, run against the installed package."""

import doctest
import importlib
from pathlib import Path

import pytest

import dperm

PACKAGE = Path(dperm.__file__).parent
MODULES = [
    ".".join(["dperm", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_there_are_examples():
    assert len(MODULES) > 4


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0, "see what was printed"
