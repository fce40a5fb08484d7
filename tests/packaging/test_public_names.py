"""The public interface: names, their types, and a light import."""

import ast
import os
import re
import site
import subprocess
import sys
from pathlib import Path

import pytest

import dperm

PACKAGE = Path(dperm.__file__).parent
#: A user's program. The type checker must report errors on the marked lines, and on no others.
PROGRAM = """
from collections.abc import Callable

import numpy as np

import dperm
from dperm import HuberRegressor, LinearSVC, QuantileRegressor, Schema
from dperm.accounting import Ledger

X, y = np.zeros((9, 2)), np.ones(9)
ledger = Ledger(1.0, 1e-6)
schema: Schema = dperm.Schema([dperm.Numeric("age", 0, 100), dperm.Categorical("job", ["cook", "clerk"])])
model = dperm.LogisticRegression(epsilon=1.0, delta=1e-6, schema=schema, classes=[-1, 1], ledger=ledger)
statement: dperm.PrivacyStatement = model.fit(X, y).privacy_
labels: str = statement.to_dict  # refused
learned: Schema = Schema.learn({"age": y}, kinds={"age": "numeric"}, ledger=ledger)
Schema.learn({"age": y}, kind={"age": "numeric"}, ledger=ledger)  # refused
dperm.LogisticRegression(epsilonn=1.0)  # refused
dperm.LogisticRegression(epsilon="1")  # refused
dperm.LogisticRegression(1.0, 1e-6, "noisy_gd")  # refused
LinearSVC(classes=[-1, 1], row_norm="long")  # refused
HuberRegressor(quantile=0.5)  # refused
QuantileRegressor(quantile=0.5, target_bound=1.0).fit(X, y, counts=y).predict(X).shape
search = dperm.PrivateSearch(model, {"l2": [0.0, 1.0]}, epsilon=1.0, delta=1e-6, ledger=ledger, refit=True)
chosen: dict[str, object] = search.fit(X, y).best_params_
dperm.PrivateSearch(model, [{}], 1.0, 1e-6, method=3)  # refused
objective = dperm.Objective("logistic", X, y, row_norm=2.0)
objective.clip_everything()  # refused
result = dperm.algorithms.noisy_gd(objective, 1.0, 1e-6, steps=3, ledger=ledger)
steps: int = result.n_iter
dperm.algorithms.noisy_gd(objective, 1.0, 1e-6, stepss=3)  # refused
dperm.algorithms.noisy_neuton  # refused
sigma: float = dperm.accounting.gaussian_sigma(1.0, 1e-6)
word: str = dperm.accounting.gaussian_sigma(1.0, 1e-6)  # refused
dperm.LogisticRegresion(epsilon=1.0)  # refused
info: Callable[..., object] = dperm.build_info
found: dperm.metrics.Evaluation = dperm.metrics.evaluate(model, X, y, 1.0, 1e-6, metrics=["accuracy"])
dperm.metrics.evaluate(model, X, y, 1.0, 1e-6, metric="accuracy")  # refused
"""


def run_python(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_type_checkers_see_lazily_imported_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname: node.module for node in block.body for alias in node.names}
    submodules = {name for name, module in typed.items() if module == "dperm"}
    assert submodules == set(dperm._SUBMODULES)
    assert {name: module for name, module in typed.items() if name not in submodules} == dperm._LAZY
    assert set(dperm.__all__) == typed.keys() | {"__version__"}
    for name in dperm.__all__:
        assert name in dperm.__doc__ or name == "__version__"
        assert getattr(dperm, name) is not None
    assert set(dir(dperm)) == set(dperm.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'LogisticRegresion'"):
        _ = dperm.LogisticRegresion


def test_importing_the_package_loads_no_heavy_dependencies():
    loaded = run_python("import sys, dperm; print(*sys.modules)").split()
    assert not {"numpy", "scipy", "sklearn", "pandas", "dask"} & set(loaded)


@pytest.mark.slow
def test_a_users_program_is_type_checked(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = PACKAGE.parent
    installed = root.resolve() in {Path(folder).resolve() for folder in site.getsitepackages()}
    environment = {**os.environ, **({} if installed else {"MYPYPATH": str(root)})}
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={os.devnull}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    wanted = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# refused")}
    assert found == wanted, done.stdout + done.stderr
