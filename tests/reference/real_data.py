"""The stored data sets, where their files are here."""

import os
from pathlib import Path

import pytest

from dperm import datasets


def load_or_skip(name):
    """The data set, or a skipped test where DPERM_DATA does not hold it."""
    if not (Path(os.environ.get("DPERM_DATA", "")) / name).is_dir() or "DPERM_DATA" not in os.environ:
        pytest.skip(f"DPERM_DATA does not name a folder with {name}/")
    return datasets.load(name)
