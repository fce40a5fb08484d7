"""Record and replay where the records are kept in other ways than as one dense matrix of doubles."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse

from audit_faults import CONFIGURATIONS, PRIVATE, PUBLISHED, Configuration, skipped_clip
from dperm import Categorical, Numeric, Objective, Schema, algorithms
from dperm.accounting import Ledger
from dperm.audit import replay_check, worst_case_neighbours
from dperm.data import scan_parquet
from dperm.losses import Softmax
from reference.clusters import partitioned
from reference.record_files import in_parquet_files, names_of

N = 50  # records, with the one that comes, goes or is replaced
DELTA = 1e-3
RELATIONS = ["add_or_remove", "replace_one"]

# The longest record that the schema lets through has this category and the highest number.
SCHEMA = Schema([Categorical("kind", ("odd", "usual")), Numeric("amount", -2, 6)])


def dense(dtype):
    return lambda x, y, folder: ((x.astype(dtype), y), {})


def merged(x, y, folder):
    """Repeated records as one row each, in the order in which they first occur."""
    first, counts = np.unique(np.column_stack([x, y]), axis=0, return_index=True, return_counts=True)[1:]
    order = np.argsort(first)
    return (x[first[order]], y[first[order]]), {"counts": counts[order]}


def merged_with_the_others(x, y, folder):
    """The same of records that all have the longest row: it is a count that one record changes."""
    return merged(np.tile([1.0, 0.0, 0.0], (len(x), 1)), y, folder)


def weighted(x, y, folder):
    """The odd record weighs as much as any may, the others less."""
    return (x, y), {"weights": np.where(x[:, 0] > 0.0, 3.0, 0.5), "weight_bound": 3.0}


def in_a_table(x, y, folder):
    """The odd record is as long as the schema lets any be, which the others are not."""
    odd = x[:, 0] > 0.0
    cells = {"kind": np.where(odd, "odd", "usual"), "amount": np.where(odd, 6.0, -2.0)}
    return (SCHEMA.encode(cells, "float64"), y), {"row_norm": SCHEMA.row_norm}


def in_files(x, y, folder):
    """Three Parquet files, the second of them without a record."""
    folder.mkdir()
    pattern = in_parquet_files(folder, x, y, cuts=(20, 20))
    return (scan_parquet(pattern, label="y", columns=names_of(x), chunk_rows=16),), {}


def on_a_cluster(x, y, folder):
    """Three partitions; the last one holds the record."""
    return partitioned(x, y, (20, 1, len(x) - 21)), {}


# What an objective is made of, from rows and targets: its data, and settings that go with them.
REPRESENTATIONS = {
    "float32": dense(np.float32),
    "float64": dense(np.float64),
    "CSR": lambda x, y, folder: ((scipy.sparse.csr_array(x), y), {}),
    "table": in_a_table,
    "counts": merged,
    "one count": merged_with_the_others,
    "weights": weighted,
    "Parquet": in_files,
    "Dask": on_a_cluster,
}


def neighbours(representation, relation, entry, folder):
    """Objectives on data sets that differ in a record which is as long as may be and pulls the most."""
    pair = worst_case_neighbours(n=N, d=3, relation=relation, loss=entry.loss)
    for name, data in zip("ab", pair, strict=True):
        inputs, own = REPRESENTATIONS[representation](data.X, data.y, folder / name)
        row_norm = own.pop("row_norm", lambda fit_intercept: 1.0)(entry.fit_intercept)
        own |= {"row_norm": row_norm, "n_public": N, "n_threads": 1}
        yield Objective(entry.loss, *inputs, fit_intercept=entry.fit_intercept, l2=entry.l2, **own)


@dataclass(frozen=True)
class Case:
    """An algorithm, and how it is run."""

    name: str
    entry: Configuration
    settings: dict = field(default_factory=dict)
    relations: tuple = ("add_or_remove", "replace_one")
    by_record: bool = False  # needs an order of single records
    # How much of its sensitivity the record shows at least.
    shown: float = 0.999

    def fit(self, objective, relation, **given):
        entry = self.entry
        settings = {"neighbors": relation, "random_state": 3, **entry.settings, **entry.replay}
        settings |= self.settings | given
        return getattr(algorithms, self.name)(objective, entry.epsilon, DELTA, **settings)


# Less shows where a ridge term pulls the weights back, where a row weighs less for its length (noisy_newton),
# and where an exchanged label leaves the products of
# the row with itself alone. There is no sum to compare in objective perturbation: what protects is that its
# linear term is secret.
LESS_SHOWN = {
    "noisy_newton": 0.08,
    "sufficient_statistics": 0.8,
    "objective_perturbation": 0.0,
}
# The first slope is half of the largest; without weights more is known of this loss.
SHOWN_WITH_WEIGHTS = {"output_perturbation_gd": 0.499}
BY_RECORD = {"dp_sgd_gradient", "dp_sgd_output", "rrpsgd"}
CASES = {
    name: Case(
        name, CONFIGURATIONS[name], by_record=name in BY_RECORD, shown=LESS_SHOWN.get(name, Case.shown)
    )
    for name in PRIVATE
}
FIXED_SIZE = {"sampling": "without_replacement", "batch_size": 40}
EPOCHS = {"sampling": "permutation", "batch_size": 10}
UNIFORM = {"sampling": "uniform", "counts": "averaged", "passes": 10, "step_size": 0.05}
DECREASING = {"clip": 0.01, "mechanism": "gaussian", "step_sizes": "decreasing", "passes": 3}


def of_classes(name):
    return Case(name, replace(CONFIGURATIONS[name], loss=Softmax(2)))


def with_learned_scales(name, **settings):
    """How long the record is relative to the learned bound depends on the noise."""
    entry = replace(CONFIGURATIONS[name], settings=settings | {"learn_scales": True})
    return Case(name, entry, shown=0.3)


def as_published(name):
    return Case(name, PUBLISHED[name], relations=("add_or_remove",))


CASES |= {
    "dp_sgd, batches of fixed size": Case(
        "dp_sgd", CONFIGURATIONS["dp_sgd"], FIXED_SIZE, ("replace_one",), by_record=True
    ),
    "dp_sgd, epochs": Case("dp_sgd", CONFIGURATIONS["dp_sgd"], EPOCHS, by_record=True),
    "dp_lssgd, epochs": Case("dp_lssgd", CONFIGURATIONS["dp_lssgd"], EPOCHS, by_record=True),
    "dp_sgd_output, uniform": Case(
        "dp_sgd_output", CONFIGURATIONS["dp_sgd_output"], UNIFORM, by_record=True, shown=0.3
    ),
    "dp_sgd_output, decreasing": Case(
        "dp_sgd_output",
        replace(CONFIGURATIONS["dp_sgd_output"], settings=DECREASING, l2=0.5),
        by_record=True,
    ),
    "noisy_gd, classes": of_classes("noisy_gd"),
    "dp_agd, classes": of_classes("dp_agd"),
    "dp_sgd, classes": of_classes("dp_sgd"),
    "majority, classes": of_classes("majority"),
    "noisy_gd, scales": with_learned_scales("noisy_gd", steps=3),
    "dp_sgd, scales": with_learned_scales("dp_sgd", steps=3, batch_size=40),
    "sufficient_statistics, published": as_published("sufficient_statistics"),
}
WITH_RELATIONS = [(case, relation) for case, own in CASES.items() for relation in own.relations]


def takes(case, representation):
    """Whether the algorithm does not refuse the representation: see below, and test_weights.py."""
    if representation == "weights":
        return not getattr(algorithms, CASES[case].name).needs.unweighted
    return representation != "Dask" or not CASES[case].by_record


@pytest.fixture
def made(request, tmp_path):
    """A function that makes neighbours, with two workers where there is to be a cluster."""

    def make(representation, relation, entry):
        if representation == "Dask":
            request.getfixturevalue("client")
        return neighbours(representation, relation, entry, tmp_path)

    return make


@pytest.mark.parametrize(
    ("representation", "case", "relation"),
    [
        pytest.param(representation, case, relation, marks=[pytest.mark.slow] * (relation != RELATIONS[0]))
        for representation in REPRESENTATIONS
        for case, relation in WITH_RELATIONS
        if takes(case, representation)
    ],
)
def test_replay_passes_in_every_representation(made, representation, case, relation):
    case = CASES[case]
    first, second = made(representation, relation, case.entry)
    report = replay_check(lambda objective: case.fit(objective, relation), first, second)
    assert report.ok, report
    assert report.accesses >= 1
    at_least = SHOWN_WITH_WEIGHTS.get(case.name) if representation == "weights" else None
    assert (at_least or case.shown) <= report.largest_share <= 1.0


@pytest.mark.parametrize(
    ("case", "relation"), [(case, relation) for case, relation in WITH_RELATIONS if CASES[case].by_record]
)
def test_partitions_are_refused_before_a_charge_by_what_orders_records(made, case, relation):
    case, ledger = CASES[case], Ledger(10.0, 0.5)
    for objective in made("Dask", relation, case.entry):
        with pytest.raises(ValueError, match=r"partitions|sampling='poisson'"):
            case.fit(objective, relation, ledger=ledger)
    assert not ledger.history()
    assert ledger.spent == 0.0


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
def test_a_skipped_clip_shows_in_every_representation(made, representation, relation):
    case = CASES["noisy_gd"]
    first, second = made(representation, relation, case.entry)
    with skipped_clip():
        report = replay_check(lambda objective: case.fit(objective, relation), first, second)
    assert not report.ok
    assert report.largest_share > 10.0


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_odd_record_of_the_table_is_as_long_as_any(fit_intercept):
    table = SCHEMA.encode({"kind": ["odd"], "amount": [6.0]}, "float64").to_dense()
    assert np.sqrt(np.sum(table**2) + fit_intercept) == pytest.approx(
        SCHEMA.row_norm(fit_intercept), rel=1e-9
    )
