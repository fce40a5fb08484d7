"""Documents are complete and consistent with the code, and name files that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE_FOR_THE_SITE = ROOT / "docs" / "reproduced"
PAGES = [path for path in sorted(ROOT.glob("docs/**/*.md")) if path.parent != MADE_FOR_THE_SITE]
PAGES += sorted(ROOT.glob("*.md"))
FOLDERS = ("src/", "csrc/", "tests/", "bench/", "docs/", "recipe/", ".ci/")


def named_paths(text):
    """Paths in backticks; a part in angle brackets stands for any name."""
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in quoted.split():
            if word.startswith(FOLDERS):
                yield re.sub(r"<[^>]*>", "*", word)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_links_of_a_page_exist(page):
    text = page.read_text()
    missing = [path for path in named_paths(text) if not list(ROOT.glob(path))]
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    missing += [link for link in links if not (page.parent / link).exists()]
    assert not missing, "not there: " + ", ".join(missing)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_of_prose_are_short(page):
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 120 and not line.lstrip().startswith("|")]
    assert not long


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert linked == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_every_algorithm_has_a_page():
    code = (ROOT / "src/dperm/algorithms/__init__.py").read_text()
    functions = {name for name in re.findall(r'"(\w+)"', code.partition("__all__")[2]) if name.islower()}
    assert functions == {path.stem for path in (ROOT / "docs" / "theory").glob("*.md")} - {
        "index",
        "additive",
    }


def test_the_version_is_the_same_everywhere():
    patterns = {
        "src/dperm/__init__.py": r'^__version__ = "(.*)"',
        "CITATION.cff": r"^version: (.*)",
        "CHANGELOG.md": r"^## (\S+)",
        "recipe/recipe.yaml": r'^  version: "(.*)"',
    }
    found = {
        path: re.search(pattern, (ROOT / path).read_text(), flags=re.MULTILINE).group(1)
        for path, pattern in patterns.items()
    }
    assert len(set(found.values())) == 1, found


def test_the_recipe_has_the_requirements_of_the_package():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, extras = settings["project"], settings["project"]["optional-dependencies"]
    wanted = {
        "host": settings["build-system"]["requires"],
        "run": [*project["dependencies"], *extras["cli"], *extras["data"]],
    }
    for part, packages in wanted.items():
        listed = re.search(rf"^  {part}:\n((    .*\n)*)", recipe, flags=re.MULTILINE).group(1)
        found = re.findall(r"^    - (\S+) >=(\S+)$", listed, flags=re.MULTILINE)
        assert sorted(map(">=".join, found)) == sorted(packages)
    assert f'match(python, "<{project["requires-python"].removeprefix(">=")}")' in recipe
    assert f"license: {project['license']}" in recipe
    assert f"summary: {project['description']}" in recipe


def test_named_paths():
    text = "`csrc/loss/x.h` and `python bench/run.py --all`, `src/dperm/<name>.py`, not `x.py`"
    assert list(named_paths(text)) == ["csrc/loss/x.h", "bench/run.py", "src/dperm/*.py"]
