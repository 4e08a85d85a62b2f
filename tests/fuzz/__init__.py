"""A fuzzer: damaged or forged files, each used in a separate child process.

One process compiles everything once and forks a child for each case, with limits of time and
memory, so that crashes, hangs and allocations become outcomes of a case.
"""

import os

# Set before numpy is imported, because threads do not survive a fork.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
