"""The command line, which needs the extra ``cli``."""

import sys


def main() -> None:
    """Run the command ``dperm``."""
    try:
        from dperm.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'dperm[cli]'")
    app()
