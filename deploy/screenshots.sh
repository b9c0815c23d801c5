#!/usr/bin/env bash
# Makes the pictures of README.md anew, after the pages have changed: of the demo's pages in
# Chromium, light and dark. What they show has the ids and times of the day.
#
#   deploy/screenshots.sh          into deploy/pictures
#   deploy/screenshots.sh FOLDER   into another folder, to look at them first
#
# Go and Chromium are needed (Debian: apt-get install chromium); it installs nothing.
set -eu
cd "$(dirname "$0")/.."

case ${1-} in
  -*) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
folder=${1:-deploy/pictures}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

say() { echo "screenshots.sh: $*" >&2; }

missing=""
command -v go >/dev/null || { say "go is missing"; missing=yes; }
for browser in chromium chromium-browser google-chrome; do
  command -v "$browser" >/dev/null && break
done || true
command -v "$browser" >/dev/null || { say "chromium is missing: apt-get install chromium"; missing=yes; }
[ -z "$missing" ] || exit 1

SIDENOTE_PICTURES=$folder go test -tags pictures -count=1 -run '^TestMakePictures$' ./cmd/sidenote
ls -l "$folder"/*.png
