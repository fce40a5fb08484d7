"""Encoded data sets, kept so that the published files are parsed once.

An entry is found by the SHA-256 of the published files, by everything that the encoding depends on, and by
the version of the package: whatever changes, the files are parsed again. Nothing is written to the folder
that holds them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from dperm._kernels.build_record import BUILD_RECORD
from dperm.data.tabular import TabularMatrix
from dperm.datasets.description import Description
from dperm.datasets.tables import Encoded

logger = logging.getLogger(__name__)

CACHE_VARIABLE = "DPERM_CACHE"

_FORMAT = 1  # one more whenever what is written, or the encoding of a description, changes
_ARRAYS = ("numeric", "codes", "y", "positions", "step")
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def cache_folder() -> Path | None:
    """Where entries are: the folder named by ``DPERM_CACHE``, None where that is empty.

    Without that variable the place for such files on this system.
    """
    named = os.environ.get(CACHE_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    return user_cache_path("dperm", appauthor=False)


def entry_path(folder: Path, description: Description, numeric_dtype: str) -> Path:
    """File of a data set as it would be encoded now."""
    # The checksums of the published files are in the description.
    key = repr((_FORMAT, BUILD_RECORD["version"], np.dtype(np.intp).str, sys.byteorder, description))
    digest = hashlib.sha256(key.encode()).hexdigest()
    return folder / f"{description.name}-{numeric_dtype}-{digest[:32]}.npz"


def read_entry(path: Path, description: Description, numeric_dtype: str) -> Encoded | None:
    """The entry, or None where there is none, or it is damaged (a checksum of every array is kept)."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            numeric, codes, y, positions, step = (arrays[name] for name in _ARRAYS)
        layout = dataclasses.replace(description.schema.layout, step=float(step))
        matrix = TabularMatrix(numeric, codes, layout)
        if len(y) != matrix.shape[0] or numeric.dtype != numeric_dtype or positions.dtype != np.intp:
            raise ValueError("it holds other arrays than were written")
    except _DAMAGED as error:
        logger.warning("%s is damaged (%s) and will be made again", path, error)
        return None
    return matrix, y, positions if positions.size else None


def write_entry(path: Path, encoded: Encoded) -> None:
    """Keep an entry, whole or not at all, in the place of those that are out of date.

    Where nothing can be written, nothing is kept: the data set is parsed again the next time.
    """
    matrix, y, positions = encoded
    places = np.empty(0, np.intp) if positions is None else positions
    step = np.float64(matrix.layout.step)
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            unfinished = Path(file.name)
            np.savez(file, numeric=matrix.numeric, codes=matrix.codes, y=y, positions=places, step=step)
        unfinished.replace(path)
        name, dtype, _ = path.stem.rsplit("-", 2)
        for other in path.parent.glob(f"{name}-{dtype}-*.npz"):
            if other != path:
                other.unlink(missing_ok=True)
    except OSError as error:
        logger.info("%s was not kept: %s", path, error)
        if unfinished is not None:
            unfinished.unlink(missing_ok=True)
