"""Equal seeds give the results of the last release, unless the changelog says why not."""

import json
import re

import numpy as np
import pytest

from golden import renew

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
pytestmark = pytest.mark.filterwarnings("ignore::dperm.errors.InferenceWarning")


def kept(file):
    return json.loads((renew.HERE / file).read_text(encoding="utf-8"))


def numbers(value):
    """All numbers of a value in order, also those within texts."""
    return np.array([float(number) for number in NUMBER.findall(json.dumps(value))])


def differs(case, before, after):
    if NUMBER.sub("", json.dumps(before)) != NUMBER.sub("", json.dumps(after)):
        return f"{case}:\n  was {json.dumps(before)}\n  is  {json.dumps(after)}"
    # An entry near 0 is as uncertain as the largest one of its weights.
    old, new = numbers(before), numbers(after)
    size = np.abs(old) if isinstance(before, dict) else np.abs(old).max(initial=0.0)
    # The last of 8 digits, and what another BLAS changes before it.
    if (np.abs(old - new) > 1e-7 * size).any():
        return f"{case}:\n  was {json.dumps(before)}\n  is  {json.dumps(after)}"
    return None


@pytest.mark.parametrize("name", [*renew.SOLVERS, *renew.ESTIMATORS])
def test_results_are_as_before(name):
    changed = []
    for file, after in zip(("coefficients.json", "statements.json"), renew.results(name), strict=True):
        before = {case: value for case, value in kept(file).items() if case.split()[0] == name}
        assert list(before) == list(after)
        changed += filter(None, [differs(case, before[case], after[case]) for case in before])
    assert not changed, "\n".join(
        [*changed, "If this is meant: python tests/golden/renew.py, and the changelog says why."]
    )


def test_nothing_is_left_over():
    names = {case.split()[0] for case in kept("coefficients.json")}
    assert names == {*renew.SOLVERS, *renew.ESTIMATORS}


def test_a_changed_digit_shows():
    before = kept("coefficients.json")["dp_sgd binary replace_one"]
    after = [*before[:-1], before[-1] + 1e-6 * abs(before[0])]
    assert differs("case", before, before) is None
    assert differs("case", before, after)
    assert differs("case", {"clip": 1e-9, "n": 5}, {"clip": 2e-9, "n": 5})
    assert differs("case", ["clipped to 2.5"], ["clipped to 2.50001"])
