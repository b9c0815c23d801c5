#!/usr/bin/env bash
# Prints the path of a tool that tests and releases need, and builds or downloads it first if it is not there.
#
#   deploy/tools.sh helm          Helm, which takes three minutes to build on two cores
#   deploy/tools.sh kubeconform   a validator of Kubernetes objects
#   deploy/tools.sh schemas       a folder of JSON schemas of Kubernetes objects, by version; needs Python 3 with pip
#   deploy/tools.sh where NAME    prints the same path, whether the tool is there or not
#
# Tools are kept in ${XDG_CACHE_HOME:-~/.cache}/sidenote-tools. They are no dependencies of the module: what they
# depend on is far larger than Sidenote.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/sidenote-tools

fail() {
  echo "tools.sh: $*" >&2
  exit 1
}

# go_tool NAME PACKAGE VERSION builds a program. The path holds the version, so that a newer one is built.
go_tool() {
  local folder=$cache/$1-$3
  if [ ! -x "$folder/$1" ] && [ -z "$where" ]; then
    command -v go >/dev/null || fail "go is missing (it builds $1)"
    GOFLAGS="-ldflags=-w" GOBIN=$folder go install "$2@$3" >&2 || fail "$2@$3 does not build"
  fi
  echo "$folder/$1"
}

# Schemas of the oldest Kubernetes that the chart supports and of a new one, of the package that has them, and of
# the custom resources of the Prometheus operator.
kubernetes_versions="1.29.0 1.37.0"
validate_version=1.37.0
operator_version=v0.85.0

schemas() {
  local folder=$cache/schemas-$validate_version-$operator_version part
  if [ ! -d "$folder" ] && [ -z "$where" ]; then
    python3 -m pip --version >/dev/null 2>&1 || fail "Python 3 with pip is missing (it downloads schemas)"
    mkdir -p "$cache"
    part=$(mktemp -d "$cache/part.XXXXXX")
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$part" \
      "kubernetes-validate==$validate_version" >&2 || fail "pip could not download kubernetes-validate"
    go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator_version" >"$part/operator.json" ||
      fail "the Prometheus operator's module cannot be downloaded"
    # shellcheck disable=SC2086 # versions are words
    write_schemas "$part" $kubernetes_versions || fail "schemas cannot be read"
    mv -T "$part/schemas" "$folder" 2>/dev/null || [ -d "$folder" ] # another process was first
    rm -rf "$part"
  fi
  echo "$folder"
}

# write_schemas PART VERSION... writes PART/schemas/VERSION with the names that kubeconform looks for. References
# to files of a server become those of files beside.
write_schemas() {
  python3 - "$@" <<'PYTHON'
import glob, json, os, sys, zipfile

part, versions = sys.argv[1], sys.argv[2:]


def closed(schema):
    """Refuses fields that the schema does not name, as the strict schemas of Kubernetes do."""
    if isinstance(schema, dict):
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            closed(part)
    elif isinstance(schema, list):
        for part in schema:
            closed(part)
    return schema


wheel = zipfile.ZipFile(glob.glob(part + "/*.whl")[0])
crds = json.load(open(part + "/operator.json"))["Dir"] + "/jsonnet/prometheus-operator/"
for version in versions:
    folder = f"{part}/schemas/{version}"
    os.makedirs(folder)
    source = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
    for name in wheel.namelist():
        if name.startswith(source):
            text = wheel.read(name).decode().replace('"/api/_definitions.json', '"_definitions.json')
            schema = json.loads(text)
            schema.pop("$id", None)
            with open(f"{folder}/{os.path.basename(name)}", "w") as out:
                json.dump(schema, out)
    for kind in "servicemonitor", "prometheusrule":
        crd = json.load(open(f"{crds}{kind}s-crd.json"))
        schema = closed(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"$ref": "_definitions.json#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        with open(f"{folder}/{kind}-monitoring-v1.json", "w") as out:
            json.dump(schema, out)
PYTHON
}

where=""
if [ "${1:-}" = where ]; then
  where=yes
  shift
fi
case ${1:-} in
  helm) go_tool helm helm.sh/helm/v3/cmd/helm v3.21.4 ;;
  kubeconform) go_tool kubeconform github.com/yannh/kubeconform/cmd/kubeconform v0.8.0 ;;
  schemas) schemas ;;
  *) fail "unknown tool \"${1:-}\"; there are helm, kubeconform and schemas" ;;
esac
