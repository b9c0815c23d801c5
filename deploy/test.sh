#!/usr/bin/env bash
# The test command: everything that must hold, on a machine with Go and git.
#
#   deploy/test.sh             all packages
#   deploy/test.sh ./rewrite   some of them
#
# The race detector is on where a C compiler is there. Tests of the shared cache
# run against a real redis-server, and those of PDF against poppler's pdftotext too;
# both are installed from Debian's packages where they are missing and that is
# possible; in CI nothing that needs them is skipped. What handles requests is tested
# in the debug build too, which finds what outlives them. The run ends with the Go test
# runner's own output.
set -eu
cd "$(dirname "$0")/.."

all=""
if [ "$#" -eq 0 ]; then
  all=yes
  set -- ./...
fi

race=""
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null 2>&1; then
  race="-race"
else
  echo "no C compiler: testing without the race detector" >&2
fi

# install PACKAGE installs one of Debian's packages.
install() {
  command -v apt-get >/dev/null 2>&1 || return 1
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    as_root="sudo -n"
  fi
  # RUNLEVEL=1 keeps the package from starting a server of its own.
  $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive sh -c \
    "apt-get install -y --no-install-recommends $1 ||
      { apt-get update && apt-get install -y --no-install-recommends $1; }" >&2
}

# need COMMAND PACKAGE sees to it that a command is there.
need() {
  if command -v "$1" >/dev/null 2>&1; then return; fi
  echo "$1 is missing: installing $2" >&2
  if ! install "$2" || ! command -v "$1" >/dev/null 2>&1; then
    echo "$1 is missing; install it (apt-get install $2), or the tests that need it are skipped" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
  fi
}

need redis-server redis-server
need pdftotext poppler-utils

go vet "$@"
if [ -n "$all" ]; then
  # Buffers that are given back are overwritten, rewritten requests counted anew.
  go test -short -tags sidenote_debug ./proxy/... ./rewrite
fi
# shellcheck disable=SC2086 # $race is one flag or none
exec go test $race -timeout 14m "$@"
