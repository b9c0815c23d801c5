#!/usr/bin/env bash
# How well real manuals answer: questions, follow-ups and off-topic messages over the
# documentation of six programs, as Debian packages it. It measures and decides nothing,
# and is no part of the tests.
#
#   deploy/manuals.sh                     all of it
#   deploy/manuals.sh --no-download       with the manuals that are there
#   SIDENOTE=./sidenote deploy/manuals.sh with this binary; else it builds one
#   MANUALS=DIR                           where manuals, indexes and answers are kept
#                                         ($XDG_CACHE_HOME/sidenote-manuals)
#   ENGINE=postgres://user@host/db deploy/manuals.sh
#                                         with bases in that engine, or in an OpenSearch at http(s)
#
# The packages are some 30 MB to download and 170 MB unpacked. They are unpacked below
# MANUALS and not installed, so the system stays as it is and nobody need be root.
#
# manuals.jsonl has the questions: "want" is a pattern of the paths that answer, "base" the
# manual, and "turns" are a conversation whose last turn is asked. Each question is asked
# three times: of six bases, one for each manual; of one base of all; and of the right base.
# right@1 is the share whose first source is in a file that answers, right@6 that of those
# with one among the first six; "off target" is the share of sources in other files, "other
# base" that of sources in other manuals. Follow-ups go through `sidenote rewrite` as chat requests,
# the others through `sidenote search`. manuals-off-topic.txt has messages that should get
# no source. With --worst it names what went wrong.
set -eu
cd "$(dirname "$0")/.."

download=yes worst=""
for option in "$@"; do
  case $option in
    --no-download) download="" ;;
    --worst) worst=--worst ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done

say() { echo "manuals.sh: $*" >&2; }

manuals=${MANUALS:-${XDG_CACHE_HOME:-$HOME/.cache}/sidenote-manuals}
mkdir -p "$manuals/debs" "$manuals/docs"
manuals=$(cd "$manuals" && pwd)

# Each manual: its base, its package, and the folder of its pages.
python_doc() { apt-cache depends python3-doc 2>/dev/null | sed -n 's/.*Depends: \(python3[.0-9]*-doc\)$/\1/p' | head -n 1; }
postgresql_doc() { apt-cache depends postgresql-doc 2>/dev/null | sed -n 's/.*Depends: \(postgresql-doc-[0-9]*\)$/\1/p' | head -n 1; }

# fetch unpacks the pages of a package as docs/BASE, unless they are there.
fetch() { # BASE PACKAGE FOLDER
  [ -d "$manuals/docs/$1" ] && return
  if [ -z "$download" ] || [ -z "$2" ]; then
    say "$1: no manual; its questions are left out"
    return
  fi
  say "downloading $2, whose pages are the base $1"
  if ! (cd "$manuals/debs" && apt-get -qq download "$2" 2>/dev/null); then
    say "$2 cannot be downloaded; run apt-get update. Its questions are left out"
    return
  fi
  rm -rf "$manuals/unpacked" && mkdir "$manuals/unpacked"
  dpkg-deb -x "$manuals/debs/$2"_*.deb "$manuals/unpacked"
  cp -r "$manuals/unpacked/usr/share/doc/$3" "$manuals/docs/$1"
  rm -rf "$manuals/unpacked" "$manuals/debs/$2"_*.deb
}

for tool in python3 ${download:+apt-get apt-cache dpkg-deb}; do
  command -v "$tool" >/dev/null || { say "$tool is needed and not there"; exit 1; }
done
fetch git git-doc git-doc
python=$(python_doc)
fetch python "$python" "${python%-doc}/html"
postgresql=$(postgresql_doc)
fetch postgresql "$postgresql" "$postgresql/html"
fetch policy debian-policy debian-policy
fetch sqlite sqlite3-doc sqlite3
fetch django python-django-doc python-django-doc/html

sidenote=${SIDENOTE:-$manuals/sidenote}
if [ -z "${SIDENOTE:-}" ]; then
  go build -o "$sidenote" ./cmd/sidenote
fi

bases=()
for folder in "$manuals"/docs/*/; do
  bases+=("$(basename "$folder")")
done
say "reading ${bases[*]}"
rm -rf "$manuals/state"
knowledge=(--knowledge "all=$manuals/docs")
for base in "${bases[@]}"; do
  knowledge+=(--knowledge "$base=$manuals/docs/$base")
done
if [ -n "${ENGINE:-}" ]; then
  config=$(python3 deploy/manuals.py configure "$manuals" "$ENGINE" all "${bases[@]}")
  knowledge=(--config "$config")
  for base in all "${bases[@]}"; do
    "$sidenote" knowledge init "$base" --config "$config" >/dev/null
  done
else
  knowledge+=(--state "$manuals/state")
fi
code=0
"$sidenote" ingest "${knowledge[@]}" >"$manuals/ingest.txt" 2>&1 || code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then # 3: some files cannot be read
  cat "$manuals/ingest.txt" >&2
  exit 1
fi
sed -n '/files,.*chunks/p' "$manuals/ingest.txt"

exec python3 deploy/manuals.py "$sidenote" "$manuals" $worst "${bases[@]}"
