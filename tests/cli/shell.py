"""The command line as a function, and as a process."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from hofs_dask.cli import main

# The installed script, or else the module.
SCRIPT = Path(sys.executable).with_name("hofs-dask")
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "hofs_dask"]
#: Seconds that a process may take, most of them for imports and compilation on a busy machine.
LONG = 100


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def run_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG)
