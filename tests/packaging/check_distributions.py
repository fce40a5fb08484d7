"""Check the contents of sdist and wheel; a script without pytest: ``check_distributions.py FOLDER``."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = re.compile(r"\.(c|h|pyx|pxd|pxi|in)$|/(csrc|tests|bench)/|meson\.build$")


def only(folder, pattern):
    (path,) = sorted(folder.glob(pattern))
    return path


def check(condition, message):
    if not condition:
        sys.exit(f"check_distributions: {message}")


def check_sdist(path):
    """The sdist can be built and tested: it contains every file that this needs."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("csrc", "src/dperm", "tests", "bench", "recipe"):
        here = {file for file in (ROOT / folder).rglob("*") if file.is_file()}
        here = {file.relative_to(ROOT).as_posix() for file in here if "__pycache__" not in file.parts}
        check(here, f"nothing in {folder}")
        check(here <= names, f"the sdist lacks {sorted(here - names)}")
    pages = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"}
    files = {"LICENSE", "pyproject.toml", "meson.build", "PKG-INFO", *pages}
    check(files <= names, f"the sdist lacks {sorted(files - names)}")


def check_wheel(path):
    """The wheel contains the package with its data and licence, and no build-time sources."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    package = ROOT / "src" / "dperm"
    kinds = (".py", ".pyi", ".toml", ".json", ".typed")
    wanted = [file for file in package.rglob("*") if file.suffix in kinds]
    wanted = {file.relative_to(package.parent).as_posix() for file in wanted}
    check(wanted <= names, f"the wheel lacks {sorted(wanted - names)}")
    for module in package.rglob("*.pyx"):
        start = f"dperm/_kernels/{module.stem}."
        check(any(n.startswith(start) and n.endswith((".so", ".pyd")) for n in names), f"no {start}so")
    check(any(n.endswith(".dist-info/licenses/LICENSE") for n in names), "the wheel has no licence")
    check(not [n for n in names if SOURCES.search(n)], f"sources in the wheel: {sorted(names)}")
    tops = {name.partition("/")[0] for name in names}
    check(all(top.startswith("dperm") for top in tops), f"the wheel installs {sorted(tops)}")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    package = (ROOT / "src" / "dperm" / "__init__.py").read_text()
    version = re.search(r'^__version__ = "(.*)"', package, flags=re.MULTILINE).group(1)
    check_sdist(only(folder, f"dperm-{version}.tar.gz"))
    check_wheel(only(folder, f"dperm-{version}-*.whl"))
    print("distributions: all files are there")
