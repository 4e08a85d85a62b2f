#!/usr/bin/env bash
# Make the certificates of a cluster: a certificate authority and one certificate for all its parties.
#
#   certificates.sh DIR            DIR is new or empty; only you can open it
#   certificates.sh DIR --days N   valid for N days (default: 365)
#
# DIR/ca.pem, cert.pem, key.pem   what scheduler, workers and client need
# DIR/dask.yaml                   Dask configuration with these paths: export DASK_CONFIG=DIR/dask.yaml
set -euo pipefail

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

fail() {
    echo "certificates.sh: $1" >&2
    exit 2
}

days=365 dir=""
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help)
            usage
            exit
            ;;
        --days)
            [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || fail "--days needs a number of days, such as 365"
            days="$2"
            shift
            ;;
        -*) fail "unknown option $1: see --help" ;;
        *)
            [[ -z "$dir" ]] || fail "two directories were given, $dir and $1: give one"
            dir="$1"
            ;;
    esac
    shift
done
[[ -n "$dir" ]] || fail "give a directory: see --help"
command -v openssl >/dev/null || fail "openssl was not found: install it"
if [[ -e "$dir" && ( ! -d "$dir" || -n "$(ls -A "$dir")" ) ]]; then
    fail "$dir exists and is not an empty directory: give a new one"
fi

umask 077
mkdir -p "$dir"
chmod 700 "$dir"
cd "$dir"
curve=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${curve[@]}" -keyout ca-key.pem -out ca.pem -days "$days" \
    -subj "/CN=hofs-dask cluster authority" 2>/dev/null
openssl req "${curve[@]}" -keyout key.pem -out request.pem -subj "/CN=hofs-dask cluster" 2>/dev/null
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem \
    -days "$days" 2>/dev/null
# Nobody can make another certificate for this cluster, not even somebody who reads this directory.
rm -f request.pem ca-key.pem ca.srl .srl
cat >dask.yaml <<YAML
distributed:
  comm:
    default-scheme: tls
    require-encryption: true
    tls:
      ca-file: $PWD/ca.pem
      client: {cert: $PWD/cert.pem, key: $PWD/key.pem}
      scheduler: {cert: $PWD/cert.pem, key: $PWD/key.pem}
      worker: {cert: $PWD/cert.pem, key: $PWD/key.pem}
YAML
echo "certificates  $PWD, valid for $days days"
echo "use           export DASK_CONFIG=$PWD/dask.yaml"
