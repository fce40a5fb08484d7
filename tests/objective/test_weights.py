"""Record and class weights: a factor of the loss that applies before clipping, in every representation."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from algorithms.every_algorithm import PRIVATE, few, problem_for, small_fit
from dperm import Objective, algorithms
from dperm.accounting import Ledger
from dperm.audit import replay_check
from dperm.data import aggregate, scan_csv
from dperm.errors import DataError
from dperm.losses.weighted import Weighted
from dperm.mechanisms.batches import SecretBatches
from dperm.mechanisms.random_source import random_bits
from dperm.objective.bounded_training import GradientDescent
from dperm.objective.gradients import clipped_gradient_sum, mapped_gradient_sum
from dperm.objective.losses import clipped_loss_sums, coordinate_loss_sums
from dperm.private_values.transform import Transform
from reference import awkward_arrays, numpy_kernels
from reference.exact import (
    RELATIONS,
    assert_change_within,
    assert_scores_within,
    clips,
    dtypes,
    one_row,
    opened,
    same,
    share,
)
from reference.kernel_calls import EVEN_STEPS, STEPS
from reference.losses import CLASSIFICATION, EXAMPLES
from reference.tabular_data import random_table

N, BOUND, CLASSES = 203, 3.0, {-1: 0.5, 1: 4.0}
HOSTILE = [0.0, -0.0, BOUND, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e300, 5e-324]
COMMON = {"row_norm": 2.0, "fit_intercept": True, "n_threads": 2}


def hostile_weights(n):
    """Weights of which some are out of range, and the values that they are clipped to."""
    given = np.random.default_rng(5).uniform(0.0, BOUND, n)
    given[: len(HOSTILE)] = HOSTILE
    return given, np.array([0.0 if math.isnan(w) else min(max(w, 0.0), BOUND) for w in given])


def table_and_targets(n=N):
    rng = np.random.default_rng(0)
    return random_table(n, (0, 3, 0, 5, 1), np.float64), np.where(rng.random(n) < 0.4, 1.0, -1.0)


# -- against numpy --------------------------------------------------------------------------------------


def clipped(vectors, clip):
    norms = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors * np.where(norms > clip, clip / np.where(norms > 0, norms, 1), 1)


@dtypes
@pytest.mark.parametrize("loss", EXAMPLES)
def test_sums_equal_numpy(dtype, loss):
    x, y, w, direction = awkward_arrays.ordinary(N, 7, dtype)
    given, counted = hostile_weights(N)
    labels = loss in CLASSIFICATION
    classes = {"class_weight": CLASSES} if labels else {}
    objective = Objective(EXAMPLES[loss], x, y, weights=given, weight_bound=BOUND, **classes, **COMMON)
    weights = counted * (np.where(y > 0, 4.0, 0.5) if labels else 1.0)
    scaled = {"intercept": True, "row_norm": 2.0}
    close = {"rtol": 3e-5, "atol": 3e-4} if dtype == np.float32 else {"rtol": 1e-7, "atol": 1e-6}

    def gradients(at):
        return weights[:, None] * numpy_kernels.gradients(loss, x, y, at, **scaled)

    def losses(at):
        return weights * numpy_kernels.losses(loss, x, y, at, **scaled)

    gradient_sum = opened(clipped_gradient_sum(objective, w, 0.3))
    np.testing.assert_allclose(gradient_sum, clipped(gradients(w), 0.3).sum(axis=0), **close)
    for steps in (STEPS, EVEN_STEPS):
        expected = [np.minimum(losses(w - step * direction), 0.8).sum() for step in steps]
        sums = opened(clipped_loss_sums(objective, w, direction, steps, 0.8))
        np.testing.assert_allclose(sums, np.array(expected, float), **close)
    value, gradient = objective.value_and_gradient(w)
    assert value == pytest.approx(float(losses(w).sum()) / N, rel=1e-4)
    np.testing.assert_allclose(gradient, gradients(w).sum(axis=0) / N, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(objective.gradient(w), gradients(w).sum(axis=0) / N, rtol=1e-6, atol=1e-9)


def test_softmax_sums_equal_numpy():
    x, _, _, _ = awkward_arrays.ordinary(N, 7, np.float64)
    rng = np.random.default_rng(1)
    y, w = rng.integers(0, 3, N), rng.normal(size=(8, 3))
    given, counted = hostile_weights(N)
    objective = Objective(
        "softmax", x, y, n_classes=3, weights=given, weight_bound=BOUND, class_weight={2: 5.0}, **COMMON
    )
    weights = counted * np.where(y == 2, 5.0, 1.0)
    plain, rows = objective.loss.loss, np.asarray(numpy_kernels.scaled_rows(x, True, 2.0), float)
    residuals = weights[:, None] * plain.derivative(rows @ w, y)
    gradients = np.einsum("ij,ik->ijk", rows, residuals).reshape(N, -1)
    expected = clipped(gradients, 0.3).sum(axis=0).reshape(8, 3)
    np.testing.assert_allclose(opened(clipped_gradient_sum(objective, w, 0.3)), expected, atol=1e-6)
    losses = [np.minimum(weights * plain.value(rows @ w * (1 + s), y), 0.8).sum() for s in STEPS]
    np.testing.assert_allclose(opened(clipped_loss_sums(objective, w, -w, STEPS, 0.8)), losses, atol=1e-6)
    np.testing.assert_allclose(objective.gradient(w), gradients.sum(axis=0).reshape(8, 3) / N, atol=1e-9)
    assert objective.value(w) == pytest.approx((weights * plain.value(rows @ w, y)).mean())


# -- every representation and pass ----------------------------------------------------------------------

D = 12  # weights of the table's columns, and an intercept
IMAGE = Transform.rounding(np.eye(D) + 0.1 * np.random.default_rng(7).normal(size=(D, D)))
SUMS = {
    "gradient": lambda o, w: clipped_gradient_sum(o, w, 0.3),
    "line": lambda o, w: clipped_loss_sums(o, w, -w, STEPS, 0.8),
    "even line": lambda o, w: clipped_loss_sums(o, w, -w, EVEN_STEPS, 0.8),
    "mapped": lambda o, w: mapped_gradient_sum(o, w, 0.3, IMAGE),
    "batch": lambda o, w: clipped_gradient_sum(o, w, 0.3, rows=a_batch(o)),
}


def a_batch(objective):
    return next(iter(SecretBatches("poisson", random_bits(3), 50, objective.n_public)))


def objective_of(x, y, **given):
    return Objective("logistic", x, y, **COMMON, **given)


KINDS = {
    "table": lambda t: t,
    "dense": lambda t: t.to_dense(),
    "sparse": lambda t: scipy.sparse.csr_array(t.to_dense()),
}


def of_kinds(**given):
    table, y = table_and_targets()
    return {kind: objective_of(make(table), y, **given) for kind, make in KINDS.items()}


@pytest.mark.parametrize("sums", SUMS)
def test_weights_stay_with_their_records(sums):
    """In every representation, sums equal those over single records, whatever the thread or block."""
    (table, y), (given, _) = table_and_targets(), hostile_weights(N)
    weighted = {"weights": given, "weight_bound": BOUND, "class_weight": CLASSES}
    make, w = SUMS[sums], np.random.default_rng(2).normal(size=D)
    kinds = {kind: make(each, w) for kind, each in of_kinds(**weighted).items()}
    assert same(kinds["table"], kinds["dense"])
    assert same(kinds["sparse"], kinds["dense"])
    if sums in ("batch", "mapped"):
        return  # depend on positions or the batch drawn, or round again after mapping
    total = 0
    for i in range(N):
        one = weighted | {"weights": given[i : i + 1], "n_public": N}
        total = total + make(objective_of(table[i : i + 1], y[i : i + 1], **one), w)._integers.astype(object)
    assert (kinds["dense"]._integers == total).all()


def test_weights_of_merged_records():
    """Records are merged if row, target and weight are equal; a count stands for records of equal weight."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 20, 17_000)
    x, y = rng.normal(size=(20, D - 1))[kinds], rng.choice([-1.0, 1.0], 17_000)
    given = rng.choice(HOSTILE, 17_000)
    weighted = {"weights": given, "weight_bound": BOUND, "class_weight": CLASSES}
    plain, merged = (objective_of(x, y, **weighted) for _ in range(2))
    plain._rows.compact = None
    merged._expect_passes(1000)
    keys = np.rec.fromarrays([y, given])
    distinct, targets, counts = aggregate(x, keys)
    counted = objective_of(distinct, targets.f0, counts=counts, **weighted | {"weights": targets.f1})
    w = rng.normal(size=D)
    for name, make in SUMS.items():
        assert same(make(plain, w), make(merged, w)), name
        if name != "batch":
            assert same(make(plain, w), make(counted, w)), name
    assert merged._rows.compact._rows is not None
    descents = [small_fit("dp_sgd", each, batch_size=64).coef for each in (plain, merged)]
    np.testing.assert_array_equal(*descents)


DESCENDING = ["noisy_gd", "whitened_gd", "dp_agd", "dp_sgd", "dp_lssgd"]
OF_BATCHES = ["dp_sgd", "dp_sgd_gradient", "dp_sgd_output", "rrpsgd"]


def test_weights_of_one_change_nothing():
    w = np.random.default_rng(2).normal(size=D)
    pairs = zip(of_kinds().items(), of_kinds(weights=np.ones(N), class_weight={1: 1.0}).values(), strict=True)
    for (kind, plain), weighted in pairs:
        for name, make in SUMS.items():
            assert same(make(plain, w), make(weighted, w)), (kind, name)
        bounded = [clipped_gradient_sum(each, w, 5.0, radius=10.0) for each in (plain, weighted)]
        assert same(*bounded)
        assert bounded[0].replace_one < 2 * bounded[0].add_or_remove
        assert plain.value(w) == weighted.value(w)
        np.testing.assert_array_equal(plain.gradient(w), weighted.gradient(w))


@pytest.mark.parametrize("name", [*DESCENDING, "dp_sgd_gradient", "dp_sgd_output"])
def test_fits_with_weights_of_one_equal_those_without(name):
    fits = [small_fit(name, problem_for(name, **weighted)) for weighted in ({}, {"weights": np.ones(60)})]
    if name == "whitened_gd":  # whose counts of weights have a finer grid, and so has their noise
        np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=0.01)
    else:
        np.testing.assert_array_equal(fits[0].coef, fits[1].coef)


@pytest.mark.parametrize("name", OF_BATCHES)
def test_descent_is_the_same_for_every_representation(name):
    given, _ = hostile_weights(N)
    weighted = {"weights": given, "weight_bound": BOUND, "class_weight": CLASSES}
    kinds = of_kinds(**weighted, l2=0.1, penalize_intercept=True)
    coefs = [small_fit(name, each, epsilon=1.0).coef for each in kinds.values()]
    for other in coefs[1:]:
        np.testing.assert_array_equal(coefs[0], other)


# -- privacy --------------------------------------------------------------------------------------------

some_weights = st.one_of(st.sampled_from(HOSTILE), st.floats(0.0, BOUND))


@dtypes
@settings(max_examples=200)
@given(data=st.data(), clip=clips(), weight=some_weights, loss=st.sampled_from(list(EXAMPLES)))
def test_a_weighted_record_stays_within_the_clip(dtype, data, clip, weight, loss):
    x = data.draw(one_row(dtype, st.integers(1, 40)))
    y = np.array([data.draw(st.sampled_from([-1.0, 1.0]))], dtype)
    objective = Objective(
        EXAMPLES[loss], x, y, weights=[weight], weight_bound=BOUND, n_public=1000, n_threads=1,
        row_norm=data.draw(st.sampled_from([1e-3, 1.0, 1e3])), non_finite="zero",
    )  # fmt: skip
    w = data.draw(st.sampled_from([0.0, 1.0, -1.0, 1e6, -1e300])) * np.ones(objective.dimension)
    share(clipped_gradient_sum(objective, w, clip), clip)
    scores = clipped_loss_sums(objective, w, -w, EVEN_STEPS, clip)
    assert_scores_within(scores, clip)


@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=150)
@given(data=st.data(), radius=st.floats(0.1, 3.0))
def test_neighbours_stay_within_the_gradient_distance(relation, data, radius):
    """Without clipping, the bound is that of the largest weight, also for records of different weights."""
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    x, y = rng.normal(size=(3, 4)), np.ones(3)
    w = rng.normal(size=4)
    w *= radius / np.linalg.norm(w) * (1 - 1e-12)
    given = [data.draw(some_weights) for _ in range(4)]

    def sums(x, y, weights):
        own = Objective("logistic", 9 * x, y, row_norm=2.0, n_public=3, weights=weights, weight_bound=BOUND)
        return clipped_gradient_sum(own, w, 1e3, radius=radius)

    changed = x.copy()
    changed[0] = -x[0] if data.draw(st.booleans()) else rng.normal(size=4)
    other = sums(x[1:], y[1:], given[1:3])
    if relation == "replace_one":
        other = sums(changed, y * [-1.0, 1.0, 1.0], [given[3], *given[1:3]])
    assert_change_within(sums(x, y, given[:3]), other, relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_trained_weights_stay_within_their_sensitivity(relation):
    """A record of the largest weight moves them furthest, by at least 0.3 of the sensitivity."""
    shares = []
    for weight in (0.0, 1.0, BOUND):

        def problem(records, weight=weight):
            x = np.vstack([np.zeros((20, 2)), np.tile([1.0, 0.0], (records, 1))])
            return Objective(
                "logistic", x, np.ones(len(x)), l2=2.0, n_public=21, weight_bound=BOUND,
                weights=np.append(np.ones(20), [weight] * records),
            )  # fmt: skip

        pair = problem(1), problem(0)
        results = [GradientDescent(40, 0.02).train(each) for each in pair]
        assert_change_within(*results, relation)
        moved = np.linalg.norm(opened(results[0]) - opened(results[1]))
        shares.append(moved / results[0].sensitivity("add_or_remove"))
    assert shares == sorted(shares)
    assert 0.3 < shares[-1] <= 1.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", [*DESCENDING, "dp_sgd_output"])
def test_replay_of_neighbours_with_different_weights(name, relation):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    weights = rng.uniform(0.0, BOUND, 50)
    kept = 50 if relation == "replace_one" else 49
    common = {"row_norm": 2.0, "n_public": 50, "l2": 0.1, "weight_bound": BOUND, "class_weight": CLASSES}
    first = Objective("logistic", x, y, weights=weights, **common)
    last = np.append(weights[:49], BOUND)[:kept]
    second = Objective("logistic", x[:kept], y[:kept], weights=last, **common)
    settings = {"neighbors": relation, "random_state": 3, **few(name)}
    report = replay_check(lambda each: PRIVATE[name](each, 1.0, 1e-3, **settings), first, second)
    assert report.ok, report


# -- the minimum ----------------------------------------------------------------------------------------


def test_the_optimum_equals_that_of_scikit_learn_and_of_repeated_records():
    x, y = np.random.default_rng(0).normal(size=(300, 4)), np.sign(np.sin(np.arange(300)) + 0.2)
    times = np.arange(300) % 4
    settings = {"l2": 0.01, "row_norm": 1e3, "fit_intercept": True}
    weighted = Objective("logistic", x, y, weights=times, weight_bound=3, **settings)
    repeated = Objective(
        "logistic", np.repeat(x, times, axis=0), np.repeat(y, times), n_public=300, **settings
    )
    found = algorithms.nonprivate(weighted, tolerance=1e-10).coef
    np.testing.assert_allclose(found, algorithms.nonprivate(repeated, tolerance=1e-10).coef, atol=1e-7)
    model = LogisticRegression(C=1 / (0.01 * 300), tol=1e-10, max_iter=10_000).fit(x, y, sample_weight=times)
    np.testing.assert_allclose(found, np.append(model.coef_, model.intercept_), atol=1e-6)


@pytest.mark.parametrize("name", ["noisy_gd", "whitened_gd", "dp_agd"])
def test_without_noise_descents_reach_the_weighted_optimum(name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 3)), rng.choice([-1.0, 1.0], 500)
    objective = Objective(
        "logistic", x, y, l2=0.1, row_norm=5.0, weights=rng.random(500), class_weight=CLASSES
    )
    found = PRIVATE[name](objective, math.inf, 1e-6, random_state=0)
    optimum = algorithms.nonprivate(objective)
    assert objective.value(found.coef) < objective.value(optimum.coef) + 0.01


def test_scaling_weights_and_ridge_term_does_not_change_the_fit():
    """Default settings adapt to the scale of the weights."""
    table, y = table_and_targets()
    scaled = (objective_of(table, y, l2=0.01 * c, class_weight={-1: c, 1: 4 * c}) for c in (1.0, 8.0))
    fits = [algorithms.noisy_gd(each, 5.0, 1e-6, random_state=0).coef for each in scaled]
    np.testing.assert_allclose(*fits, rtol=1e-12)


def test_constants_use_the_largest_weight():
    weighted = Objective("hinge", *ones(), weights=[1.0], weight_bound=2.0, class_weight={1: 3.0}).loss
    assert isinstance(weighted, Weighted)
    ramp = weighted.smoothed(12.0).smoothness(1.0)
    assert (weighted.largest, weighted.lipschitz(2.0), weighted.kink_jump, ramp) == (6.0, 12.0, 6.0, 12.0)


# -- refused before the charge --------------------------------------------------------------------------


def ones():
    return np.ones((1, 2)), np.ones(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": [1.0, 2.0]}, "one number for each record"),
        ({"weights": [[1.0]]}, "one real number for each record"),
        ({"weights": ["heavy"]}, "one real number for each record"),
        ({"weights": [1.0], "weight_bound": 0.0}, "weight_bound must be positive"),
        ({"weights": [1.0], "weight_bound": math.nan}, "weight_bound must be positive"),
        ({"class_weight": {2: 1.0}}, "no target of the logistic loss"),
        ({"class_weight": {1: 0.0}}, r"class_weight\[1\] must be positive"),
        ({"class_weight": "balanced"}, "or 'private'"),
        ({"class_weight": [1.0, 2.0]}, "or 'private'"),
    ],
)
def test_bad_weights(given, message):
    with pytest.raises(ValueError, match=message):
        Objective("logistic", *ones(), **given)


def test_class_weights_need_class_labels():
    for class_weight in ({1: 2.0}, "private"):
        with pytest.raises(ValueError, match="class_weight is for classes"):
            Objective("huber", *ones(), class_weight=class_weight)


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.parametrize("weighing", ["weights", "class_weight"])
def test_every_algorithm_accepts_weights_or_refuses_them_before_the_charge(name, weighing):
    ledger = Ledger(0.5, 1e-6)
    if (name, weighing) == ("sufficient_statistics", "class_weight"):
        return  # its targets have no classes
    n = 2000 if name == "noisy_newton" else 60
    own = {"weights": np.ones(n)} if weighing == "weights" else {"class_weight": "private"}
    objective, needs = problem_for(name, **own), PRIVATE[name].needs
    if needs.private_class_weight if weighing == "class_weight" else not needs.unweighted:
        public = small_fit(name, objective, ledger=ledger).privacy.public
        stated = "class_weight" if weighing == "class_weight" else "weight_bound"
        assert {"weight_bound", "class_weight"} & public.keys() == {stated}
        assert objective.weighs_privately == (weighing == "class_weight")  # the caller's is not modified
    else:
        with pytest.raises(ValueError, match=r"weights of records or classes|frequencies of the classes"):
            small_fit(name, objective, ledger=ledger)
        assert ledger.history() == []


def test_passes_without_weights_are_refused():
    objective = Objective("logistic", *ones(), class_weight=CLASSES)
    with pytest.raises(ValueError, match="take no weights"):
        coordinate_loss_sums(objective, [1.0, 1.0], 0.1)


# -- class weights from released frequencies ------------------------------------------------------------


def test_private_class_weights_balance_the_classes():
    """With a large budget they are scikit-learn's "balanced" weights, up to the maximum of 10."""
    y = np.where(np.arange(4000) % 8 == 0, 1.0, -1.0)
    objective = Objective("logistic", np.ones((4000, 1)), y, class_weight="private", **COMMON)
    privacy = algorithms.whitened_gd(objective, 20.0, 1e-6, random_state=0, steps=3).privacy
    weights = privacy.public["class_weight"]
    assert weights == pytest.approx({"1": 4.0, "-1": 4 / 7}, rel=0.05)


def test_frequencies_of_many_classes():
    y = np.repeat([0, 1, 2], [3000, 990, 10])
    objective = Objective("softmax", np.ones((4000, 1)), y, n_classes=3, class_weight="private")
    fit = algorithms.whitened_gd(objective, 10.0, 1e-6, steps=3, random_state=0)
    assert fit.privacy.public["class_weight"] == pytest.approx({"0": 4 / 9, "1": 1.347, "2": 10.0}, rel=0.01)


def test_private_frequencies_need_noise():
    objective = Objective("logistic", *ones(), class_weight="private")
    with pytest.raises(ValueError, match="needs a finite epsilon"):
        algorithms.whitened_gd(objective, math.inf, 1e-6)
    with pytest.raises(ValueError, match="frequencies of the classes"):
        algorithms.nonprivate(objective)


def test_weights_of_records_in_files(tmp_path):
    """Files have no record weights, but class weights."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,1\n3,4,-1\n")
    files = scan_csv(path, label="y", columns=["a", "b"])
    with pytest.raises(DataError, match="weights of records are for rows in memory"):
        Objective("logistic", files, weights=[1.0, 2.0])
    memory = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    pair = (Objective("logistic", *data, class_weight={1: 3.0}) for data in ((files,), memory))
    assert same(*(clipped_gradient_sum(each, [0.1, 0.2], 0.5) for each in pair))
