#!/usr/bin/env bash
# Commands that cluster.sh runs on each host; on remote hosts it passes this file to bash over ssh.
#
#   host.sh address DIR NAME PYTHON PEER         print the address of this host on its route to PEER
#   host.sh start DIR NAME PYTHON ARGUMENT ...   run `PYTHON -m dask ARGUMENT ...` in the background
#   host.sh running DIR NAME                     succeed if that process runs
#   host.sh end DIR NAME                         terminate it, and kill it after ten seconds
#   host.sh log DIR NAME                         print the last lines of its log
#
# DIR/NAME.pid contains the process id and the start time of the process, so that another process
# that gets the same id later is not confused with it.
set -euo pipefail

started_at() {
    # On Linux this number is exact and does not need `ps`, which small images lack.
    if [[ -r "/proc/$1/stat" ]]; then
        sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
    else
        ps -o lstart= -p "$1" 2>/dev/null || true
    fi
}

state_of() {
    if [[ -r "/proc/$1/stat" ]]; then
        sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 1
    else
        ps -o stat= -p "$1" 2>/dev/null || true
    fi
}

running() {
    local pid since state
    [[ -f "$dir/$name.pid" ]] || return 1
    { read -r pid && read -r since; } <"$dir/$name.pid" || return 1
    state="$(state_of "$pid")"
    # A process that has ended but was not waited for is a zombie.
    [[ -n "$state" && "$state" != Z* && "$(started_at "$pid")" == "$since" ]]
}

# Nothing is sent: connecting a datagram socket only looks up the route.
address() {
    "$1" -c 'import socket, sys
family, kind, *_, peer = socket.getaddrinfo(sys.argv[1], 9, type=socket.SOCK_DGRAM)[0]
with socket.socket(family, kind) as probe:
    probe.connect(peer)
    print(probe.getsockname()[0])' "$2"
}

start() {
    local python="$1" pid
    shift
    if running; then
        echo "$name already runs on $(hostname): stop it first" >&2
        return 1
    fi
    if ! "$python" -c 'import sys; from importlib.util import find_spec as f
sys.exit(not (f("distributed") and f("hofs_dask")))'; then
        echo "$python on $(hostname) has no hofs_dask: install it, or give --python" >&2
        return 1
    fi
    (umask 077 && mkdir -p "$dir")
    cd "$dir"
    # numpy and malloc read these when they start, so a worker cannot set them later.
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    # With Dask's default of 64 KiB every array of 128 KiB is mapped again and reading is twice as slow.
    export MALLOC_TRIM_THRESHOLD_=33554432 MALLOC_MMAP_THRESHOLD_=33554432
    nohup "$python" -m dask "$@" >"$dir/$name.log" 2>&1 </dev/null &
    pid=$!
    printf '%s\n%s\n' "$pid" "$(started_at "$pid")" >"$dir/$name.pid"
}

end() {
    local pid
    if running; then
        read -r pid <"$dir/$name.pid"
        kill -TERM "$pid" 2>/dev/null || true
        for _ in {1..100}; do
            running || break
            sleep 0.1
        done
        if running; then
            kill -KILL "$pid" 2>/dev/null || true
        fi
    fi
    rm -f "$dir/$name.pid"
}

command="$1" dir="$2" name="$3"
shift 3
case "$command" in
    address) address "$@" ;;
    start) start "$@" ;;
    running) running ;;
    end) end ;;
    log) tail -n 20 "$dir/$name.log" 2>/dev/null || true ;;
    *)
        echo "unknown command $command" >&2
        exit 2
        ;;
esac
