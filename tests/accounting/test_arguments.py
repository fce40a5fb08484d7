"""Every public function names the argument that it rejects, for every kind of bad value."""

import importlib
import inspect
import math
import pkgutil
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dperm.accounting
from dperm.accounting import paper
from dperm.accounting._checks import check_steps
from dperm.errors import PrivacyWarning

TARGET = {"epsilon": 0.5, "delta": 1e-5}
STEPS = {"batch_size": 10, "n_samples": 1000, "steps": 30}
WORDS = {"sampling": "poisson", "neighbors": "add_or_remove"}
DESCENT = {"n_samples": 1000, "steps": 50, "eta": 0.5, "lipschitz": 1.0, "beta": 0.25, "l2": 0.1}
SIZE = {"n_samples": 1000, "dimension": 5}
HOLDER = {"alpha": 0.5, "holder": 1.5, "gradient_at_zero": 1.5, "loss_at_zero": 1.0}
HOLDER_RUN = {"n_samples": 1000, "steps": 1000, "eta": 0.02, "radius": 1.0, **HOLDER}
FEASIBLE = {"epsilon": 1.0, "delta": 1e-6, "n_samples": 1000, "steps": 1000}

CALLS = {
    "advanced_composition": {"epsilon": 0.1, "steps": 3, "slack": 1e-6},
    "amplified_epsilon": {"epsilon": 1.0, "rate": 0.1},
    "approximate_gdp": {"noise_multiplier": 2.0, "slack": 1e-9, **STEPS, **WORDS},
    "bounded_range_eta": {"rho": 0.1},
    "bounded_range_eta_from_mu": {"mu": 0.1},
    "bounded_range_mu": {"eta": 0.1},
    "bounded_range_rho": {"eta": 0.1},
    "budget_units": {**TARGET, "accountant": "gdp"},
    "exponential_mechanism_rate": {"eta": 1.0, "score_range": 2.0},
    "gaussian_delta": {"epsilon": 1.0, "sigma": 2.0, "sensitivity": 1.0},
    "gaussian_noise_multiplier": {"units": 2**50, "accountant": "gdp"},
    "gaussian_or_norm_laplace": {**TARGET, "dimension": 3, "sensitivity": 1.0},
    "gaussian_sigma": {**TARGET, "sensitivity": 1.0},
    "gdp_epsilon": {"mu": 1.0, "delta": 1e-6},
    "gdp_mu": TARGET,
    "group_privacy_target": {**TARGET, "hops": 2},
    "noise_multiplier": {**TARGET, **STEPS, **WORDS, "accountant": "rdp", "max_moment": 32},
    "pure_epsilon": {"units": 2**50, "accountant": "gdp"},
    "random_round_noise_multiplier": {**TARGET, "n_samples": 50, "batch_size": 1, "steps": 9},
    "selection_eta": {"units": 2**50, "accountant": "gdp"},
    "sgd_delta": {"noise_multiplier": 1.0, "epsilon": 1.0, **STEPS, **WORDS},
    "sgd_epsilon": {"noise_multiplier": 1.0, "delta": 1e-6, **STEPS, **WORDS, "accountant": "rdp"},
    "smoothing_beta": {"smoothing": 1.0, "dimension": 5},
    "smoothing_gamma": {"smoothing": 1.0, "dimension": 5},
    "zcdp_epsilon": {"rho": 0.1, "delta": 1e-6},
    "zcdp_rho": TARGET,
    "zcdp_rho_bun_steinke": TARGET,
    "Budget": {"total_units": 2**50, "accountant": "gdp"},
    "ExponentialMechanismRelease": {"eta": 1.0},
    "GaussianRelease": {"noise_multiplier": 1.0},
    "Ledger": {**TARGET, "accountant": "gdp"},
    "PerturbedMinimumRelease": {"mechanism": "gaussian", "scale": 1.0, "output": 1.0},
    "PureRelease": {"epsilon": 1.0},
    "paper.decaying_step_size": {"diameter": 2.0, "gradient_bound": 1.0, "sigma": 0.5, "dimension": 5},
    "paper.dp_agd": {**TARGET, "clip_gradient": 1.0, "clip_loss": 1.0, "splits": 60},
    "paper.dp_lssgd": {**TARGET, "batch_size": 128, "n_samples": 50000, "steps": 1000},
    "paper.dp_lssgd_schedule": {
        **TARGET,
        **SIZE,
        "clip": 1.0,
        "gap": 2.0,
        "smoothing": 1.0,
        "smoothness": 0.5,
    },
    "paper.feasible_epsilon": {"n_samples": 1000},
    "paper.feasible_beta": FEASIBLE,
    "paper.holder_constants": HOLDER,
    "paper.noisy_gd": {**TARGET, "n_samples": 1000, "steps": 100, "clip": 1.0},
    "paper.objective_perturbation": {**TARGET, "l2": 1.0, "row_norm": 1.0, "beta": 0.25},
    "paper.objective_perturbation_pure": {"epsilon": 1.0, "n_samples": 1000, "l2": 0.01, "curvature": 0.25},
    "paper.output_perturbation": {**TARGET, **DESCENT},
    "paper.projected_gd_schedule": {**TARGET, **SIZE, "radius": 2.0, "clip": 1.0, "steps": 50},
    "paper.projected_gd_sizes": {"excess": 0.1, **TARGET, "dimension": 10, "radius": 10.0, "clip": 1.0},
    "paper.projected_gd_step_size": {"radius": 2.0, "gradient_bound": 1.0, "steps": 50},
    "paper.privgene": {"rho": 0.1, "generations": 3, "entry_bound": 1.0, "stride": 0.5},
    "paper.rrpsgd": {**TARGET, "n_samples": 30},
    "paper.rrpsgd_schedule": {**TARGET, **SIZE, "lipschitz": 1.0, "beta": 0.25, "gap": 0.7},
    "paper.sgd_advanced_composition": {**TARGET, "rate": 0.01, "steps": 100},
    "paper.sgd_gradient": {**FEASIBLE, "gradient_bound": 1.0},
    "paper.sgd_gradient_schedule": {**TARGET, **SIZE, "alpha": 0.5},
    "paper.sgd_moments": {**TARGET, "rate": 0.0052, "steps": 100, "max_moment": 32},
    "paper.sgd_output": {**TARGET, **HOLDER_RUN},
    "paper.sgd_output_schedule": {**TARGET, **SIZE, "alpha": 0.5},
    "paper.sgd_output_sensitivity": {"gamma": 1e-6, **HOLDER_RUN},
    "paper.smooth_erm_schedule": {
        **TARGET,
        **SIZE,
        "lipschitz": 1.0,
        "beta": 0.25,
        "distance": 2.0,
        "l2": 0.1,
    },
    "paper.smooth_erm_sensitivity": DESCENT,
    "paper.smooth_erm_sigma": {**TARGET, "sensitivity": 1.0},
    "paper.textbook_sigma": {**TARGET, "sensitivity": 1.0},
    "paper.zcdp_rho_bun_steinke": TARGET,
}
BAD = [math.nan, -1, -math.inf, "1", True, 1j, Decimal("0.5"), [1], np.array([1.0]), np.bool_(True)]
BAD += [10**400, -(10**400), 10**5000, Fraction(10**400), Fraction(1, 10**400)]


MODULES = [
    importlib.import_module(f"dperm.accounting.{each.name}")
    for each in pkgutil.iter_modules(dperm.accounting.__path__)
]


def function_of(name):
    if name.startswith("paper."):
        return getattr(paper, name[6:])
    found = (vars(module).get(name) for module in [dperm.accounting, *MODULES])
    return next(each for each in found if callable(each))


@pytest.mark.parametrize("name", CALLS)
def test_bad_arguments_are_named(name):
    for argument in CALLS[name]:
        for bad in BAD:
            with pytest.raises((ValueError, TypeError), match=argument):
                function_of(name)(**{**CALLS[name], argument: bad})


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"approximate_gdp", "paper.sgd_gradient"}))
def test_numbers_of_other_types_are_their_doubles(name):
    """Results depend on the value of a real number, not on its type."""
    settings = {key: Fraction(v) if isinstance(v, float) else v for key, v in CALLS[name].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected, found = function_of(name)(**CALLS[name]), function_of(name)(**settings)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("name", "extreme"),
    [
        ("paper.holder_constants", {"holder": 1e308}),
        ("paper.noisy_gd", {"epsilon": math.inf}),
        ("paper.objective_perturbation", {"row_norm": 1e-308}),
        ("paper.objective_perturbation_pure", {"epsilon": 5e-324}),
        ("paper.output_perturbation", {"epsilon": math.inf}),
        ("paper.sgd_output", {"eta": 1e308}),
    ],
)
def test_extreme_numbers_are_refused(name, extreme):
    with pytest.raises(ValueError, match=r"beyond double precision|must be"):
        function_of(name)(**(CALLS[name] | extreme))


def test_the_table_is_complete():
    public = [*dperm.accounting.__all__, *(f"paper.{name}" for name in paper.__all__)]
    functions = {name for name in public if inspect.isfunction(function_of(name))}
    ledgers = {"check_ledger", "export_ledger", "ledger_names", "open_ledger"}
    lists = {"paper.random_round_bound", "paper.round_probabilities"}  # in test_theorem_schedules.py
    others = {*ledgers, *lists, "compare_with_paper", "paper.compare_with_paper"}
    assert functions - others <= CALLS.keys()


def test_counts_beyond_64_bits_are_refused():
    with pytest.raises(ValueError, match=f"steps must be an integer >= 1 and at most {2**62}"):
        check_steps(2**62 + 1)
