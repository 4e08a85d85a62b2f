#!/usr/bin/env bash
# Selects features on a local Dask cluster, from a Zarr store of 100 000 samples that it writes.
# Needs Python 3.11 or later with pip; the first run installs the rest.
#
#   deploy/local/demo.sh             writes to ./hofs-demo
#   deploy/local/demo.sh --help      all options
set -euo pipefail

from="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"
# Run where the user is, so that a relative --output means what it says.
cd "$from"
exec "$python" -m hofs_dask demo "$@"
