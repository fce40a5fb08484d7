"""A fitted model as an ONNX graph, including the encoding by its schema and the scaling of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from dperm.data.schema.columns import Categorical, Numeric
from dperm.data.schema.interactions import Crossed
from dperm.data.schema.numeric import GRID, function_map
from dperm.estimators.design import FittedDesign

_OPSET, _ML_OPSET, _IR_VERSION = 17, 3, 8  # from 2022: widely supported
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}
_OUTPUTS = ("label", "probabilities", "scores", "variable")


def to_onnx(model: Any, dtype: str) -> Any:
    """The graph, as `PrivateLinearModel.to_onnx` documents it."""
    check_is_fitted(model)
    if dtype not in _TYPES:
        raise ValueError(f"dtype must be one of {', '.join(_TYPES)}, got {dtype!r}")
    graph = _Graph(dtype)
    rows = _rows(graph, model._design, model.n_features_in_)
    scores = _scores(graph, rows, model._design, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))
    if not is_classifier(model):
        graph.output("variable", scores, [None, 1])
        return graph.model(model)
    binary = len(model.classes_) == 2
    zero = graph.constant(np.zeros(1))
    if binary:
        best = graph.cast(graph.node("Greater", graph.column(scores), zero), "INT64")
    else:
        best = graph.node("ArgMax", scores, axis=1, keepdims=0)
    labels = _labels(model.classes_)
    kind = {"O": "STRING", "i": "INT64", "f": "DOUBLE", "b": "BOOL"}[labels.dtype.kind]
    graph.output("label", graph.node("Gather", graph.constant(labels), best), [None], kind)
    if not hasattr(model, "predict_proba"):
        graph.output("scores", graph.column(scores), [None])
        return graph.model(model)
    if binary:
        both = (graph.node("Neg", scores), scores)
        probabilities = graph.concatenated([graph.node("Sigmoid", each) for each in both])
    else:
        probabilities = graph.node("Softmax", scores, axis=1)
    graph.output("probabilities", probabilities, [None, len(model.classes_)])
    return graph.model(model)


def _scores(graph: _Graph, rows: str, design: FittedDesign, coef: Any, intercept: Any) -> str:
    """The scaled products of the rows, of shape (n, K)."""
    products = graph.node("MatMul", rows, graph.constant(np.ascontiguousarray(coef.T)))
    products = graph.node("Add", products, graph.constant(intercept))
    if design.row_norm == math.inf:
        return products
    squares = graph.node(
        "ReduceSum", graph.node("Mul", rows, rows), graph.constant(np.array([1])), keepdims=1
    )
    squares = graph.node("Add", squares, graph.constant(np.array([float(design.fit_intercept)])))
    row_norm = graph.constant(np.array([design.row_norm]))
    longer = graph.node("Max", graph.node("Sqrt", squares), row_norm)
    return graph.node("Mul", products, graph.node("Div", row_norm, longer))


def _rows(graph: _Graph, design: FittedDesign, n_features: int) -> str:
    """The rows of the design matrix, of shape (n, D)."""
    if design.schema is None:
        return graph.cast(graph.input("X", graph.type, n_features), "DOUBLE")
    for column in design.schema.columns:
        if (column.unit if isinstance(column, Numeric) else column.buckets) is not None:
            raise ValueError(f"ONNX has neither dates nor hashing, which column {column.name!r} needs")
    features = {
        column.name: _numeric(graph, column) if isinstance(column, Numeric) else _categorical(graph, column)
        for column in design.schema.columns
    }
    crossed = [_crossed(graph, each, features) for each in design.schema.parts if isinstance(each, Crossed)]
    return graph.concatenated([*features.values(), *crossed])


def _crossed(graph: _Graph, crossed: Crossed, features: Mapping[str, str]) -> str:
    """The products of what both columns are, of shape (n, number of features)."""
    one, other = (
        features[each.column.name] if each.rows is None else _functions_of(graph, each)
        for each in (crossed.first, crossed.second)
    )
    products = graph.node(
        "Mul",
        graph.node("Unsqueeze", one, graph.constant(np.array([2]))),
        graph.node("Unsqueeze", other, graph.constant(np.array([1]))),
    )
    products = graph.node("Reshape", products, graph.constant(np.array([-1, len(crossed.feature_names)])))
    if crossed.first.rows is None or crossed.second.rows is None:
        return products
    whole = graph.node("Div", graph.node("Abs", products), graph.constant(np.array([GRID])))
    cut = graph.node("Mul", graph.node("Floor", whole), graph.constant(np.array([GRID])))
    return graph.node("Mul", graph.node("Sign", products), cut)


def _functions_of(graph: _Graph, basis: Any) -> str:
    """The functions of a number that takes part in an interaction, 0 for a missing one."""
    column: Numeric = basis.column
    value, missing = _clipped(graph, column)
    functions = _functions(graph, basis.edges, value, basis.rows)
    if isinstance(column.missing, str):
        return graph.where(missing, math.nan if column.missing == "error" else 0.0, functions)
    return functions


def _clipped(graph: _Graph, column: Numeric) -> tuple[str, str]:
    """A number between the bounds, and whether it was missing."""
    value = graph.cast(graph.input(column.name, graph.type, 1), "DOUBLE")
    missing = graph.node("IsNaN", value)
    value = graph.where(missing, column.low if isinstance(column.missing, str) else column.missing, value)
    low, high = (graph.constant(np.array([float(each)])) for each in (column.low, column.high))
    return graph.node("Min", graph.node("Max", value, low), high), missing


def _numeric(graph: _Graph, column: Numeric) -> str:
    """The encoding of `Numeric.encode`, with NaN in place of its errors."""
    value, missing = _clipped(graph, column)
    if column.bins is None:
        low = graph.constant(np.array([float(column.low)]))
        features = _scaled(graph, column, graph.node("Sub", value, low))
        if column.functions or column.atoms:
            features = graph.concatenated([features, *_functions_and_atoms(graph, column, value)])
    else:
        features = graph.indicators(_bin(graph, column.borders, value), len(column.borders) + 1)
    if isinstance(column.missing, str):
        features = graph.where(missing, math.nan if column.missing == "error" else 0.0, features)
    own = [graph.cast(missing, "DOUBLE")] if column.missing == "column" else []
    return graph.concatenated([features, *own])


def _bin(graph: _Graph, edges: Sequence[float], value: str) -> str:
    borders = graph.constant(np.array(edges, dtype=np.float64)[None])
    above = graph.cast(graph.node("GreaterOrEqual", value, borders), "INT64")
    return graph.node("ReduceSum", above, graph.constant(np.array([1])), keepdims=1)


def _functions(graph: _Graph, edges: Sequence[float], value: str, table: NDArray[np.float64]) -> str:
    # MatMul rather than Gather: a code is a row of indicators already, whatever its shape.
    codes = graph.indicators(_bin(graph, edges, value), len(table))
    return graph.node("MatMul", codes, graph.constant(table))


def _functions_and_atoms(graph: _Graph, column: Numeric, value: str) -> list[str]:
    """The functions of a value, 0 at an atom, and 0/1 columns of the atoms."""
    found = []
    if column.atoms:
        atoms = graph.constant(np.array(column.atoms, dtype=np.float64)[None])
        found = [graph.cast(graph.node("Equal", value, atoms), "DOUBLE")]
    if not column.functions:
        return found
    table = function_map(len(column.borders) + 1, column.functions).rows[:-1]
    functions = _functions(graph, column.borders, value, table.astype(np.float64))
    if found:
        own = graph.node("ReduceSum", found[0], graph.constant(np.array([1])), keepdims=1)
        functions = graph.node("Mul", functions, graph.node("Sub", graph.constant(np.ones(1)), own))
    return [functions, *found]


def _scaled(graph: _Graph, column: Numeric, distance: str) -> str:
    span = column.high - column.low
    if column.transform == "log1p":
        distance = graph.node("Log", graph.node("Add", distance, graph.constant(np.ones(1))))
        span = math.log1p(span)
    share = graph.node("Div", distance, graph.constant(np.array([float(span)])))
    share = graph.node("Min", share, graph.constant(np.ones(1)))
    return graph.cast(graph.cast(share, "FLOAT"), "DOUBLE")  # as `Schema.encode` stores it


def _categorical(graph: _Graph, column: Categorical) -> str:
    """One-hot encoding; a value that is not a category is treated as unknown."""
    kind, size = type(column.categories[0]), len(column.categories)
    cells = graph.input(column.name, {str: "STRING", int: "INT64", bool: "BOOL"}[kind], 1)
    if kind is bool:
        cells = graph.cast(cells, "INT64")
    keys: list[Any] = list(column.categories) if kind is str else [int(each) for each in column.categories]
    unknown = size if column.unknown in ("error", "zero") else column.categories.index(column.unknown)
    key, value = ("keys_strings" if kind is str else "keys_int64s"), {"values_int64s": list(range(size))}
    code = graph.node(
        "LabelEncoder", cells, domain="ai.onnx.ml", default_int64=unknown, **{key: keys}, **value
    )
    features = graph.indicators(code, size)
    if column.unknown != "error":
        return features
    none = graph.node("Equal", code, graph.constant(np.array([size])))
    return graph.where(none, math.nan, features)


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as strings, int64, float64 or bool."""
    if all(isinstance(each, str) for each in classes.tolist()):
        return classes.astype(object)
    wanted = {"i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}.get(classes.dtype.kind)
    if wanted is None or classes.astype(wanted).tolist() != classes.tolist():
        raise ValueError(f"ONNX has no type for the labels {classes}: use only strings or only numbers")
    return classes.astype(wanted)


class _Graph:
    """Builder of a graph that computes in double precision; each node has the name of its output."""

    def __init__(self, dtype: str) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError("to_onnx needs onnx: pip install 'dperm[onnx]'", name="onnx") from error
        self._onnx, self.type = onnx, _TYPES[dtype]
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def input(self, name: str, kind: str, width: int) -> str:
        if name in _OUTPUTS:
            raise ValueError(
                f"a column cannot be called {name!r} in an ONNX graph: that is the name of an output"
            )
        if all(each.name != name for each in self._inputs):
            self._inputs.append(self._described(name, kind, [None, width]))
        return name

    def output(self, name: str, value: str, shape: list[int | None], kind: str | None = None) -> None:
        """Make a value an output; numbers are cast to the type of the input."""
        node = self._onnx.helper.make_node
        if kind is None:
            self._nodes.append(node("Cast", [value], [name], to=self._type(self.type)))
        else:
            self._nodes.append(node("Identity", [value], [name]))
        self._outputs.append(self._described(name, kind or self.type, shape))

    def constant(self, values: NDArray[Any]) -> str:
        name = f"dperm:constant{len(self._constants)}"
        if values.dtype == object:
            tensor = self._onnx.helper.make_tensor(
                name, self._type("STRING"), values.shape, [each.encode() for each in values.tolist()]
            )
        else:
            tensor = self._onnx.numpy_helper.from_array(values, name)
        self._constants.append(tensor)
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"dperm:{operator}{len(self._nodes)}"
        make = self._onnx.helper.make_node
        self._nodes.append(make(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def cast(self, value: str, kind: str) -> str:
        return self.node("Cast", value, to=self._type(kind))

    def column(self, value: str) -> str:
        """(n, 1) as (n,)."""
        return self.node("Squeeze", value, self.constant(np.array([1])))

    def where(self, condition: str, number: float, otherwise: str) -> str:
        return self.node("Where", condition, self.constant(np.array([float(number)])), otherwise)

    def indicators(self, code: str, size: int) -> str:
        """One-hot rows of the codes; a row of zeros for a code out of range."""
        places = self.constant(np.arange(size, dtype=np.int64)[None])
        return self.cast(self.node("Equal", code, places), "DOUBLE")

    def concatenated(self, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=1)

    def model(self, fitted: Any) -> Any:
        """The finished graph, with the privacy statement among its metadata."""
        helper, name = self._onnx.helper, type(fitted).__name__
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="dperm")
        helper.set_model_props(made, {"privacy": json.dumps(fitted.privacy_.to_dict())})
        self._onnx.checker.check_model(made, full_check=True)
        return made

    def _described(self, name: str, kind: str, shape: list[int | None]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(kind), shape)

    def _type(self, kind: str) -> int:
        return int(getattr(self._onnx.TensorProto, kind))
