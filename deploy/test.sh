#!/usr/bin/env bash
# The test command: everything that must hold, on a machine with Go and git.
#
#   deploy/test.sh               all packages
#   deploy/test.sh ./rewrite     some of them
#   deploy/test.sh --no-install  installs nothing; packages may follow
#
# It runs once, with the race detector where a C compiler is there, and in the debug build,
# which finds what the race detector cannot: it overwrites buffers that are given back, so that
# a later use shows, and counts rewritten requests anew. Both make the tests several times as
# slow, so tests that count cases run some of them here (-short); deploy/long.sh runs them all.
#
# Tests of the shared cache run against a real redis-server, those of the inspector's pages
# in a real Chromium, those of knowledge bases elsewhere against a real Postgres, OpenSearch
# and Elasticsearch, those of rules and alerts in a real Prometheus, and those of the chart with
# Helm. Where one is missing this script says so and why it is needed, then installs Debian's
# package, if apt-get is there and it may without asking: as root, or by a sudo that wants no
# password. Otherwise, and with --no-install, those tests are skipped; in CI the run fails
# instead. It ends with the Go test runner's own output.
set -eu
cd "$(dirname "$0")/.."

may_install=yes
if [ "${1:-}" = --no-install ]; then
  may_install=""
  shift
fi

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

# need COMMAND PACKAGE WHY sees to it that a command is there.
need() {
  if command -v "$1" >/dev/null 2>&1; then return; fi
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then as_root="sudo -n"; fi
  if [ -z "$may_install" ]; then
    echo "$1 is missing ($3); --no-install: not installing it" >&2
  elif ! command -v apt-get >/dev/null 2>&1 || ! $as_root true 2>/dev/null; then
    echo "$1 is missing ($3); it cannot be installed here without asking" >&2
  else
    echo "$1 is missing ($3): installing Debian's package $2; --no-install prevents that" >&2
    # RUNLEVEL=1 keeps the package from starting a server of its own.
    $as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive sh -c \
      "apt-get install -y --no-install-recommends $2 ||
        { apt-get update && apt-get install -y --no-install-recommends $2; }" </dev/null >&2 || true
  fi
  if ! command -v "$1" >/dev/null 2>&1; then
    echo "without $1 the tests that need it are skipped; it is in Debian's package $2" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
  fi
}

need redis-server redis-server "for tests of the cache that replicas share"
need chromium chromium "for tests of the inspector's pages"

need zsh zsh "for tests of completions"
need fish fish "for tests of completions"
need git git "for tests of knowledge from git repositories"
need promtool prometheus "for tests of rules and alerts"
need pgbouncer pgbouncer "for tests of Postgres behind a pooler"

# The engines that hold bases for many processes are downloaded and run from a cache folder: nothing is
# installed on the system. They need Python 3 with pip, and a JDK 17 with Maven.
for engine in postgres opensearch elasticsearch; do
  if [ -z "$may_install" ]; then
    echo "--no-install: tests of $engine are skipped unless deploy/engines.sh has downloaded it before" >&2
  elif ! deploy/engines.sh "$engine" fetch; then
    echo "without it the tests of bases in $engine are skipped" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
  fi
done

# Helm and a validator are built once, from the Go module proxy.
for tool in helm kubeconform schemas; do
  if [ -z "$may_install" ]; then
    echo "--no-install: tests of the chart are skipped unless deploy/tools.sh has made $tool before" >&2
  elif ! deploy/tools.sh "$tool" >/dev/null; then
    echo "without $tool the tests of the chart are skipped" >&2
    if [ -n "${CI:-}" ]; then exit 1; fi
  fi
done

# Processes of tests end at once, not a second after their last word.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"

# Nobody debugs what is built here or by a test: it takes less time without what debuggers read.
export GOFLAGS="-ldflags=-s -gcflags=all=-dwarf=false ${GOFLAGS:-}"

if [ -n "$all" ]; then
  # With the race detector a sync.Pool drops values, and the debug build allocates on its own.
  go test -vet=off -run 'DoesNotAllocate|AllocatesLittle|AllocatesNothing' ./rewrite/tokens ./proxy/record ./cmd/sidenote/internal/server
  # It crashes now and then on the thousand goroutines of these, in virtual time.
  go test -vet=off -short -run Fleet ./retrieval/engine
  # These simulate thousands of experiments, which takes minutes with the race detector.
  go test -vet=off -run 'FalseAlarms|FivePoints' ./proxy/experiment
  # The program compiles for other systems.
  for target in windows/amd64 darwin/arm64; do
    CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} go build -o /dev/null ./cmd/sidenote
  done
fi

# Many tests wait for processes, timeouts and services, so more packages and tests run at once than
# there are processors.
set -- -timeout 30m -p "$(($(getconf _NPROCESSORS_ONLN) + 1))" -parallel 8 "$@"

# What only computes is built without the race detector, as it is most of what such a run takes:
# SQLite, the compiler of PDFs' sandbox, stemmers, tables. It must share no memory by sync.Map and
# its like: the linker keeps one copy of a generic function for all packages, and a copy without the
# detector hides from it what orders two goroutines. (go tool nm shows which packages have one of
# HashTrieMap: wazevo and wazevoapi do.)
without_race=""
if [ -n "$race" ]; then without_race="-race=false"; fi
wazevo=github.com/tetratelabs/wazero/internal/engine/wazevo
for packages in github.com/blevesearch/... github.com/dlclark/... $wazevo/backend/... $wazevo/frontend/... $wazevo/ssa/... \
  golang.org/x/text/... modernc.org/libc/... modernc.org/sqlite/lib; do
  set -- -gcflags="$packages=-dwarf=false -d=checkptr=0 $without_race" "$@"
done

# The official SDK, the largest package by far, is compiled without optimization: that saves two
# minutes of processor time.
exec go test -tags sidenote_debug $race -short -vet=all -gcflags='github.com/openai/...=-dwarf=false -N -l' \
  -gcflags='modernc.org/...=-dwarf=false -d=checkptr=0' -gcflags='github.com/tetratelabs/...=-dwarf=false -d=checkptr=0' "$@"
