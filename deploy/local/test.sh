#!/usr/bin/env bash
# Checks style, types and tests. Needs Python 3.11 or later with pip; the first run installs the rest.
# Tests that start, stop and kill real processes are a stage of their own, after the others.
#
#   deploy/local/test.sh                    lint, types, all tests but the slow ones, coverage
#   deploy/local/test.sh --slow             the slow ones too
#   deploy/local/test.sh -k transform -x    anything else goes to pytest
set -euo pipefail

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
    sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit
fi
source "$(dirname "${BASH_SOURCE[0]}")/venv.sh"

slow="not slow and "
arguments=()
for argument in "$@"; do
    if [[ "$argument" == --slow ]]; then
        slow=""
    else
        arguments+=("$argument")
    fi
done

"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
status=0
rm -f .coverage
for stage in "not processes" "processes"; do
    code=0
    report=(--durations=10)
    # Of all tests only: what a few of them cover says nothing.
    if [[ ${#arguments[@]} == 0 ]]; then
        report+=(--cov=hofs_dask --cov-append --cov-report=)
        [[ "$stage" == processes ]] && report+=(--cov-report=term:skip-covered)
    fi
    # The long form of an empty array is for bash 3, which macOS has.
    "$python" -m pytest -q -n 2 -m "$slow$stage" "${report[@]}" \
        ${arguments[@]+"${arguments[@]}"} || code=$?
    # 5 is pytest's word for no test at all, which -k may leave of one of the stages.
    if [[ $code != 0 && $code != 5 ]]; then
        status=$code
    fi
done
exit "$status"
