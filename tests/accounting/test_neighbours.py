import pytest

from dperm.accounting.neighbours import Neighbours


def test_factors():
    assert Neighbours.ADD_OR_REMOVE.sum_factor == 1
    assert Neighbours.REPLACE_ONE.sum_factor == 2
    assert Neighbours.ADD_OR_REMOVE.score_range_factor == 1
    assert Neighbours.REPLACE_ONE.score_range_factor == 2


def test_score_range_factor_is_attained_and_not_exceeded():
    # effects of one record on two clipped loss sums, all corners of [0, C]^2
    corners = [(a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    added = max(max(x) - min(x) for x in corners)
    replaced = max(abs((x[0] - y[0]) - (x[1] - y[1])) for x in corners for y in corners)
    assert added == Neighbours.ADD_OR_REMOVE.score_range_factor
    assert replaced == Neighbours.REPLACE_ONE.score_range_factor


def test_parse():
    assert Neighbours.parse("replace_one") is Neighbours.REPLACE_ONE
    assert Neighbours.parse(Neighbours.ADD_OR_REMOVE) is Neighbours.ADD_OR_REMOVE
    for wrong in ("add", "", None, 3):
        with pytest.raises(ValueError, match="neighbors must be 'add_or_remove' or 'replace_one', got"):
            Neighbours.parse(wrong)
