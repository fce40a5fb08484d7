"""Limits that keep the code readable: file and function lengths, argument counts, no import cycles."""

import re

import pytest

from reference import source_code
from reference.source_code import all_functions, circles, import_graph, include_graph

MAX_LINES_OF_A_FILE = 500
MAX_LINES_OF_A_FUNCTION = 80  # its body, docstring left out
MAX_ARGUMENTS = 8  # self left out

ESTIMATOR = "scikit-learn reads an estimator's parameters off the signature of its constructor"
PUBLISHED = "a published calibration takes the numbers that its theorem names"
#: Public functions that may take more arguments, and why.
MANY_ARGUMENTS = {
    **dict.fromkeys(
        [
            "dperm.estimators.HuberRegressor.__init__",
            "dperm.estimators.LinearSVC.__init__",
            "dperm.estimators.LogisticRegression.__init__",
            "dperm.estimators.QuantileRegressor.__init__",
            "dperm.search.PrivateSearch.__init__",
        ],
        ESTIMATOR,
    ),
    **dict.fromkeys(
        [
            "dperm.accounting.compare_output_perturbation",
            "dperm.accounting.sgd_output",
            "dperm.accounting.sgd_output_sensitivity",
        ],
        PUBLISHED,
    ),
    **dict.fromkeys(
        [
            f"dperm.algorithms.{name}"
            for name in re.findall(
                r'^    "([a-z_]+)",',
                (source_code.PACKAGE / "algorithms/__init__.py").read_text(),
                re.MULTILINE,
            )
        ],
        "public: an algorithm's settings, in keywords",
    ),
    "dperm.accounting.Ledger.__init__": "public: what a ledger promises, in keywords",
    "dperm.accounting.noise_multiplier": "public: the run that it calibrates, in keywords",
    "dperm.accounting.random_round_noise_multiplier": "public: the run that it calibrates, in keywords",
    "dperm.accounting.sgd_epsilon": "public: the run that it accounts for, in keywords",
    "dperm.audit.certify_observations": "public: what is known of the observations, in keywords",
    "dperm.audit.epsilon_lower_bound": "public: an experiment's settings, in keywords",
    **dict.fromkeys(
        [f"dperm.cli.{name}" for name in ("create", "evaluate", "fit", "learn", "predict", "tune")],
        "every argument is an option of the command line",
    ),
    "dperm.data.Schema.learn": "public: what is learned from which table, in keywords",
    "dperm.metrics.evaluate": "public: what is asked of a model, and its budget, in keywords",
    "dperm.objective.Objective.__init__": "public: the optimisation problem, in keywords",
}


def assert_none(findings):
    assert not findings, "\n  ".join(["", *map(str, findings)])


def test_files_are_short():
    paths = [*source_code.python_files(), *source_code.cython_files(), *source_code.c_files()]
    lengths = {path.relative_to(source_code.ROOT): len(path.read_text().splitlines()) for path in paths}
    assert_none([
        f"{path.as_posix()}: {length} lines"
        for path, length in lengths.items()
        if length > MAX_LINES_OF_A_FILE
    ])  # fmt: skip


def test_functions_are_short():
    long = [each for each in all_functions() if each.n_lines > MAX_LINES_OF_A_FUNCTION]
    assert_none([f"{each}: {each.n_lines} lines" for each in long])


def test_functions_take_few_arguments():
    many = [each for each in all_functions() if each.n_arguments > MAX_ARGUMENTS]
    excepted = [each for each in many if each.path.suffix == ".py" and each.public_name in MANY_ARGUMENTS]
    assert_none([f"{each}: {each.n_arguments} arguments" for each in many if each not in excepted])


def test_exceptions_name_existing_functions():
    names = {function.public_name for function in all_functions() if function.path.suffix == ".py"}
    assert not MANY_ARGUMENTS.keys() - names, "take them off the list"


@pytest.mark.parametrize("graph", [import_graph, include_graph], ids=["modules", "C headers"])
def test_there_are_no_import_cycles(graph):
    """Including imports for type checkers only."""
    assert_none([", ".join(group) for group in circles(graph())])


def test_import_cycles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert sorted(circles(graph)) == [["b", "c"], ["e"]]
