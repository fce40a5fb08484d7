import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest

from dperm.statement.privacy_statement import PrivacyStatement

KEYS = {
    "epsilon", "delta", "neighbors", "mechanism", "accountant", "sampling", "sensitivity", "noise_scale",
    "clip", "row_norm", "steps", "noise", "random", "public", "ledger", "version",
}  # fmt: skip


def statement(**changes):
    facts = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "neighbors": "add_or_remove",
        "mechanism": "noisy_gd (Gaussian noise)",
        "accountant": "gdp",
        "sensitivity": 0.5,
        "noise_scale": 12.3456789,
        "clip": 0.5,
        "row_norm": 1.0,
        "steps": 1000,
        "mu": 0.2268,
        "public": {"n_samples": np.int64(32561), "classes": np.array([-1, 1]), "learning_rate": math.inf},
        "ledger": "ledger 'adult': epsilon 1 of 3",
        "version": "0.1.0",
    }
    return PrivacyStatement(**{**facts, **changes})


def test_dictionary_has_the_documented_keys_and_is_json():
    facts = statement().to_dict()
    assert set(facts) >= KEYS
    assert set(facts) - KEYS == {"rho", "mu", "unit", "non_finite", "notes", "private"}
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["public"] == {"n_samples": 32561, "classes": [-1, 1], "learning_rate": "inf"}
    assert facts["private"] is True


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_dictionary_round_trip(epsilon):
    original = statement(epsilon=epsilon, noise_scale=math.nan if epsilon == math.inf else 1.0)
    rebuilt = PrivacyStatement.from_dict(json.loads(json.dumps(original.to_dict(), allow_nan=False)))
    assert rebuilt.to_dict() == original.to_dict()
    assert rebuilt.epsilon == epsilon


def test_frozen_copied_and_pickled():
    public = {"classes": [0, 1]}
    original = statement(public=public)
    public["classes"].append(2)
    assert original.public["classes"] == [0, 1]
    with pytest.raises(dataclasses.FrozenInstanceError):
        original.epsilon = 0.1
    with pytest.raises(TypeError):
        original.public["classes"] = []
    assert pickle.loads(pickle.dumps(original)) == copy.deepcopy(original) == original


def test_text_states_the_guarantee_and_its_conditions():
    text = " ".join(str(statement()).split())
    for words in (
        "Differentially private (epsilon = 1, delta = 1e-06).",
        "unit of privacy is one record",
        "presence or absence of one record (add_or_remove)",
        "factor of at most e^epsilon = 2.72",
        "probability of at most delta = 1e-06",
        "73.1 % success",
        "noisy_gd (Gaussian noise), 1,000 accesses to the data",
        "Every step uses all records",
        "clipped to a norm of at most 0.5",
        "scale of the noise is 12.3457",
        "mu = 0.2268",
        "cryptographic generator",
        "n_samples = 32561",
        "Charged to ledger 'adult'",
        "The time and memory",
        "dperm 0.1.0",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbors": "replace_one"}, "but not how many records there are"),
        ({"random": "seeded"}, "WHOEVER KNOWS OR GUESSES THE SEED CAN REMOVE THE NOISE"),
        ({"random": "seeded"}, "except towards anyone who knows the seed"),
        ({"noise": "float"}, "the guarantee is idealised"),
        ({"ledger": None}, "Nothing was charged to a ledger"),
        ({"delta": 0.0, "accountant": "pure"}, "without exception (delta = 0)"),
        ({"epsilon": 12.0}, "gives little protection"),
        ({"epsilon": 5000.0}, "more than 10^300"),
        ({"sampling": "poisson"}, "every record takes part independently"),
        ({"sampling": "every other row"}, "Sampling: every other row."),
        ({"non_finite": "zero"}, "count as empty, silently"),
        ({"public": {}}, "The settings named here and no others"),
        ({"notes": ("Iterates are secret.",)}, "Conditions. Iterates are secret."),
        ({"steps": 1}, "1 access to the data"),
        ({"accountant": "new"}, "Accountant: new; mu"),
    ],
)
def test_text_reflects_the_settings(changes, words):
    assert words in " ".join(str(statement(**changes)).split())


def test_non_private_fits_are_marked_and_claim_nothing():
    exact = statement(epsilon=math.inf)
    assert exact.private is False
    assert exact.to_dict()["epsilon"] == "inf"
    text = str(exact)
    assert text.startswith("NOT PRIVATE")
    assert "factor" not in text
    assert "hides" not in text
    assert "NOT PRIVATE" in exact._repr_html_()


def test_html_escapes_all_values():
    attack = "<script>alert('x')</script>"
    outside = dict.fromkeys(("mechanism", "ledger", "unit", "version", "sampling", "accountant"), attack)
    html = statement(**outside, public={attack: attack}, notes=(attack,))._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 9
    assert html.startswith("<div")
    assert html.endswith("</div>")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise": "exakt"}, "noise must be 'exact' or 'float', got 'exakt'"),
        ({"random": "random"}, "random must be"),
        ({"non_finite": "keep"}, "non_finite must be"),
        ({"neighbors": "edge"}, "neighbors must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
    ],
)
def test_bad_arguments(changes, words):
    with pytest.raises(ValueError, match=words):
        statement(**changes)


def test_version_is_filled_in():
    given = {"epsilon": 1, "delta": 0, "neighbors": "replace_one", "mechanism": "m", "accountant": "pure"}
    assert PrivacyStatement(**given).version
