#!/usr/bin/env bash
# The official SDKs for Python and JavaScript against Sidenote, whose model calls tools of ours
# beside those of the app, or answers in stages: streamed and not, over the habits of several
# servers, they must get what the SDK for Go gets. It is no part of the tests, as it installs the newest SDKs.
#
#   deploy/clients.sh               installs them in $XDG_CACHE_HOME/sidenote-clients
#   deploy/clients.sh --no-install  with those that are there
#   CLIENTS=DIR deploy/clients.sh   in another folder
#
# Python 3 with venv, Node.js and npm are needed, and Go. The system stays as it is.
set -eu
cd "$(dirname "$0")/.."

install=yes
for option in "$@"; do
  case $option in
    --no-install) install="" ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done
export CLIENTS="${CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/sidenote-clients}"
mkdir -p "$CLIENTS"
CLIENTS=$(cd "$CLIENTS" && pwd)

if [ -n "$install" ]; then
  python3 -m venv "$CLIENTS/python"
  "$CLIENTS/python/bin/pip" install --quiet --upgrade openai
  npm install --silent --no-audit --no-fund --prefix "$CLIENTS" openai@latest
fi
cp cmd/sidenote/testdata/clients/client.mjs "$CLIENTS/" # modules are looked for beside it
"$CLIENTS/python/bin/python" -c 'import openai; print("openai for Python", openai.__version__)'
node -p '"openai for JavaScript " + require(process.env.CLIENTS + "/node_modules/openai/package.json").version'
exec go test -count=1 -run '^TestClients(Staged)?$' ./cmd/sidenote
