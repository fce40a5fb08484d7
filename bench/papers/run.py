"""Tables and figures of the papers, computed again.

    python bench/papers/run.py all --quick
    python bench/papers/run.py lssgd_table2 zhang2017_table3 --repetitions 20 --jobs 2 --modes paper,tight
    python bench/papers/run.py all --quick --pages docs/reproduced

Writes ``results/NAME.md`` and ``NAME.svg`` next to this file, or to the folder of pages that is given. Every
cell is kept in ``results/NAME.jsonl`` as soon as it is known, and not computed again; delete the file after a
change of the package. Repetitions have seeds of their own, the same in every run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers import framework, page
from papers.framework import MODES

RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Return 1 if a cell failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=["all", *framework.names()], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller settings")
    parser.add_argument("--repetitions", type=int, help="instead of the table's own")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--modes", default=",".join(MODES), help="of " + ", ".join(MODES))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pages", type=Path, help="folder of pages and figures")
    given = parser.parse_args(arguments)
    modes = given.modes.split(",")
    if set(modes) - set(MODES):
        parser.error(f"--modes takes some of {', '.join(MODES)}, got {given.modes}")
    failed = 0
    for name in framework.names() if "all" in given.names else given.names:
        table = framework.read(name, quick=given.quick, repetitions=given.repetitions)
        print(f"== {name}", flush=True)
        file = given.results / f"{name}.jsonl"
        records = framework.compute(framework.cells_of(table, modes), file, given.jobs)
        failed += sum("failed" in record for record in records.values())
        for path in page.write(table, records, given.pages or given.results):
            print(path, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
