"""Data sets obtained through scikit-learn, which downloads them into its cache and verifies checksums."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.description import Description, FetchRecipe
from dperm.datasets.files import FOLDER_VARIABLE
from dperm.datasets.progress import waiting
from dperm.datasets.records import Records, array_records

logger = logging.getLogger(__name__)


def fetch(description: Description) -> Records:
    """Return the records from scikit-learn, with the published values of every column.

    Raises FileNotFoundError if scikit-learn cannot obtain the data; the message names the other way to
    provide them.
    """
    # Importing scikit-learn takes longer than reading most data sets.
    from sklearn import datasets

    recipe = description.fetch
    if recipe is None:
        raise FileNotFoundError(
            f"scikit-learn does not have the data set {description.name!r}. {_from_files(description)}"
        )
    if recipe.function == "load_breast_cancer":
        bunch = datasets.load_breast_cancer()
        return array_records(description, bunch.data, bunch.target_names[bunch.target])
    logger.info("obtaining %s through scikit-learn, which may download it", description.name)
    try:
        with waiting(f"{description.name}: through scikit-learn, which downloads what it does not have"):
            if recipe.function == "fetch_kddcup99":
                bunch = datasets.fetch_kddcup99(percent10=recipe.percent10)
                return array_records(description, bunch.data, bunch.target)
            # This parser does not need pandas and returns numbers: codes of categories, NaN where missing.
            bunch = datasets.fetch_openml(data_id=recipe.data_id, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise FileNotFoundError(
            f"scikit-learn could not obtain the data set {description.name!r} ({error}). "
            f"{_from_files(description)}"
        ) from error
    return array_records(
        description, _with_categories(recipe, bunch), _published_labels(recipe, bunch.target)
    )


def _from_files(description: Description) -> str:
    paths = ", ".join(file.path for file in description.files)
    return f"Set {FOLDER_VARIABLE} to a folder that holds {paths} (from {description.source})."


def _with_categories(recipe: FetchRecipe, bunch: Any) -> NDArray[Any]:
    """Rows with the names of categories instead of their codes."""
    if not bunch.categories:
        return np.asarray(bunch.data)
    rows = bunch.data.astype(object)
    for j, name in enumerate(bunch.feature_names):
        if name in bunch.categories:
            names = np.array([*bunch.categories[name], recipe.missing], dtype=object)
            codes = np.where(np.isnan(bunch.data[:, j]), len(names) - 1, bunch.data[:, j])
            rows[:, j] = names[codes.astype(np.intp)]
    return np.asarray(rows)


def _published_labels(recipe: FetchRecipe, labels: NDArray[Any]) -> NDArray[Any]:
    published = recipe.label_values or {}
    # Grades may be floats such as 6.0.
    texts = [label if isinstance(label, str) else f"{label:g}" for label in labels]
    return np.array([published.get(text, text) for text in texts], dtype=object)
