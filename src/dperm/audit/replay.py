"""Record the releases of a run, replay them on a neighbouring data set, and compare every access."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.neighbours import Neighbours
from dperm.accounting.units import Units
from dperm.algorithms.fit import FitResult
from dperm.mechanisms.batches import watch_batches
from dperm.mechanisms.hooks import watch_releases
from dperm.mechanisms.records import PerturbedMinimum
from dperm.mechanisms.release import Releaser
from dperm.mechanisms.without_privacy import release_without_privacy
from dperm.private_values.bounded import Bounded
from dperm.private_values.open_counts import OpenCounts
from dperm.private_values.secret_rows import SecretRows


@dataclass(frozen=True, eq=False)
class Access:
    """One release of a private sum.

    Attributes
    ----------
    method : str
        Name of the method of the releaser.
    shape, scores, grid, add_or_remove, replace_one
        Attributes of the :class:`dperm.Bounded`.
    arguments : tuple
        Public arguments of the method, as strings.
    relation : Neighbours
        Neighbouring relation of the guarantee.
    cost_units, budget_units : int or math.inf
        Its cost and the whole budget, in units of 2^-60 of the accountant's quantity.
    exact : ndarray, or dict for open counts
        The exact sum. NOT private.
    released : Any
        What the algorithm received.
    """

    method: str
    shape: tuple[int, ...]
    scores: bool
    grid: float
    add_or_remove: float
    replace_one: float
    arguments: tuple[str, ...]
    relation: Neighbours
    cost_units: Units
    budget_units: Units
    exact: NDArray[np.float64] | dict[Any, int]
    released: Any


# Everything but the values must agree between two runs of the same releases.
_PUBLIC = [field.name for field in fields(Access) if field.name not in ("exact", "released")]


@dataclass(frozen=True)
class ReplayReport:
    """Outcome of :func:`replay_check`.

    Attributes
    ----------
    accesses : int
        Releases of the recorded run.
    largest_share : float
        Largest change of a sum between the data sets, relative to its sensitivity.
    problems : tuple of str
        What went wrong, in order; empty when the check passed.

    Examples
    --------
    >>> ReplayReport(accesses=10, largest_share=0.4, problems=("the second run made one release less",)).ok
    False
    """

    accesses: int
    largest_share: float
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    def __str__(self) -> str:
        head = (
            f"replay check: {'passed' if self.ok else 'FAILED'}; {self.accesses} accesses, "
            f"largest change {self.largest_share:.3g} of the stated sensitivity"
        )
        return "\n  ".join([head, *self.problems])


def replay_check(run: Callable[[Any], Any], objective: Any, neighbour: Any) -> ReplayReport:
    """Check that a mechanism depends on the data through its releases only, within their sensitivity.

    The run on ``objective`` is recorded. It is then repeated on ``neighbour``, where each release is charged
    as usual but returns the recorded value. Since the released values, and so everything computed from them,
    are then the same, both runs must make the same releases in the same order, with the same grids, bounds
    and charges, and return the same result; and each exact sum may differ by at most its stated sensitivity.
    Secret batches are recorded and repeated, too: the sensitivity must hold for each of them.

    Parameters
    ----------
    run : callable
        ``run(objective) -> FitResult``, with a fixed seed and settings; or any other function that releases
        something, such as `dperm.Schema.learn`, and returns an object with ``privacy`` and ``==``.
    objective, neighbour : Objective
        Objectives of neighbouring data sets with the same public settings; or whatever `run` takes.

    Returns
    -------
    ReplayReport
        ``report.ok`` and, if it failed, ``report.problems``. The check does not test whether the noise is as
        large as the charge requires: :func:`dperm.audit.epsilon_lower_bound` does.

    Notes
    -----
    For developers: both data sets are known, nothing is private here. ``random_state=None`` inside ``run``
    works as well, since only the recorded values matter.

    Examples
    --------
    >>> from dperm.algorithms import noisy_gd
    >>> from dperm.audit import worst_case_neighbours
    >>> pair = worst_case_neighbours(n=100, d=2)
    >>> report = replay_check(
    ...     lambda objective: noisy_gd(objective, 1.0, 1e-5, steps=5, random_state=0),
    ...     pair.first.objective,
    ...     pair.second.objective,
    ... )
    >>> report.ok, report.problems
    (True, ())
    """
    recorder = _Recorder()
    with watch_releases(recorder.watch), watch_batches(recorder.watch_batch):
        first = run(objective)
    replayer = _Replayer(recorder.accesses, recorder.batches)
    second = None
    with watch_releases(replayer.watch), watch_batches(replayer.watch_batch):
        try:
            second = run(neighbour)
        except _DivergedError:
            pass
        except Exception as error:  # failing must not depend on one record either
            replayer.problems.append(f"control flow: the run on the neighbour raised {error!r}")
        else:
            replayer.check_length()
    if second is not None:
        replayer.problems += _different_results(first, second)
    return ReplayReport(len(recorder.accesses), replayer.largest_share, tuple(replayer.problems))


class _Recorder:
    """Makes and records every release."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self.batches: list[SecretRows] = []

    def watch_batch(self, rows: SecretRows) -> SecretRows:
        self.batches.append(rows)
        return rows

    def watch(
        self, releaser: Releaser, method: Callable[..., Any], private: Bounded, *args: Any, **kwargs: Any
    ) -> Any:
        access = _access(releaser, method, private, *args, **kwargs)
        self.accesses.append(access)
        return access.released


class _DivergedError(Exception):
    """The replayed run made other accesses than the recorded one."""


class _Replayer:
    """Makes and charges the releases of a second run, but returns the values of the first."""

    def __init__(self, recorded: list[Access], batches: list[SecretRows]) -> None:
        self.recorded = recorded
        self.batches = iter(batches)
        self.problems: list[str] = []
        self.largest_share = 0.0
        self.count = 0

    def watch(
        self, releaser: Releaser, method: Callable[..., Any], private: Bounded, *args: Any, **kwargs: Any
    ) -> Any:
        if self.count == len(self.recorded):
            self.problems.append(f"control flow: more accesses than the {self.count} recorded")
            raise _DivergedError
        expected = self.recorded[self.count]
        self.count += 1
        self._compare(expected, _access(releaser, method, private, *args, **kwargs))
        return expected.released

    def watch_batch(self, rows: SecretRows) -> SecretRows:
        """The batch of the first run, so that records in both data sets are in both sums or in neither."""
        recorded = next(self.batches, None)
        if recorded is None or recorded.rate != rows.rate:
            self.problems.append("control flow: other batches than those recorded")
            raise _DivergedError
        return recorded

    def check_length(self) -> None:
        """Report a second run that stopped early."""
        if self.count < len(self.recorded):
            self.problems.append(f"control flow: {self.count} accesses instead of {len(self.recorded)}")

    def _compare(self, expected: Access, found: Access) -> None:
        for name in _PUBLIC:
            before, after = getattr(expected, name), getattr(found, name)
            if before != after:
                self.problems.append(f"access {self.count}: {name} is {after} instead of {before}")
        if found.method != expected.method or found.shape != expected.shape:
            raise _DivergedError
        share = _share_of_sensitivity(expected, found)
        self.largest_share = max(self.largest_share, share)
        if not share <= 1.0:
            self.problems.append(
                f"access {self.count}: the {expected.method} sum changes by {share:.6g} times its sensitivity"
            )


def _access(
    releaser: Releaser, method: Callable[..., Any], private: Any, *args: Any, **kwargs: Any
) -> Access:
    before = releaser.budget.spent_units
    released = method(releaser, private, *args, **kwargs)
    spent = releaser.budget.spent_units
    # A perturbed minimum is not a sum: it has no exact value before the linear term is drawn.
    bounded = _zeros_like(private) if isinstance(private, PerturbedMinimum) else private
    return Access(
        method=method.__name__,
        arguments=tuple(repr(np.asarray(value).tolist()) for value in (*args, *kwargs.values())),
        grid=bounded.grid,
        add_or_remove=bounded.add_or_remove,
        replace_one=bounded.replace_one,
        shape=bounded.shape,
        scores=bounded.scores,
        relation=releaser.neighbors,
        cost_units=spent if spent == math.inf else spent - before,
        budget_units=releaser.budget.total_units,
        exact=_exact(bounded),
        released=released,
    )


def _exact(private: Bounded | OpenCounts) -> NDArray[np.float64] | dict[Any, int]:
    if isinstance(private, OpenCounts):
        return private._every_count()
    return release_without_privacy(private).view(np.ndarray)


def _zeros_like(private: PerturbedMinimum) -> Bounded:
    """Zeros with its shape and stated sensitivity, which can be compared."""
    zeros = np.zeros(private.shape, dtype=np.int64)
    return Bounded(zeros, grid=1.0, add_or_remove=private.sensitivity)


def _share_of_sensitivity(one: Access, other: Access) -> float:
    """Change of the sum relative to its sensitivity."""
    # Integers times a power of two, below 2^53: the difference is exact.
    before, after = one.exact, other.exact
    if isinstance(before, dict) or isinstance(after, dict):
        before, after = dict(before), dict(after)
        keys = before.keys() | after.keys()
        change = np.array([after.get(key, 0) - before.get(key, 0) for key in keys], np.float64)
    else:
        change = (after - before).ravel()
    replaced = one.relation is Neighbours.REPLACE_ONE
    if not one.scores:
        return float(np.linalg.norm(change)) / (one.replace_one if replaced else one.add_or_remove)
    # Scores: entries move by at most the contribution, with one sign when a record is added or removed.
    spread = float(np.ptp(change)) / one.relation.score_range_factor
    opposite = 0.0 if replaced or not (change.min() < 0.0 < change.max()) else math.inf
    return max(float(np.abs(change).max()), spread, opposite) / one.add_or_remove


def _different_results(first: Any, second: Any) -> list[str]:
    """Differences between the results of the two runs, which should be equal."""
    found = []
    if not isinstance(first, FitResult):
        same = first == second and str(first.privacy) == str(second.privacy)
        return [] if same else ["result: it depends on the data other than through the releases"]
    if not np.array_equal(first.coef, second.coef, equal_nan=True):
        found.append("result: coef depends on the data other than through the releases")
    if first.n_iter != second.n_iter:
        found.append(f"result: n_iter is {second.n_iter} instead of {first.n_iter}")
    if repr(first.history) != repr(second.history):
        found.append("result: history depends on the data other than through the releases")
    if str(first.privacy) != str(second.privacy):
        found.append("result: the privacy statement depends on the data")
    return found
