#!/usr/bin/env bash
# For people, before a push: format, lint, tidy, other systems, a short fuzz of
# every target, mutation testing, known vulnerabilities. deploy/test.sh is the test
# command.
#
# Mutation testing takes half an hour: MUTATE="cache proxy" narrows it to packages of
# the list in deploy/mutate.sh, MUTATE=none leaves it out.
set -eu
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$1"; }
tool() { # tool MODULE@VERSION NAME: a tool from PATH, or run from its module
  if command -v "$2" >/dev/null 2>&1; then shift; "$@"; else m=$1; shift 2; go run "$m" "$@"; fi
}

step format
unformatted=$(gofmt -l proxy rewrite retrieval cache cmd)
if [ -n "$unformatted" ]; then echo "gofmt -w these: $unformatted"; exit 1; fi

step tidy
go mod tidy -diff
go mod verify

step vet
go vet ./...
for os in darwin windows; do
  echo "GOOS=$os"
  GOOS=$os go vet ./...
done

step lint
tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 golangci-lint run --config deploy/golangci.yml ./...

step "fuzz, ${FUZZTIME:-10s} a target"
go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir pkg; do
  grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | cut -c6- | while read -r target; do
    echo "$pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" "$pkg" </dev/null
  done
done

step "mutation testing, ${MUTATE:-all packages}"
if [ "${MUTATE:-}" != none ]; then
  # shellcheck disable=SC2086 # packages are words
  deploy/mutate.sh ${MUTATE:-}
fi

step vulnerabilities
tool golang.org/x/vuln/cmd/govulncheck@latest govulncheck ./... || {
  status=$?
  [ "$status" -eq 3 ] && exit 1 # found some
  echo "govulncheck could not run here (its database needs the network)"
}
