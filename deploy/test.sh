#!/usr/bin/env bash
# The test command: everything that must hold, on a machine with Go and git.
#
#   deploy/test.sh             all packages
#   deploy/test.sh ./rewrite   some of them
#
# The race detector is on where a C compiler is there. The run ends with the Go
# test runner's own output.
set -eu
cd "$(dirname "$0")/.."

if [ "$#" -eq 0 ]; then set -- ./...; fi

race=""
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null 2>&1; then
  race="-race"
else
  echo "no C compiler: testing without the race detector" >&2
fi

go vet "$@"
# shellcheck disable=SC2086 # $race is one flag or none
exec go test $race -timeout 14m "$@"
