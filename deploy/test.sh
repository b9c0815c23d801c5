#!/usr/bin/env bash
# The test command: everything that must hold, on a machine with Go and git.
#
#   deploy/test.sh             all packages
#   deploy/test.sh ./rewrite   some of them
#
# The race detector is on where a C compiler is there. Tests of the shared cache
# run against a real redis-server, which is installed from Debian's packages where
# it is missing and that is possible; in CI nothing that needs it is skipped. The
# run ends with the Go test runner's own output.
set -eu
cd "$(dirname "$0")/.."

if [ "$#" -eq 0 ]; then set -- ./...; fi

race=""
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null 2>&1; then
  race="-race"
else
  echo "no C compiler: testing without the race detector" >&2
fi

install_redis() {
  command -v apt-get >/dev/null 2>&1 || return 1
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as_root="sudo -n"
  fi
  # RUNLEVEL=1 keeps the package from starting a server of its own.
  $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get install -y --no-install-recommends redis-server ||
      { apt-get update && apt-get install -y --no-install-recommends redis-server; }' >&2
}

if ! command -v redis-server >/dev/null 2>&1; then
  echo "redis-server is missing: installing it" >&2
  if ! install_redis || ! command -v redis-server >/dev/null 2>&1; then
    echo "redis-server is missing; install it (apt-get install redis-server), or the tests that need it are skipped" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
  fi
fi

go vet "$@"
# shellcheck disable=SC2086 # $race is one flag or none
exec go test $race -timeout 14m "$@"
