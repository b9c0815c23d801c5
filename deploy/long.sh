#!/usr/bin/env bash
# Runs all cases of the tests, of which deploy/test.sh runs some, and the long forms that
# SIDENOTE_LONG=1 chooses.
#
#   deploy/long.sh             all packages
#   deploy/long.sh ./rewrite   some of them
#
# It runs without the race detector, which deploy/test.sh has. For all packages it also builds a
# release twice, and runs its arm64 program under qemu (Debian's package qemu-user-static).
set -eu
cd "$(dirname "$0")/.."
if [ "$#" -eq 0 ]; then
  set -- ./...
  release=$(mktemp -d)
  deploy/release.sh --verify "$release/new"
  rm -rf "$release"
fi
export SIDENOTE_LONG=1
exec go test -tags sidenote_debug -timeout 6h "$@"
