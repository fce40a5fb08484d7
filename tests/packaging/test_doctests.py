"""Examples in docstrings run, and nearly every public name has one."""

import ast
import doctest
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

import dperm

PACKAGE = Path(dperm.__file__).parent
MODULES = [
    ".".join(["dperm", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text()
]
LEAST_SHARE = 0.95


class Finder(doctest.DocTestFinder):
    """Also finds functions wrapped by a decorator of another module."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object))


def can_run(example):
    """Whether the optional packages that an example imports are installed."""
    tree = ast.parse("".join(line.source for line in example.examples))
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return all(importlib.util.find_spec(name.partition(".")[0]) for name in imported)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in filter(can_run, Finder().find(importlib.import_module(name))):
        runner.run(example)
    assert runner.failures == 0, "see what was printed"


def public_names():
    """Functions and classes in ``__all__`` of the packages, and methods of the classes that users handle.

    Each is listed once, under its first name. Methods that require an object of a private class are internal.
    """
    names = {}
    submodules = [getattr(dperm, name) for name in sorted(dperm._SUBMODULES) if name != "errors"]
    for package in [dperm, *submodules]:
        for name in getattr(package, "__all__", ()):
            if inspect.isroutine(each := getattr(package, name)) or inspect.isclass(each):
                names.setdefault(each, f"{package.__name__}.{name}")
    held = [each for each, name in names.items() if inspect.isclass(each) and name.count(".") == 1]
    for kind in [*held, dperm.accounting.Ledger, dperm.metrics.Evaluation]:
        for name, method in inspect.getmembers(kind, callable):
            function = getattr(method, "__func__", method)
            of_dperm = (getattr(function, "__module__", None) or "").startswith("dperm.")
            if of_dperm and not name.startswith("_") and not needs_private_class(function, names):
                names.setdefault(function, f"{kind.__name__}.{name}")
    return names


def needs_private_class(function, public):
    """Whether a required argument is of a private class of the package."""
    known = vars(importlib.import_module(function.__module__))
    required = [
        each for each in inspect.signature(function).parameters.values() if each.default is each.empty
    ]
    words = {word for each in required for word in re.findall(r"\w+", str(each.annotation))}
    kinds = [kind for word in words for kind in get_args(known.get(word)) or [known.get(word)]]
    classes = filter(inspect.isclass, kinds)
    return any(kind.__module__.startswith("dperm.") and kind not in public for kind in classes)


def shows_an_example(docstring):
    """Whether the Examples section of a docstring has a line that is not skipped."""
    lines = doctest.DocTestParser().get_examples(docstring.partition("Examples\n")[2])
    return any(not line.options.get(doctest.SKIP) for line in lines)


def test_public_names_have_an_example_that_runs():
    found = [each for name in MODULES for each in Finder().find(importlib.import_module(name))]
    shown, names = {each.docstring for each in found if shows_an_example(each.docstring)}, public_names()
    without = sorted(name for each, name in names.items() if each.__doc__ not in shown)
    share = 1 - len(without) / len(names)
    assert share >= LEAST_SHARE, f"{share:.1%} of {len(names)}; without an example: {', '.join(without)}"


def test_shows_an_example():
    assert shows_an_example("Examples\n--------\n>>> 1 + 1\n2")
    assert not shows_an_example("Examples\n--------\n>>> 1 + 1  # doctest: +SKIP\n2")
    assert not shows_an_example(">>> 1 + 1\n2")


def test_public_names_excludes_internals():
    names = set(public_names().values())
    assert {"dperm.Objective", "Objective.value", "Ledger.charge", "dperm.algorithms.noisy_gd"} <= names
    assert not {"Objective.weighted_gram_sum", "Numeric.read", "LogisticRegression.get_params"} & names
