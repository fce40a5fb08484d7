"""The published data sets, if their files are available."""

import pytest

from dperm import datasets
from dperm.datasets import files
from dperm.datasets.description import read_description


def load_or_skip(name, **settings):
    """The data set; skips the test if DPERM_DATA does not hold its files."""
    folder = files.data_folder()
    for file in read_description(name).files:
        if folder is None:
            pytest.skip(f"{files.FOLDER_VARIABLE} is not set: the files of {name} are not here")
        if not ((folder / file.path).exists() or (folder / file.path).with_suffix("").exists()):
            pytest.skip(f"{folder / file.path} is not here")
    return datasets.load(name, **settings)
