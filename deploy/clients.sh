#!/usr/bin/env bash
# Clients that people use, in their newest versions, against Sidenote, streamed and not. It is no
# part of the tests, as it installs them.
#
#   chats       the official SDKs for Python and JavaScript, whose model calls tools of ours beside
#               those of the app, or answers in stages, over the habits of several servers: they must
#               get what the SDK for Go gets
#   responses   the same SDKs, openai-agents for both languages, pydantic-ai, the AI SDK of Vercel and
#               Codex CLI, with tools of their own: they must get right answers, and the upstream
#               their requests with sources and otherwise unchanged; and those whose model searches with
#               tools of ours, too
#   messages    likewise the SDKs of Anthropic with their tool runners, langchain-anthropic, pydantic-ai,
#               the AI SDK of Vercel and Claude Code, also with sources that are search results and in
#               stages
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

python="$CLIENTS/python/bin/python"
of_python=(openai openai-agents pydantic-ai-slim anthropic langchain-anthropic)
of_node=(openai @openai/agents ai @ai-sdk/openai @openai/codex @anthropic-ai/sdk @ai-sdk/anthropic @anthropic-ai/claude-code)
if [ -n "$install" ]; then
  python3 -m venv "$CLIENTS/python"
  "$python" -m pip install --quiet --upgrade "${of_python[@]/%-slim/-slim[openai,anthropic]}"
  npm install --silent --no-audit --no-fund --prefix "$CLIENTS" zod@latest "${of_node[@]/%/@latest}"
fi
cp cmd/sidenote/testdata/clients/*.mjs "$CLIENTS/" # modules are looked for beside them
"$python" -c 'import sys, importlib.metadata as m
for name in sys.argv[1:]: print("Python:", name, m.version(name))' "${of_python[@]}"
for name in "${of_node[@]}"; do
  node -p '"JavaScript: " + process.argv[1] + " " + require(process.argv[2]).version' "$name" "$CLIENTS/node_modules/$name/package.json"
done
exec go test -count=1 -run '^TestClients(Staged|Responses(Tools)?|Messages(Tools|SearchResults|Staged)?)?$' ./cmd/sidenote
