"""The programs that reproduce tables of papers, ``bench/papers``, and the numbers of the published pages."""

from pathlib import Path

import pytest

from dperm.datasets import files
from papers import framework, page

NO_DATA_NEEDED = ("lssgd_noise", "lssgd_tables3_4", "wang2022_noise", "claims")
#: Computed by the functions of lee2018_figure2 and lssgd_table2, whose rows are computed again.
BY_ANOTHER_PAGE = ("lee2018_figure1", "lee2018_figure3", "lee2018_figure4", "lssgd_figure3")
NUMBERS = Path(__file__).parents[1] / "docs" / "reproduced"


@pytest.mark.parametrize("name", framework.published(NUMBERS))
def test_published_numbers_are_those_of_this_version(name):
    """One row of each page is computed again. If it differs, ``run.py NAME --quick --numbers`` is due."""
    table = framework.read(name, quick=True)
    records = page.read_numbers(table, NUMBERS / f"{name}.json")
    if files.data_folder() is None and name not in NO_DATA_NEEDED:
        pytest.skip(f"{files.FOLDER_VARIABLE} is not set")
    assert len(page.text(table, records)) > 500
    for mode in () if name in BY_ANOTHER_PAGE else table.modes:
        cell = framework.Cell(table, mode, table.rows[0].settings | table.check)
        found, kept = cell.run(), records[cell.key]
        assert found.get("refused") == kept.get("refused")
        assert framework.number(found) == pytest.approx(framework.number(kept), rel=1e-5, nan_ok=True)


def test_closed_forms_of_smoothing_and_the_printed_noise():
    for name in ("lssgd_tables3_4", "lssgd_noise"):
        table = framework.read(name)
        records = page.read_numbers(table, NUMBERS / f"{name}.json")
        assert set(page.verdicts(table, records)) == {"yes"}
