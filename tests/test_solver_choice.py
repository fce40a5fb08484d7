"""The rule behind ``solver="auto"`` takes a solver that was among the best where all were measured."""

import math

import numpy as np

import solver_choice
from dperm.estimators.solvers import SOLVERS
from solver_problems import PROBLEMS

# Thousandths of a constant's excess; beside standard errors of the difference.
MARGIN, FACTOR, ERRORS = 50.0, 1.25, 3.0

# Where another solver was better by more.
EXCEPTIONS = {
    ("20000 x 3000 decaying, logistic, ridge", 0.4, 1e-06),  # auto is a point less accurate, too
    ("adult part, hinge", 1.6, 0.0),
    ("adult part, squared_hinge", 6.4, 0.0),
    ("bank part, hinge", 1.6, 1e-06),
}


def test_the_choice_is_near_the_best():
    found = set()
    table = solver_choice.read_table()
    for (name, *budget), line in table.items():
        scores = {solver: float(line[solver]) for solver in SOLVERS if line.get(solver)}
        n, d = int(line["n"]), int(line["d"])
        chosen = solver_choice.automatic(PROBLEMS[name].loss, n, d, tuple(budget))
        best = min(scores, key=scores.__getitem__)
        error = math.hypot(*(float(line[f"{solver} error"] or 0.0) for solver in (best, chosen)))
        if scores[chosen] > max(scores[best] + MARGIN, FACTOR * scores[best]) + ERRORS * error:
            found.add((name, *budget))
    assert len(table) > 200
    assert found == EXCEPTIONS  # one that is none any more must be taken off the list


def test_new_scores_replace_those_of_the_same_cells(tmp_path, monkeypatch):
    before = solver_choice.TABLE.read_text(encoding="utf-8")
    monkeypatch.setattr(solver_choice, "TABLE", tmp_path / "scores.csv")
    solver_choice.TABLE.write_text(before, encoding="utf-8")
    budget, runs = (0.4, 1e-6), np.array([[0.1, 85.0], [0.3, 84.0]])
    solver_choice.write_table("adult, logistic", 34_189, 109, {(budget, "noisy_gd"): runs})
    ((old, new),) = {
        pair
        for pair in zip(before.split(), solver_choice.TABLE.read_text().split(), strict=True)
        if pair[0] != pair[1]
    }
    assert solver_choice.read_table()["adult, logistic", *budget]["noisy_gd"] == "200"
    assert old.replace(",227,13,", ",200,100,") == new
