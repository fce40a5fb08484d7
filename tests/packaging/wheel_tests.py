"""What cibuildwheel installs next to a wheel, and the tests that it runs, from pyproject.toml.

    python wheel_tests.py requires
    python wheel_tests.py run [options of pytest]

In the folder that holds pyproject.toml and the tests.
"""

import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["cibuildwheel"]
if sys.argv[1] == "requires":
    print("\n".join(settings["test-requires"]))
else:
    _python, *command = shlex.split(settings["test-command"].format(project=Path.cwd()))
    sys.exit(subprocess.run([sys.executable, *command, *sys.argv[2:]], check=False).returncode)
