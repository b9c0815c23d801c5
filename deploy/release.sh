#!/usr/bin/env bash
# Builds a release into a new folder, on Linux with GNU tools: programs for Linux, macOS and Windows on amd64 and
# arm64, packages (deb, rpm, apk), man pages, completions, an SBOM (SPDX) of each program, and SHA256SUMS.
#
#   deploy/release.sh DIR            builds it
#   deploy/release.sh --verify DIR   builds it twice, in different folders, and compares; installs and runs what it
#                                    can: the arm64 program under qemu, the unit by systemd-analyze
#
# VERSION and COMMIT are stamped into the programs; by default those of the repository. Equal commits give equal
# files with the same Go release. TARGETS narrows the platforms: TARGETS="linux/amd64 linux/arm64".
set -eu
cd "$(dirname "$0")/.."

nfpm_module=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2

fail() {
  echo "release.sh: $*" >&2
  exit 1
}

verify=""
if [ "${1:-}" = --verify ]; then
  verify=yes
  shift
fi
[ "$#" -eq 1 ] || fail "want one folder to write to; see the head of this file"
out=$1
[ ! -e "$out" ] || fail "$out exists; name a new folder"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT # what Go caches is read-only

commit=${COMMIT:-$(git rev-parse HEAD)}
SOURCE_DATE_EPOCH=$(git show -s --format=%ct "$commit")
version=${VERSION:-$(git describe --tags --match 'v[0-9]*' "$commit" 2>/dev/null ||
  echo "v0.0.0-0.$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=12 "$commit")")}
if [ -n "$(git status --porcelain)" ]; then version="$version+dirty"; fi
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)

export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOFLAGS=-mod=readonly GOWORK=off LC_ALL=C TZ=UTC
umask 022

# build PLATFORM FILE builds a program for a platform from the sources in the current folder.
build() {
  GOOS=${1%/*} GOARCH=${1#*/} go build -trimpath -buildvcs=false -o "$2" -ldflags="-s -w \
    -X sidenote/cmd/sidenote/internal/server.stampedVersion=$version \
    -X sidenote/cmd/sidenote/internal/server.stampedCommit=$commit" ./cmd/sidenote
}

# archive FOLDER FILE packs a folder; the archive depends on nothing but names and contents.
archive() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$(dirname "$1")" -cf - "$(basename "$1")" |
    gzip -9n >"$2"
}

# guides FOLDER writes man pages, completions and texts, by a program of the host.
guides() {
  mkdir -p "$1/completions"
  "$work/host" man "$1/man"
  for shell in bash zsh fish; do "$work/host" completion "$shell" >"$1/completions/sidenote.$shell"; done
  cp LICENSE README.md deploy/CHANGELOG.md deploy/sidenote.example.yaml deploy/sidenote.schema.json "$1"
}

# packages PROGRAM ARCH TO writes the packages of a program for Linux.
packages() {
  local stage=$work/package
  rm -rf "$stage"
  cp -R "$work/guides" "$stage"
  gzip -9n "$stage"/man/*.1
  cp "$1" "$stage/sidenote"
  cp deploy/package/* "$stage"
  find "$stage" -exec touch -d "@$SOURCE_DATE_EPOCH" {} + # an apk has the times of scripts
  for format in deb rpm apk; do
    (cd "$stage" && ARCH=$2 VERSION=${version#v} nfpm package --config nfpm.yaml --packager "$format" --target "$3" >/dev/null)
  done
}

nfpm() {
  if type -P nfpm >/dev/null; then command nfpm "$@"; else go run "$nfpm_module" "$@"; fi
}

# release TO builds everything from the sources in the current folder.
release() {
  rm -rf "$work/guides"
  build "$host" "$work/host"
  guides "$work/guides"
  for target in $targets; do
    local name=sidenote-$version-${target%/*}-${target#*/} program=sidenote
    if [ "${target%/*}" = windows ]; then program=sidenote.exe; fi
    echo "$name" >&2
    rm -rf "${work:?}/$name"
    cp -R "$work/guides" "$work/$name"
    build "$target" "$work/$name/$program"
    GOOS="" GOARCH="" go run ./cmd/sidenote-sbom "$work/$name/$program" "$version" >"$1/$name.spdx.json"
    archive "$work/$name" "$1/$name.tar.gz"
    if [ "${target%/*}" = linux ]; then packages "$work/$name/$program" "${target#*/}" "$1"; fi
  done
  (cd "$1" && sha256sum -- *) >"$work/sums"
  mv "$work/sums" "$1/SHA256SUMS"
}

# again builds the release from a copy of the sources elsewhere, the host's program without Go's cache, and compares.
again() {
  mkdir -p "$work/copy" "$work/second"
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/copy"
  (
    cd "$work/copy"
    release "$work/second"
    GOCACHE=$work/cache build "$host" "$work/host-anew"
  )
  cmp "$work/host" "$work/host-anew" || fail "a build without a cache differs"
  diff "$out/SHA256SUMS" "$work/second/SHA256SUMS" || fail "two builds differ"
}

# runs COMMAND... checks that a program says its version, and that its demo finds sources.
runs() {
  "$@" --version | grep -F "sidenote $version" >&2 || fail "$* does not say its version"
  "$@" demo >/dev/null || fail "$* demo fails"
}

# check_packages unpacks the package of the host and checks the program and the unit in it.
check_packages() {
  command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing"
  dpkg-deb -x "$out"/sidenote_*_"$(go env GOHOSTARCH)".deb "$work/root"
  runs "$work/root/usr/bin/sidenote"
  "$work/root/usr/bin/sidenote" check --offline --config "$work/root/etc/sidenote/sidenote.yaml" >/dev/null || fail "the packaged configuration is wrong"
  if command -v systemd-analyze >/dev/null; then
    systemd-analyze security --offline=true --threshold=20 "$work/root/usr/lib/systemd/system/sidenote.service" |
      tail -1 >&2 || fail "the unit is not hardened"
  else
    echo "systemd-analyze is missing: the unit is not checked" >&2
  fi
}

release "$out"
if [ -n "$verify" ]; then
  again
  runs "$work/host"
  check_packages
  case " $targets " in *" linux/arm64 "*)
    qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || fail "qemu is missing (Debian's package qemu-user-static)"
    runs "$qemu" "$work/sidenote-$version-linux-arm64/sidenote"
    ;;
  esac
fi
echo "$out has sidenote $version"
