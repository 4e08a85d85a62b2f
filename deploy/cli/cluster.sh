#!/usr/bin/env bash
# Start, show or stop a Dask cluster: a scheduler on this machine, workers on the given hosts.
#
#   cluster.sh start [HOST ...]    HOST is localhost (the default) or a host name for ssh
#   cluster.sh status
#   cluster.sh stop
#
#   --run DIR               directory of process ids and logs (default: ./hofs-cluster)
#   --hosts FILE            more hosts, one per line; empty lines and # comments are skipped
#   --workers-per-host N    worker processes per host, with one thread each (default: 2)
#   --memory-limit SIZE     limit per worker process, such as 4GiB (default: its share of the host)
#   --address ADDRESS       address of this machine for the hosts (default: 127.0.0.1)
#   --port PORT             port of the scheduler, 0 for any (default: 8786)
#   --dashboard-port PORT   port of the dashboard on 127.0.0.1, 0 for any (default: 8787)
#   --python PATH           Python on all hosts (default: .venv of the repository, or python3)
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

fail() {
    echo "cluster.sh: $1" >&2
    exit "${2:-1}"
}

is_local() { [[ "$1" == localhost || "$1" == 127.0.0.1 ]]; }

# Run host.sh on a host: on_host HOST COMMAND NAME [ARGUMENT ...]
on_host() {
    local host="$1" command="$2" name="$3"
    shift 3
    if is_local "$host"; then
        "$BASH" "$here/host.sh" "$command" "$run" "$name" "$@"
    else
        # ssh passes one line to the remote shell, so each word is quoted.
        ssh -o BatchMode=yes "$host" \
            "$(printf '%q ' bash -s -- "$command" "$run" "$name" "$@")" <"$here/host.sh"
    fi
}

worker_of() { echo "worker-${1//[^[:alnum:].-]/_}"; }

read_hosts() {
    local host
    hosts=()
    if [[ -e "$run/$marker" && -f "$run/hosts" ]]; then
        while read -r host; do hosts+=("$host"); done <"$run/hosts"
    fi
}

address_of() {
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' \
        "$run/scheduler.json"
}

# Wait for the scheduler, or print why it did not start.
await_scheduler() {
    for _ in {1..300}; do
        if [[ -s "$run/scheduler.json" ]] && address_of >/dev/null 2>&1; then
            return
        fi
        if ! on_host localhost running scheduler; then
            break
        fi
        sleep 0.2
    done
    on_host localhost log scheduler >&2
    echo "cluster.sh: the scheduler did not start: see $run/scheduler.log" >&2
    return 1
}

await_workers() {
    "$python" - "$(address_of)" "$1" <<'PY'
import sys
from distributed import Client

address, wanted = sys.argv[1], int(sys.argv[2])
with Client(address, timeout=20, set_as_default=False) as client:
    try:
        client.wait_for_workers(wanted, timeout=60)
    except TimeoutError:
        sys.exit(f"cluster.sh: {len(client.nthreads())} of {wanted} workers started within 60 s")
PY
}

start_all() {
    local host own
    rm -f "$run/scheduler.json"
    printf '%s\n' "${hosts[@]}" >"$run/hosts"
    on_host localhost start scheduler "$python" scheduler --host "$address" --port "$port" \
        --dashboard-address "127.0.0.1:$dashboard_port" --scheduler-file "$run/scheduler.json" ||
        return
    await_scheduler || return
    for host in "${hosts[@]}"; do
        # By default a worker and its web page would listen on every interface of its host;
        # --no-dashboard removes only part of the page.
        own="$(on_host "$host" address - "$python" "$address")" || return
        on_host "$host" start "$(worker_of "$host")" "$python" worker "$(address_of)" \
            --host "$own" --dashboard-address 127.0.0.1:0 --no-dashboard --name "$host" \
            --nworkers "$workers" --nthreads 1 --memory-limit "$memory_limit" \
            --local-directory "$run/scratch" --death-timeout 60 \
            --preload hofs_dask.preload || return
    done
    if ! await_workers $((workers * ${#hosts[@]})); then
        for host in "${hosts[@]}"; do
            echo "log of $host:" >&2
            on_host "$host" log "$(worker_of "$host")" >&2
        done
        return 1
    fi
}

start() {
    local host
    read_hosts
    if [[ ${#hosts[@]} -gt 0 ]]; then
        fail "$run has a cluster already: stop it first, or give another --run"
    fi
    # Files in this directory are deleted, so it must not contain files of the user.
    if [[ ! -e "$run/$marker" && -d "$run" && -n "$(ls -A "$run")" ]]; then
        fail "$run contains other files: give a new or an empty directory as --run" 2
    fi
    hosts=("${given[@]}")
    for host in "${hosts[@]}"; do
        if ! is_local "$host" && [[ "$address" == 127.0.0.1 ]]; then
            fail "$host cannot reach 127.0.0.1: give --address, the address of this machine" 2
        fi
    done
    (umask 077 && mkdir -p "$run")  # logs name hosts, paths and tasks
    touch "$run/$marker"
    if ! start_all; then
        stop
        exit 1
    fi
    echo "scheduler  $(address_of)"
    echo "workers    $workers on each of: ${hosts[*]}"
    echo "logs       $run"
    echo "run        hofs-dask select STORE --n-features T --scheduler $(address_of)"
}

stop() {
    local host
    read_hosts
    [[ ${#hosts[@]} -gt 0 ]] || fail "no cluster in $run" 3
    for host in "${hosts[@]}"; do
        on_host "$host" end "$(worker_of "$host")" || echo "cannot stop workers on $host" >&2
    done
    on_host localhost end scheduler
    rm -rf "$run/hosts" "$run/scheduler.json" "$run/scratch"
}

status() {
    local host state down=0
    read_hosts
    [[ ${#hosts[@]} -gt 0 ]] || fail "no cluster in $run" 3
    state=running
    on_host localhost running scheduler || { state="not running" down=3; }
    echo "scheduler  $state"
    for host in "${hosts[@]}"; do
        state=running
        on_host "$host" running "$(worker_of "$host")" || { state="not running" down=3; }
        echo "workers    $state on $host"
    done
    return "$down"
}

given=()
marker=.hofs-cluster
run=hofs-cluster workers=2 memory_limit=auto address=127.0.0.1 port=8786 dashboard_port=8787
python="$(cd "$here/../.." && pwd)/.venv/bin/python"
[[ -x "$python" ]] || python="$(command -v python3 || true)"
command="${1:-}"
case "$command" in
    start | status | stop) shift ;;
    -h | --help)
        usage
        exit
        ;;
    *)
        usage >&2
        exit 2
        ;;
esac
while [[ $# -gt 0 ]]; do
    option="$1"
    shift
    case "$option" in
        -h | --help)
            usage
            exit
            ;;
        -*) [[ $# -gt 0 && -n "$1" ]] || fail "$option needs a value: see --help" 2 ;;
        *)
            [[ "$command" == start ]] || fail "$command takes no hosts: see --help" 2
            given+=("$option")
            continue
            ;;
    esac
    case "$option" in
        --run) run="$1" ;;
        --hosts)
            [[ -r "$1" ]] || fail "cannot read $1" 2
            while read -r host _ || [[ -n "$host" ]]; do
                [[ -z "$host" || "$host" == \#* ]] || given+=("$host")
            done <"$1"
            ;;
        --workers-per-host) workers="$1" ;;
        --memory-limit) memory_limit="$1" ;;
        --address) address="$1" ;;
        --port) port="$1" ;;
        --dashboard-port) dashboard_port="$1" ;;
        --python) python="$1" ;;
        *) fail "unknown option $option: see --help" 2 ;;
    esac
    shift
done
[[ "$workers" =~ ^[1-9][0-9]*$ ]] || fail "--workers-per-host is $workers: give 1 or more" 2
[[ ${#given[@]} -gt 0 ]] || given=(localhost)
[[ "$run" == /* ]] || run="$PWD/$run"
"$command"
