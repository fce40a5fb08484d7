"""Defaults for public knowledge warn: the number of records, the bounds on rows and on weights."""

import warnings

import numpy as np
import pytest

import dperm
from dperm import Objective
from dperm.accounting import Ledger
from dperm.algorithms import noisy_gd
from dperm.errors import DefaultBoundWarning, ExactSizeWarning, PrivacyWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (500, 2))
Y = np.where(X[:, 0] > 0, 1, -1)


def model(**arguments):
    return dperm.LogisticRegression(**{"epsilon": 1.0, "classes": [-1, 1], **arguments})


def search(estimator, ledger=None, **arguments):
    return dperm.PrivateSearch(estimator, {"l2": [0.01, 0.1]}, 1.0, 1e-6, ledger=ledger, **arguments)


@pytest.mark.parametrize("fitted", [model, lambda: search(dperm.LogisticRegression(classes=[-1, 1]))])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_exact_number_is_published_with_a_warning(fitted):
    with pytest.warns(ExactSizeWarning, match="n_public") as caught:
        statement = fitted().fit(X, Y).privacy_
    assert [each.filename for each in caught if each.category is ExactSizeWarning] == [__file__]
    assert statement.public["n"] == 500
    text = " ".join(str(statement).split())
    assert "WARNING: n is the exact number of records" in text.partition("Treated as public.")[2]


@pytest.mark.parametrize(
    "arguments",
    [{"n_public": 512}, {"neighbors": "replace_one"}, {"epsilon": np.inf}, {"solver": "nonprivate"}],
)
def test_a_number_that_is_public_needs_no_warning(arguments):
    with warnings.catch_warnings(action="error", category=ExactSizeWarning):
        statement = model(**arguments).fit(X, Y).privacy_
    assert "exact number" not in str(statement).replace("\n", " ")
    assert statement.public["n"] == arguments.get("n_public", 500)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_that_of_a_part_is_refused():
    part = Ledger(3.0, 1e-6).split({"a": 0.5, "b": 0.5})["a"]
    own, labels = part.take(X, Y)
    fits = (
        lambda: model(ledger=part).fit(own, labels),
        lambda: noisy_gd(Objective("logistic", own, labels), 1.0, 1e-6, ledger=part),
        lambda: search(dperm.LogisticRegression(classes=[-1, 1]), part).fit(own, labels),
    )
    for fit in fits:
        with pytest.raises(ValueError, match=r"n_public=part.n_public\(n\)"):
            fit()
    assert not part.charged.units
    statement = model(ledger=part, n_public=part.n_public(500)).fit(own, labels).privacy_
    assert statement.public["n"] == 250
    assert len(labels) != 250 or "exact_n" not in statement.public
    chosen = search(dperm.LogisticRegression(classes=[-1, 1], n_public=250), part).fit(own, labels)
    assert chosen.privacy_.public["n"] == 250


def test_where_records_are_replaced_the_size_of_a_part_is_public():
    part = Ledger(1.0, 1e-6, neighbors="replace_one").split({"a": 0.5, "b": 0.5})["a"]
    own, labels = part.take(X, Y)
    assert model(ledger=part).fit(own, labels).privacy_.public["n"] == len(labels)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_bounds_that_nobody_chose_clip_with_a_warning(epsilon):
    with pytest.warns(DefaultBoundWarning, match=r"Pass row_norm=.*schema=") as caught:
        silent = model(epsilon=epsilon, random_state=0).fit(X, Y)
    assert [each.filename for each in caught if each.category is DefaultBoundWarning] == [__file__]
    with warnings.catch_warnings(action="error", category=DefaultBoundWarning):
        spoken = model(epsilon=epsilon, random_state=0, row_norm=1.0).fit(X, Y)
        spoken.set_params(weight_bound=2.0).fit(X, Y, np.full(500, 2.0))
    np.testing.assert_array_equal(silent.coef_, spoken.set_params(weight_bound=None).fit(X, Y).coef_)
    with pytest.warns(DefaultBoundWarning, match="weights above 1 count as 1. Pass weight_bound="):
        spoken.fit(X, Y, np.full(500, 2.0))
    with pytest.warns(DefaultBoundWarning, match="row_norm"):
        search(dperm.LogisticRegression(classes=[-1, 1])).fit(X, Y)


def test_a_delta_that_a_published_record_satisfies():
    with pytest.warns(PrivacyWarning, match=r"delta = 1e-06 is no less than one over .* \(2,000,000\)"):
        model(n_public=2_000_000, row_norm=1.3).fit(X, Y)
