"""Notebook displays: guarantees, budgets and descriptions, with all text escaped."""

import pickle

import numpy as np
import pytest
import sklearn

from dperm import Categorical, LogisticRegression, Numeric, PrivateSearch, Schema, report
from dperm.accounting import Ledger, open_ledger
from reports.test_document import Reader, is_inert

EVIL = "<script>alert(1)</script>"
X = np.random.default_rng(0).uniform(size=(2000, 2))
LABELS = np.where(X[:, 0] > 0.5, EVIL, "no")


def words_of(card):
    assert "<script>alert" not in card
    return Reader(card).words


def model(**settings):
    return LogisticRegression(1.0, 1e-6, row_norm=1.8, classes=["no", EVIL], **settings)


def test_estimators():
    ledger = Ledger(3.0, 1e-6, name=EVIL)
    own = model(ledger=ledger)
    before = words_of(own._repr_html_())
    assert "Not fitted. A fit asks for epsilon = 1.0" in before
    assert f"Ledger {EVIL!r}: epsilon = 0 spent of 3" in before
    after = words_of(own.fit(X, LABELS)._repr_html_())
    assert "Differentially private (epsilon = 1, delta = 1e-06). Neighbours: add_or_remove." in after
    assert "epsilon = 1 spent of 3" in after
    bundle = own._repr_mimebundle_()
    assert words_of(bundle["text/html"]).count("Neighbours: add_or_remove") == 1
    assert bundle["text/plain"] == repr(own)
    with sklearn.config_context(display="text"):
        assert set(own._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(own, "_repr_html_")
    exact = LogisticRegression(np.inf, 1e-6, row_norm=1.8, classes=["no", EVIL]).fit(X, LABELS)
    assert "NOT PRIVATE" in words_of(exact._repr_html_())


def test_searches():
    search = PrivateSearch(model(), {"l2": [0.0, 0.1]}, 4.0, 1e-6)
    assert "A fit asks for epsilon = 4.0" in words_of(search._repr_html_())
    assert "Differentially private (epsilon = 4" in words_of(search.fit(X, LABELS)._repr_html_())


def test_a_ledger_that_is_gone(tmp_path):
    path = tmp_path / "budget.db"
    ledger = open_ledger(path, "adult", 3.0, 1e-6)
    path.unlink()
    assert "Ledger 'adult': There is no such file." in words_of(model(ledger=ledger)._repr_html_())
    assert words_of(ledger._repr_html_()) == repr(ledger) == "SqliteLedger('adult': There is no such file.)"


def words_on_card(ledger):
    card = ledger._repr_html_()
    assert is_inert(card)
    return Reader(card).words


def test_ledgers():
    ledger = Ledger(3.0, 1e-6, name=EVIL, ceiling=5.0, allow_seeded=True)
    part, other = ledger.split({"a": 0.5, "b": 0.5}).values()
    ledger.charge(epsilon=1.0, delta=1e-6, description=EVIL)
    assert "epsilon = 1 in 1 charge" in words_on_card(ledger)
    assert "epsilon = 2" in words_on_card(ledger)
    assert f"one more fit may have up to epsilon = {str(ledger.remaining)[:6]}" in words_on_card(ledger)
    assert "for tests" in words_on_card(ledger)
    for epsilon in (0.5, 0.25):
        part.charge(epsilon=epsilon, delta=1e-6)
    shown, both = words_on_card(part), ledger.spent
    assert f"{part.spent:.3g}" in shown
    assert "in 2 charges for the part" in shown
    assert part.left == ledger.left == 3.0 - both
    assert other.left == pytest.approx(2.0)  # of the fit on all records
    assert "epsilon = 0 in 0 charges for the part" in words_on_card(other)
    assert "with fits on more recordsepsilon = 1" in words_on_card(other)
    ledger.close()
    assert ledger.left == part.left == 0.0
    assert "closed" in words_on_card(part)
    assert Ledger(float("inf"), 1e-6).left == float("inf")


def test_schemas():
    schema = Schema(
        [Numeric("age", 0, 100, bins=4, missing="column"), Numeric("pay", 0, 1e6, "log1p", missing=5),
         Categorical(EVIL, [f"{EVIL}{k}" for k in range(20)], unknown="zero")], EVIL, [EVIL * 2],
    )  # fmt: skip
    card = schema._repr_html_()
    assert is_inert(card)
    words = Reader(card).words
    for said in (
        "0 to 100, in 4 bins",
        "a column of its own",
        "on a logarithmic scale",
        "and 8 more",
        "zeros",
    ):
        assert said in words
    wide = Schema([Numeric(f"pixel{k}", 0, 255) for k in range(784)])
    assert "And 724 further columns." in Reader(wide._repr_html_()).words


def test_a_model_that_was_stored():
    own = pickle.loads(pickle.dumps(model(ledger=Ledger(3.0, 1e-6, name=EVIL)).fit(X, LABELS)))
    assert f"Ledger {EVIL!r}: not here." in words_of(own._repr_html_())
    assert words_of(own.ledger._repr_html_()) == repr(own.ledger)
    assert "charged to the ledger" in report(own).to_markdown()
