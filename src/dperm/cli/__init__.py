"""The command line, which needs the extra ``cli``."""

import os
import sys


def main() -> None:
    """Run the command ``dperm``."""
    try:
        for number in range(3):  # else the first file that is opened would be taken for a closed output
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        from dperm.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'dperm[cli]'")
    except KeyboardInterrupt:
        sys.stderr.write("dperm: interrupted; nothing was charged.\n")
        sys.exit(130)
    app()
