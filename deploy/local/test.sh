#!/usr/bin/env bash
# Checks style, types and tests. Needs Python 3.11 or later with pip; the first run installs the rest.
#
#   deploy/local/test.sh                    lint, types, all tests but the slow ones
#   deploy/local/test.sh --slow             the slow ones too
#   deploy/local/test.sh -k transform -x    anything else goes to pytest
set -euo pipefail

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

marked=()
arguments=()
for argument in "$@"; do
    if [[ "$argument" == --slow ]]; then
        marked=(-m "slow or not slow")
    else
        arguments+=("$argument")
    fi
done

"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
# The long form of an empty array is for bash 3, which macOS has.
exec "$python" -m pytest -q -n 2 ${marked[@]+"${marked[@]}"} ${arguments[@]+"${arguments[@]}"}
