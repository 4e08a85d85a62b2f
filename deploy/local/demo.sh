#!/usr/bin/env bash
# Write 100 000 samples to a Zarr store and select features on a local Dask cluster.
# Needs Python 3.11 or later with pip; the first run installs the rest.
#
#   deploy/local/demo.sh             writes to ./hofs-demo
#   deploy/local/demo.sh --help      all options
set -euo pipefail

from="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"
# Run in the user's directory, so that --output is relative to it.
cd "$from"
exec "$python" -m hofs_dask demo "$@"
