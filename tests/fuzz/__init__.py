"""A fuzzer: files that are damaged or forged, each used in a child process of its own.

One process compiles everything once and forks a child for each case, with limits of time and
memory, so that crashes, hangs and allocations are outcomes that are counted.
"""

import os

# Before numpy is imported: threads do not outlive a fork.
for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
