#!/usr/bin/env bash
# Build the documentation site in docs/_build/html; a warning is an error. All examples are run.
#
#   deploy/local/docs.sh            build
#   deploy/local/docs.sh --clean    remove what earlier builds made, then build
set -euo pipefail

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

[[ "${1:-}" == --clean ]] && rm -rf docs/_build docs/api
"$python" -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html
echo "docs/_build/html/index.html"
