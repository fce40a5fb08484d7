"""Compute tables and figures of five papers again, next to what they print.

    python bench/papers/run.py all --quick
    python bench/papers/run.py all --quick --numbers docs/reproduced
    python bench/papers/run.py lssgd_table2 zhang2017_table3 --repetitions 20 --jobs 2 --modes paper,tight

Each table becomes a page, NAME.md, and most also a figure, NAME.svg. Every cell is kept in NAME.jsonl as
soon as it is known and not computed again: delete that file after a change of the package. Repetition k has
the same seed in every run. The exit code is 1 if a cell failed.

`--numbers` also writes NAME.json, from which the documentation makes the same pages and figures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers import framework, page
from papers.framework import MODES

RESULTS = Path(__file__).parent / "results"
MODES_HELP = """columns to compute, separated by commas: paper (the published noise, checked), tight (the
same run with noise from the tight accountant), default (the package's own settings); all unless given"""


def parser() -> argparse.ArgumentParser:
    """The command line; its help lists the tables."""
    names = framework.names()
    titles = "\n".join(f"  {name:21} {framework.title(name)}" for name in names)
    arguments = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"tables:\n{titles}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = arguments.add_argument
    add("names", nargs="+", choices=["all", *names], metavar="NAME", help="a table listed below, or all")
    add("--quick", action="store_true", help="fewer repetitions and settings: what the published pages show")
    add("--repetitions", type=int, metavar="N", help="of each cell, in place of the table's own number")
    add("--jobs", type=int, default=1, metavar="N", help="cells computed at a time (default: 1)")
    add("--modes", default=",".join(MODES), help=MODES_HELP)
    add(
        "--results",
        type=Path,
        default=RESULTS,
        metavar="DIR",
        help="where cells are kept (default: results, next to this program)",
    )
    add("--numbers", type=Path, metavar="DIR", help="write the numbers of the published pages there, too")
    return arguments


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if a cell failed."""
    command = parser()
    given = command.parse_args(arguments)
    modes = given.modes.split(",")
    if set(modes) - set(MODES):
        command.error(f"--modes takes some of {', '.join(MODES)}, got {given.modes}")
    failed = 0
    for name in framework.names() if "all" in given.names else given.names:
        table = framework.read(name, quick=given.quick, repetitions=given.repetitions)
        print(f"== {name}", flush=True)
        file = given.results / f"{name}.jsonl"
        records = framework.compute(framework.cells_of(table, modes), file, given.jobs)
        failed += sum("failed" in record for record in records.values())
        for path in page.write(table, records, given.results):
            print(path, flush=True)
        if given.numbers:
            page.write_numbers(table, records, given.numbers / f"{name}.json")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
