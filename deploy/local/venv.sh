# Sourced by demo.sh, test.sh and docs.sh: makes or reuses .venv in the repository, and sets `root` and
# `python`. PYTHON chooses the interpreter to make it with; anything from 3.11 on will do.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python="$root/.venv/bin/python"

# One thread per library and process: Dask and pytest already use every core.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

_interpreter() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    echo "Python 3.11 or later was not found: install it, or set PYTHON to its path" >&2
    return 1
}

_make_venv() {
    local base stamp
    base="$(_interpreter)" || return
    # The path is part of the stamp, as a virtual environment cannot be moved.
    stamp="$("$base" - "$root" <<'PY'
import hashlib, pathlib, sys

root = pathlib.Path(sys.argv[1])
text = (root / "pyproject.toml").read_bytes() + (root / "deploy/local/venv.sh").read_bytes()
print(hashlib.sha256(text + f"{root}{sys.version}".encode()).hexdigest())
PY
)" || return
    if [[ -x "$python" && "$(cat "$root/.venv/stamp" 2>/dev/null)" == "$stamp" ]]; then
        return
    fi
    echo "Installing into $root/.venv (once, until pyproject.toml changes) ..." >&2
    rm -rf "$root/.venv"
    # Some systems split ensurepip off; their own pip then installs into the new environment.
    if "$base" -c 'import ensurepip' 2>/dev/null; then
        "$base" -m venv "$root/.venv" || return
        "$python" -m pip install -qq --editable "$root[dev]" || return
    else
        "$base" -m venv --without-pip "$root/.venv" || return
        "$base" -m pip --python "$python" install -qq --editable "$root[dev]" || return
    fi
    # The first selection then starts in a second; without a cache it compiles what it needs.
    "$python" -m hofs_dask compile >&2 || echo "going on without compiled kernels" >&2
    echo "$stamp" >"$root/.venv/stamp"
}

_make_venv || exit 1
cd "$root" || exit 1
