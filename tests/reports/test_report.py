"""Reports say what was released and what was not, as self-contained pages; a browser shows them."""

import json
import math

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dperm
from dperm import Categorical, HuberRegressor, LogisticRegression, Numeric, Schema
from dperm.accounting import Ledger, gdp_epsilon, zcdp_epsilon
from dperm.metrics import evaluate
from dperm.reports.deployments import DEPLOYMENTS, REGISTRY
from dperm.reports.guidelines import SOURCE
from reports.test_document import Reader, is_inert

mpl.use("Agg")
EVIL = "<script>document.title = 'run'</script>"
N = 4000
RNG = np.random.default_rng(0)
SCHEMA = Schema([Numeric("age", 0, 100), Categorical("job", ["cook", EVIL, "nurse"])], name=EVIL)
COLUMNS = {"age": RNG.uniform(0, 100, N).round(), "job": RNG.choice(["cook", EVIL, "nurse"], N)}
TABLE = SCHEMA.encode(COLUMNS)
LABELS = np.where(COLUMNS["age"] + RNG.normal(0, 20, N) > 50, EVIL, "no")


def fitted(**settings):
    model = LogisticRegression(2.0, 1e-6, schema=SCHEMA, classes=["no", EVIL], **settings)
    return model.fit(TABLE, LABELS)


@pytest.fixture(scope="module")
def ledger():
    return Ledger(4.0, 1e-6, name=EVIL)


@pytest.fixture(scope="module")
def model(ledger):
    return fitted(ledger=ledger)


@pytest.fixture(scope="module")
def whole(model, ledger):
    return dperm.report(model, evaluation=evaluate(model, TABLE, LABELS, 1.0, 1e-6, ledger=ledger))


def test_everything_is_there_and_inert(whole, model, ledger):
    page = whole.to_html()
    assert is_inert(page, {each.source for each in DEPLOYMENTS} | {REGISTRY.address, SOURCE.address})
    words = Reader(page).words
    at_small_delta = gdp_epsilon(model.privacy_.mu, N**-2)
    assert EVIL in words
    markdown = whole.to_markdown()
    assert "<script" not in markdown.replace("\\<", "")
    for said in ("epsilon = 2,", "exp(ε)", "What is treated as public", "accuracy", "THIS RESULT", "17.14",
                 "trust model", "Who has access to the records", f"{at_small_delta:.3g}",
                 "add_or_remove", f"{ledger.spent:.4g}", SCHEMA.digest):  # fmt: skip
        assert said in words, said
    facts = json.loads(json.dumps(whole.to_dict(), allow_nan=False))
    assert facts["privacy"] == model.privacy_.to_dict()
    assert facts["coefficients"]["category"] == [None, "cook", EVIL, "nurse", None]
    assert [each["epsilon"] for each in facts["ledger"]["entries"]] == [2.0, 1.0]
    assert facts["evaluation"]["privacy"]["epsilon"] == 1.0
    total = Reader(page).words.split("together, at most")[1]
    assert total.startswith("3")  # by basic composition


def test_nothing_is_taken_for_private_that_is_not(model):
    loud = "NOT PRIVATE"
    exact = evaluate(model, TABLE, LABELS, math.inf, 1e-6)
    shown = dperm.report(model, evaluation=exact)
    assert f"Beside the guarantee of the model, the evaluation: {loud}" in shown.to_markdown()
    assert "together, at most" not in shown.to_markdown()
    without = LogisticRegression(math.inf, 1e-6, schema=SCHEMA, classes=["no", EVIL]).fit(TABLE, LABELS)
    assert dperm.report(without).to_markdown().startswith(f"# Privacy report: LogisticRegression\n\n> {loud}")
    assert "no epsilon to compare" in dperm.report(without).to_markdown()
    with pytest.warns(dperm.errors.SeededNoiseWarning):
        seeded = fitted(random_state=0)
    assert "except towards anyone who knows the seed" in dperm.report(seeded).to_markdown()
    other = Ledger(1.0, 1e-6, name="other")
    assert "names no charge to the ledger 'other'" in dperm.report(model, ledger=other).to_markdown()


def test_other_models():
    X = RNG.uniform(size=(3000, 2))
    regressor = HuberRegressor(8.0, 1e-6, solver="noisy_newton", row_norm=1.8, target_bound=2.0)
    pipeline = make_pipeline(FunctionTransformer(), regressor).fit(X, X[:, 0] - X[:, 1])
    shown = dperm.report(pipeline, title="A title")
    assert "95 % interval, from" in shown.to_markdown()
    assert shown.to_markdown().startswith("# A title")
    search = dperm.PrivateSearch(
        LogisticRegression(row_norm=1.8, classes=[0, 1]), {"l2": [0.0, 0.1]}, 4.0, 1e-6
    ).fit(X, (X[:, 0] > 0.5) * 1)
    shown = dperm.report(search)
    assert "2 candidates were compared" in shown.to_markdown()
    assert shown.to_dict()["parameters"] == search.best_params_


def test_what_no_report_can_be_made_of(model):
    with pytest.raises(NotFittedError):
        dperm.report(LogisticRegression())
    for wrong in (3, "model.json", LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])):
        with pytest.raises(TypeError):
            dperm.report(wrong)
    with pytest.raises(TypeError, match="evaluation must be"):
        dperm.report(model, evaluation={"metrics": {}})
    with pytest.raises(TypeError, match="ledger must be"):
        dperm.report(model, ledger="adult")


def test_files(whole, tmp_path):
    for name, start in (("a.html", "<!doctype html>"), ("a.md", "# Privacy"), ("a.json", "{")):
        whole.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    with pytest.raises(ValueError, match="html"):
        whole.save(tmp_path / "a.pdf")


def test_a_report_of_a_ledger(ledger, model):
    shown = dperm.report(ledger)
    assert is_inert(shown.to_html())
    assert "data:image/svg" in shown.to_html()
    assert shown.to_dict()["ledger"]["spent"] == ledger.spent
    assert "Nothing was charged so far" in dperm.report(Ledger(1.0, 1e-6)).to_markdown()


def test_without_matplotlib_pictures_are_left_out(ledger, model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    monkeypatch.delattr(mpl, "pyplot", raising=False)
    page = dperm.report(ledger).to_html()
    assert "pip install 'dperm[plot]'" in page
    assert "<img" not in page


def test_deployments_that_state_rho_have_its_epsilon():
    """Up to the differences between conversions of different tightness."""
    stated = [(each.epsilon, float(each.note.split("rho = ")[1].split()[0]), each.delta)
              for each in DEPLOYMENTS if "rho" in each.note]  # fmt: skip
    assert len(stated) == 4
    for epsilon, rho, delta in stated:
        assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=0.15)
