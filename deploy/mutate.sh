#!/usr/bin/env bash
# Mutation testing of the code that decides: a small change to it must fail a test of
# its own package. Nine in ten changes have to, or this fails; those that nobody can
# notice stand in deploy/mutants.md. gremlins does not try what it takes for uncovered:
# constants, and conditions of a switch.
#
#   deploy/mutate.sh                 all packages of the list below
#   deploy/mutate.sh cache rewrite   some of them
#
# Some 900 changes take 25 to 40 minutes on two quiet cores, 2 to 10 minutes a package:
# each is compiled and tested by itself.
set -eu
cd "$(dirname "$0")/.."

# Of each package: its files; the tests to run; those to leave out, which are slow and
# decide nothing here.
rooms() {
  cat <<'EOF'
proxy/tenant; options.go caller.go; Credential|HeaderOptions|MergeTakes|LowerOfTwo|Directory; ^$
proxy/route;  route.go; .; ^$
retrieval;    select.go answer.go; .; ^$
retrieval; excluded.go; .; ^$
retrieval/filter; filter.go parse.go value.go; .; ^$
rewrite; options.go; .; ^$
rewrite;      plan.go sources.go; .; RewriteHolds|AssembliesCounted|StoredCounts|Remembers|Linear|CostsAre
rewrite; template.go policy.go; .; ^$
rewrite/chat; request.go; .; Inside|LongQuestion|ParserKeeps
rewrite/tags; ended.go fold.go neutralise.go reference.go render.go skip.go tags.go; .; ^$
cache;        key.go codec.go tiers.go; Key|CodecStore|Value|Zero; Concurrent|Lies|OfAnything
EOF
}

least=90 # percent

# A mutant of a constant can make the compiler take all the memory there is.
ulimit -v $((8 << 20)) # KiB

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
gremlins=$(command -v gremlins) || {
  GOBIN=$tmp go install github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
  gremlins=$tmp/gremlins
}

# excluded DIR FILE... prints gremlins' options that leave all other files out.
excluded() (
  cd "$1"
  shift
  find . -name '*.go' ! -name '*_test.go' | sed 's|^\./||' | while read -r file; do
    case " $* " in *" $file "*) ;; *) printf -- '-E\n(^|/)%s$\n' "$file" ;; esac
  done
)

# mutate DIR TESTS SKIPPED FILE... says what became of the mutants of some files.
mutate() {
  dir=$1 tests=$2 skipped=$3
  shift 3
  run=$(cat "$dir"/*_test.go | sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' | grep -v '^TestMain$' |
    grep -E "$tests" | grep -vE "$skipped" | paste -sd'|')
  mapfile -t options < <(excluded "$dir" "$@")
  # gremlins has no option for the tests to run. A mutant may take some times as long as those of
  # this package and of all below it took together; where they take less than compiling does, more.
  case $dir in proxy/route | proxy/tenant | retrieval/filter | rewrite/chat) patience=30 ;; *) patience=6 ;; esac
  GOFLAGS="-short '-run=^($run)\$'" "$gremlins" unleash --workers 1 --test-cpu 1 --timeout-coefficient $patience \
    --invert-logical --invert-loopctrl -S l "${options[@]}" "./$dir" >"$tmp/out" 2>&1 || { cat "$tmp/out"; return 1; }
  awk -v room="$dir" -v least="$least" '
    / LIVED / {
      at = $NF; kind = $0; sub(/^ */, "", kind); sub(/ at .*/, "", kind)
      split(at, p, ":"); file = p[1]; n = split(file, parts, "/")
      path = room "/" parts[n]; line = ""; i = 0
      while (i < p[2] && (getline line < path) > 0) i++
      close(path); sub(/^[ \t]*/, "", line)
      printf "  %s:%s:%s %s: %s\n", path, p[2], p[3], kind, line
      next
    }
    /^Killed:/    { gsub(/,/, ""); killed = $2; lived = $4; untried = $7 }
    /^Timed out:/ { gsub(/,/, ""); endless = $3 }
    END {
      all = killed + endless + lived
      if (all == 0) { printf "%s: no mutants\n", room; exit 1 }
      percent = 100 * (killed + endless) / all
      printf "%s: %d killed (%d by the time they took), %d lived, %d not tried: %.1f %%\n", room, killed + endless, endless, lived, untried, percent
      exit (percent < least)
    }' "$tmp/out"
}

known=" $(rooms | cut -d';' -f1 | paste -sd' ') "
for asked in "$@"; do
  case "$known" in
  *" $asked "*) ;;
  *) echo "no package $asked in the list:$known" >&2 && exit 2 ;;
  esac
done

failed=""
while IFS=';' read -r dir files tests skipped; do
  case " ${*:-$dir} " in *" $dir "*) ;; *) continue ;; esac
  # shellcheck disable=SC2086 # the files are words
  mutate "$dir" "${tests# }" "${skipped# }" $files </dev/null || failed="$failed $dir"
done < <(rooms)
if [ -n "$failed" ]; then
  echo "under $least %, or broken:$failed" >&2
  exit 1
fi
