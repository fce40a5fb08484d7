"""Imports go one way: a module of the package uses only layers before its own."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "dperm"
# A name stands for a module or a folder. Modules of one entry may import each other.
LAYERS = [
    {"errors", "__version__"},
    {"accounting"},
    {"_kernels"},
    {"_build_info"},
    {"private_values"},
    {"losses", "data"},
    {"objective"},
    {"mechanisms"},
    {"statement"},
    {"algorithms"},
    {"datasets"},
    {"estimators"},
    {"audit"},
    {"cli"},
]
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The package's own __init__ names every layer, and imports when asked.
MODULES = sorted({*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyi")} - {SOURCE / "__init__.py"})


def layer_of(path):
    return path.relative_to(SOURCE).parts[0].split(".")[0]


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def running_nodes(tree):
    """All nodes but those that only a type checker sees."""
    for child in ast.iter_child_nodes(tree):
        if not is_type_checking(child):
            yield child
            yield from running_nodes(child)


def imported_layers(source):
    """Layers that a module imports, wherever in it the import stands."""
    found = set()
    for node in running_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports from the top: from dperm.x import y"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("dperm.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_only_from_layers_before(path):
    layer = layer_of(path)
    assert layer in RANKS, f"put {layer} into LAYERS"
    for other in imported_layers(path.read_text()):
        assert other in RANKS, f"put {other} into LAYERS"
        assert other == layer or RANKS[other] <= RANKS[layer], f"{layer} must not import {other}"


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
    assert imported_layers(source) == {"cli", "objective", "errors", "data", "algorithms"}


def test_the_c_code_knows_nothing_of_python():
    for path in (SOURCE.parents[1] / "csrc").rglob("*.[ch]"):
        assert "Python.h" not in path.read_text()
