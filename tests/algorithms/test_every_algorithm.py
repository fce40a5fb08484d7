"""Properties of every private algorithm."""

import inspect

import numpy as np
import pytest

from algorithms.every_algorithm import PRIVATE, SCHEMES, few, problem_for, small_fit
from algorithms.problems import objective
from dperm.accounting import Ledger
from dperm.errors import BudgetExceededError, DataError
from dperm.mechanisms.hooks import watch_releases
from dperm.objective.hooks import watch_sums


@pytest.mark.parametrize("name", PRIVATE)
def test_the_ledger_is_charged_once_and_before_the_data_are_touched(name, monkeypatch):
    ledger, objective = Ledger(0.5, 1e-6), problem_for(name)
    result = small_fit(name, objective, ledger=ledger)
    (entry,) = ledger.history()
    assert (entry.epsilon, entry.description) == (0.5, name)
    assert "charged to the ledger" in result.privacy.ledger
    monkeypatch.setattr(objective, "_run", pytest.fail)  # a pass over the records
    ledger.close()
    with watch_sums(lambda *sum: pytest.fail("read")), pytest.raises(BudgetExceededError):
        small_fit(name, objective, ledger=ledger)
    assert [each.kind for each in ledger.history()] == ["charge", "close"]


@pytest.mark.parametrize("name", PRIVATE)
def test_ledger_entry_and_statement_agree(name):
    ledger = Ledger(0.5, 1e-6)
    privacy = small_fit(name, ledger=ledger).privacy
    entered = ledger.history()[0].statement
    assert {fact: str(entered[fact]) for fact in privacy.public} == {
        fact: str(value) for fact, value in privacy.public.items()
    }
    for fact in ("epsilon", "delta", "neighbors", "accountant", "random"):
        assert entered[fact] == getattr(privacy, fact)


def test_the_statement_mentions_the_ceiling_of_the_ledger():
    notes = [
        small_fit("noisy_gd", ledger=Ledger(1.0, 1e-6, ceiling=top)).privacy.ledger for top in (1.0, 4.0)
    ]
    assert "epsilon=4: where later fits depend on results" in notes[1]
    assert "ceiling" not in notes[0]


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize("name", PRIVATE)
def test_the_statement_describes_the_last_release(name, neighbors):
    """Its sensitivity and noise scale, under the neighbouring relation of the fit."""
    seen = []

    def watch(releaser, method, private, *args, **kwargs):
        released = method(releaser, private, *args, **kwargs)
        seen.append(releaser)
        return released

    with watch_releases(watch):
        privacy = small_fit(name, neighbors=neighbors).privacy
    assert seen or privacy.steps == 0  # a random number of rounds may be zero
    vectors = [record for record in seen[-1].releases if not record.selection] if seen else []
    if vectors:
        assert (privacy.sensitivity, privacy.noise_scale) == (vectors[-1].sensitivity, vectors[-1].scale)
    assert privacy.neighbors == neighbors
    assert all(releaser.budget.spent_units <= releaser.budget.total_units for releaser in seen)


LARGE = {"batch_size": 6000, "steps": 7}
# Settings that select different code paths of an algorithm.
VARIANTS = [
    # Two runs of 4 random rounds would both make no step in one case of 16.
    *((name, {"rounds": 1000} if name == "rrpsgd" else {}) for name in PRIVATE),
    *(("dp_sgd", {"sampling": sampling, "neighbors": neighbors, **LARGE}) for sampling, neighbors in SCHEMES),
    *((name, LARGE) for name in ("dp_lssgd", "dp_lsadam")),
    ("whitened_gd", {"learn_scales": False, "steps": 12}),
    *(
        (name, {"noise": noise, count: 20_000, "batch_size": 4, "clip": 0.3})
        for name, count in (("dp_sgd_gradient", "steps"), ("rrpsgd", "rounds"))
        for noise in ("exact", "float")
    ),
]


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_seeded_runs_repeat_on_any_number_of_threads(name, settings):
    def coef(seed, threads):
        objective = problem_for(name, 20_000, 20, n_threads=threads)
        # Noise must show in every weight. Weights that stay zero until they are significant need more budget.
        epsilon = 1.0 if name in ("noisy_newton", "sufficient_statistics") else 1e-3
        return small_fit(name, objective, epsilon=epsilon, random_state=seed, **settings).coef

    first = coef(3, 1)
    for threads in (2, 3):
        np.testing.assert_array_equal(first, coef(3, threads))
    assert np.any(first != coef(4, 2))
    if name != "privgene":  # may select the same few candidates
        assert np.any(coef(None, 1) != coef(None, 2))


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace_one"])
@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("noisy_gd", {"steps": 37, "learn_scales": False}, 37),
        ("noisy_gd", {"steps": 37, "learn_scales": True}, 38),
        ("dp_sgd", {"steps": 37, "learn_scales": True}, 38),
        ("whitened_gd", {"steps": 37, "learn_scales": False}, 38),
        ("whitened_gd", {"steps": 37, "learn_scales": True}, 43),
        ("sufficient_statistics", {}, 3),
    ],
)
def test_the_budget_is_spent_and_not_exceeded(name, settings, count, neighbors, releases):
    result = small_fit(name, problem_for(name, 2000), neighbors=neighbors, **settings)
    assert len(releases) == result.privacy.steps == count
    budget = releases[-1][1]
    assert budget.total_units - 2**10 <= budget.spent_units <= budget.total_units


@pytest.mark.parametrize("name", ["noisy_gd", "dp_sgd"])
def test_projection_keeps_every_iterate_in_the_ball(name):
    norms = []
    PRIVATE[name](
        objective(), 0.1, 1e-6, radius=0.7, callback=lambda seen: norms.append(np.linalg.norm(seen["coef"]))
    )
    assert 0.69 < max(norms) <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dp_sgd", {"sampling": "without_replacement", "neighbors": "replace_one"}),
        ("dp_sgd", {"sampling": "permutation", "neighbors": "replace_one"}),
        ("output_perturbation_gd", {}),
        ("dp_sgd_output", {}),
    ],
)
def test_more_records_than_n_public_are_refused_before_the_charge(name, settings):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(DataError, match="n_public = 59"):
        small_fit(name, problem_for(name, n_public=59), ledger=ledger, **settings)
    assert not ledger.history()


@pytest.mark.parametrize("name", ["dp_sgd_output", "objective_perturbation", "output_perturbation_gd"])
def test_the_statement_explains_add_or_remove(name):
    one, other = (
        " ".join(str(small_fit(name, neighbors=relation).privacy).split())
        for relation in ("add_or_remove", "replace_one")
    )
    assert "replaced by an empty one" in one
    assert "replaced by an empty one" not in other
    assert "stay secret" in one


@pytest.mark.parametrize("name", PRIVATE)
def test_callbacks_see_released_values_only(name):
    shown = []
    result = small_fit(name, callback=shown.append)
    assert shown or "steps" not in few(name)
    for released in shown:
        assert np.shape(released["coef"]) == result.coef.shape
        assert isinstance(released["iteration"], int)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_signature_names_the_common_terms(name):
    parameters = inspect.signature(PRIVATE[name]).parameters
    terms = ["neighbors", "ledger", "random_state", "callback"]
    assert list(parameters)[-4:] == terms
    assert all(parameters[term].kind is inspect.Parameter.KEYWORD_ONLY for term in terms)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_docstring_describes_every_argument(name):
    text = inspect.getdoc(PRIVATE[name])
    parameters = text.partition("\nParameters\n----------\n")[2].partition("\n\nReturns\n-------\n")[0]
    entries = [line.partition(" : ")[0] for line in parameters.splitlines() if not line.startswith(" ")]
    assert ", ".join(entries).split(", ") == list(inspect.signature(PRIVATE[name]).parameters)
    assert "\nRaises\n------\n" in text
