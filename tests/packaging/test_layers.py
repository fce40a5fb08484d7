"""Imports go in one direction: a folder of the package imports only from itself and from lower layers."""

import pytest

from reference.source_code import CSRC, PACKAGE, imported_names, python_files

# Modules and folders, lowest layer first. Those in the same layer do not import each other.
LAYERS = [
    {"errors", "_cached", "_config", "_document", "_files", "_progress", "__version__"},
    {"accounting", "_kernels"},
    {"_build_info", "private_values", "losses"},
    {"data"},
    {"objective", "datasets"},
    {"mechanisms", "statement"},
    {"algorithms", "schema_learning"},
    {"estimators", "audit"},
    {"metrics", "search"},
    {"reports"},
    {"cli"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The package's own __init__ names every layer; it imports lazily.
MODULES = [path for path in python_files() if path != PACKAGE / "__init__.py"]


def layer_of(path):
    return path.relative_to(PACKAGE).parts[0].split(".")[0]


def imported_layers(source):
    return {name.split(".")[1] for name in imported_names(source) if name.startswith("dperm.")}


def forbidden(layer, others):
    """The folders among these that a layer must not import."""
    return {other for other in others if other != layer and RANKS[other] >= RANKS[layer]}


def test_every_folder_has_a_layer():
    assert {layer_of(path) for path in MODULES} == RANKS.keys() - {"__version__"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_only_from_lower_layers(path):
    layer = layer_of(path)
    bad = forbidden(layer, imported_layers(path.read_text()))
    assert not bad, f"{layer} must not import {sorted(bad)}"


def test_only_schemas_import_from_a_higher_layer():
    """By name: learning a schema needs noise and a ledger, from layers above its own."""
    by_name = {
        path.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if "import_module" in path.read_text() and layer_of(path) != "cli"
    }
    assert by_name == {"data/schema/schema.py"}
    assert 'LEARNING = "dperm.schema_learning"' in (PACKAGE / "data/schema/schema.py").read_text()


def test_upward_and_sideways_imports_are_refused():
    assert forbidden("objective", {"errors", "data", "objective"}) == set()
    assert forbidden("objective", {"mechanisms", "cli"}) == {"mechanisms", "cli"}
    assert forbidden("mechanisms", {"statement"}) == {"statement"}


def test_the_parser_sees_every_kind_of_import():
    source = """
import dperm.cli
from dperm import objective, errors
from dperm.data.dense import dense_rows
if TYPE_CHECKING:
    from dperm.estimators import x
def f():
    from dperm.algorithms import y
"""
    layers = {"cli", "objective", "errors", "data", "estimators", "algorithms"}
    assert imported_layers(source) == layers


def test_the_c_code_does_not_include_python():
    for path in CSRC.rglob("*.[ch]"):
        assert "Python.h" not in path.read_text()
