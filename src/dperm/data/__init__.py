"""Representations of design matrices that the kernels can read."""

from dperm.data.aggregation import aggregate
from dperm.data.files.record_files import RecordFiles, scan_csv, scan_parquet
from dperm.data.tabular import CodeMap, TabularLayout, TabularMatrix

__all__ = [
    "CodeMap",
    "RecordFiles",
    "TabularLayout",
    "TabularMatrix",
    "aggregate",
    "scan_csv",
    "scan_parquet",
]


def __dir__() -> list[str]:
    return sorted(__all__)
