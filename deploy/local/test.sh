#!/usr/bin/env bash
# Check style, types and tests. Needs Python 3.11 or later with pip; the first run installs the rest.
# Tests that start, stop and kill processes run after the others, then those with real servers.
#
#   deploy/local/test.sh                    lint, types, all tests except the slow ones, coverage
#   deploy/local/test.sh --slow             also the slow tests
#   deploy/local/test.sh -k transform -x    other arguments are passed to pytest
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
for stage in "not processes" "processes and not servers" "servers"; do
    code=0
    report=(-n 2 --durations=10)
    # Tests of processes mostly wait. A file of tests with servers starts them once.
    [[ "$stage" == "processes and not servers" ]] && report=(-n 4 --durations=10)
    # -rs prints the reason of each test that was skipped.
    [[ "$stage" == servers ]] && report+=(--dist loadfile -rs)
    # Coverage means something for the whole suite only.
    if [[ ${#arguments[@]} == 0 ]]; then
        report+=(--cov=hofs_dask --cov-append --cov-report=)
        [[ "$stage" == servers ]] && report+=(--cov-report=term:skip-covered)
    fi
    # bash 3 of macOS needs the long form for an empty array.
    "$python" -m pytest -q -m "$slow$stage" "${report[@]}" \
        ${arguments[@]+"${arguments[@]}"} || code=$?
    # pytest exits with 5 if -k leaves no test in a stage.
    if [[ $code != 0 && $code != 5 ]]; then
        status=$code
    fi
done
exit "$status"
