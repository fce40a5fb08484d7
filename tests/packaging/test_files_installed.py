"""The hand-written lists of the build are complete."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "dperm"
BUILD = (SOURCE / "meson.build").read_text()
ONLY_FOR_THE_BUILD = {".pyx", ".pxd", ".pxi", ".in"}


def test_sources_of_compiled_modules_are_not_installed():
    excluded = re.search(r"exclude_files: \[(.*?)\]", BUILD, flags=re.DOTALL).group(1)
    for path in SOURCE.rglob("*"):
        if path.suffix in ONLY_FOR_THE_BUILD:
            assert f"'{path.relative_to(SOURCE).as_posix()}'" in excluded


def test_every_extension_module_is_built():
    listed = re.search(r"^extensions = (\{.*?\})", BUILD, flags=re.MULTILINE | re.DOTALL).group(1)
    for path in SOURCE.rglob("*.pyx"):
        assert path.parent.name == "_kernels"
        assert f"'{path.stem}': " in listed


def test_every_folder_is_a_package():
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert all((folder / "__init__.py").exists() for folder in folders)
