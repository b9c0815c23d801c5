package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

const chart = deployed + "/helm"

// toolAt returns the path of what deploy/tools.sh makes; a test without it is skipped, but not in
// CI.
func toolAt(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("bash", deployed+"/tools.sh", "where", name).Output()
	at := strings.TrimSpace(string(out))
	if err == nil {
		_, err = os.Stat(at)
	}
	absent(t, err, "deploy/tools.sh "+name+" makes it")
	return at
}

// absent skips a test that lacks a tool, or fails it in CI.
func absent(t *testing.T, err error, remedy string) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%v; %s", err, remedy)
	}
	t.Skipf("%v; %s", err, remedy)
}

// helm runs a command of Helm for a chart and returns what it printed.
func helm(t *testing.T, command string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(toolAt(t, "helm"), append(strings.Fields(command), args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s%s", err, out.String(), errs.String())
	}
	return out.String(), nil
}

const templating = "template x --namespace apps --kube-version 1.29.0"

// An object is one of Kubernetes, or a part of one.
type object = map[string]any

// part returns what is at a path of keys below an object; nil if there is nothing.
func part[T any](o object, path ...string) (found T) {
	var at any = o
	for _, key := range path {
		o, _ := at.(object)
		at = o[key]
	}
	found, _ = at.(T)
	return found
}

// objects parses what helm template printed, by "Kind name".
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if o != nil {
			all[fmt.Sprint(o["kind"], " ", part[string](o, "metadata", "name"))] = o
		}
	}
}

// installed returns what a values file makes.
func installed(t *testing.T, values string, args ...string) map[string]object {
	t.Helper()
	text, err := helm(t, templating, append([]string{chart, "--values", values}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// pods returns the specifications of pods, by "Kind name".
func pods(all map[string]object) map[string]object {
	found := map[string]object{}
	for name, o := range all {
		if pod := part[object](o, "spec", "template", "spec"); pod != nil {
			found[name] = pod
		}
	}
	return found
}

// containers returns the containers of a pod that the chart makes: those of Sidenote and of git-sync.
func containers(pod object) (own []object) {
	for _, c := range slices.Concat(part[[]any](pod, "initContainers"), part[[]any](pod, "containers")) {
		if c, _ := c.(object); c["name"] == "sidenote" || strings.HasPrefix(fmt.Sprint(c["name"]), "git-sync") {
			own = append(own, c)
		}
	}
	return own
}

// Each values file of the chart passes lint, makes objects that Kubernetes accepts, with containers
// that may do nothing but their work, and a configuration that Sidenote accepts.
func TestChartValues(t *testing.T) {
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d values files, %v", len(files), err)
	}
	made := t.TempDir()
	t.Run("values", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), "-values.yaml"), func(t *testing.T) {
				t.Parallel()
				if said, err := helm(t, "lint --strict --kube-version 1.29.0", chart, "--values", file); err != nil {
					t.Error(said, err)
				}
				text, err := helm(t, templating, chart, "--values", file)
				if err != nil {
					t.Fatal(err)
				}
				write(t, made, filepath.Base(file), text)
				all := objects(t, text)
				for name, pod := range pods(all) {
					for _, c := range containers(pod) {
						hardened(t, name, c)
					}
					checks(t, all, name, pod)
				}
			})
		}
	})
	conforms(t, made)
}

// conforms checks the objects in the files of a folder by the schemas of Kubernetes, of the oldest
// version that the chart supports and a new one. One process checks all of them, since it takes most
// of its time to read the schemas.
func conforms(t *testing.T, dir string) {
	t.Helper()
	for _, version := range []string{"1.29.0", "1.37.0"} {
		schemas := filepath.Join(toolAt(t, "schemas"), version, "{{.ResourceKind}}{{.KindSuffix}}.json")
		cmd := exec.Command(toolAt(t, "kubeconform"), "-strict", "-n", "1", "-schema-location", schemas, dir)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("Kubernetes %s: %v\n%s", version, err, said)
		}
	}
}

// hardened checks the rights of a container.
func hardened(t *testing.T, pod string, c object) {
	t.Helper()
	want := object{
		"allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
		"runAsUser": uint64(65532), "runAsGroup": uint64(65532), "capabilities": object{"drop": []any{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"},
	}
	if diff := cmp.Diff(want, c["securityContext"]); diff != "" {
		t.Errorf("%s: container %v (-want +got):\n%s", pod, c["name"], diff)
	}
	if c["name"] != "sidenote" {
		return
	}
	for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		if got := part[string](c, probe, "httpGet", "path"); got != path {
			t.Errorf("%s: %s asks %q", pod, probe, got)
		}
	}
}

// variables returns the literal environment of a container.
func variables(c object) map[string]string {
	env := map[string]string{}
	for _, v := range part[[]any](c, "env") {
		if v, _ := v.(object); v["valueFrom"] == nil {
			env[fmt.Sprint(v["name"])] = fmt.Sprint(v["value"])
		}
	}
	return env
}

// configMapOf returns the texts of the ConfigMap that a volume of a pod has; nil if the chart does
// not make it.
func configMapOf(all map[string]object, pod object, volume string) map[string]any {
	for _, v := range part[[]any](pod, "volumes") {
		v, _ := v.(object)
		if v["name"] != volume {
			continue
		}
		name := part[string](v, "configMap", "name")
		if sources := part[[]any](v, "projected", "sources"); len(sources) > 0 {
			name = part[string](sources[0].(object), "configMap", "name")
		}
		return part[object](all["ConfigMap "+name], "data")
	}
	return nil
}

const tenantsAt = "/etc/sidenote/tenants"

// checks has Sidenote check the configuration of a pod in the environment of its container.
func checks(t *testing.T, all map[string]object, name string, pod object) {
	t.Helper()
	config := configMapOf(all, pod, "sidenote-config")
	if config == nil {
		return // of others
	}
	dir := t.TempDir()
	for file, text := range configMapOf(all, pod, "sidenote-tenants") {
		write(t, dir, file, fmt.Sprint(text))
	}
	text := strings.ReplaceAll(fmt.Sprint(config["sidenote.yaml"]), tenantsAt, dir)
	env := variables(containers(pod)[len(containers(pod))-1])
	env["SIDENOTE_CONFIG"] = written(t, "sidenote.yaml", text)
	env["SIDENOTE_ADMIN_TOKEN"] = "of-the-secret"
	var out, errs bytes.Buffer
	lookup := func(key string) (string, bool) { value, ok := env[key]; return value, ok }
	if code := Run(t.Context(), []string{"check", "--offline"}, strings.NewReader(""), &out, &errs, lookup); code != exitDone {
		t.Errorf("%s: check: exit code %d: %s\n%s", name, code, errs.String(), text)
	}
}

// The schema refuses keys that do not exist, in the values and in the configuration.
func TestChartRefusesUnknownKeys(t *testing.T) {
	for set, says := range map[string]string{
		"modee=gateway":                            "modee",
		"mode=cluster":                             "mode",
		"image.repo=x":                             "repo",
		"state.kind=x":                             "kind",
		"probes.startup=3":                         "startup",
		"service.ports[0].name=admin":              "service/ports/0/name",
		"sidecar.containers[0].ports2=x":           "ports2",
		"networkPolicy.clients[0].pods=x":          "pods",
		"documents.handbook.hostPath.path=/":       "hostPath",
		"documents.git.configMap.name=x":           "git",
		"config.upstreem=x":                        "upstreem",
		"config.upstreams.a.base_ur=x":             "base_ur",
		"config.policies.default.context_token=x":  "context_token",
		"config.knowledge.a.git.branch=x":          "branch",
		`tenants.files.a\.yaml.tenants.b.key=x`:    "key",
		`tenants.files.a\.yaml.admin.listen=x`:     "admin",
		`tenants.files.a\.json.tenants.b.policy=x`: "a.json",
		"autoscaling.target=50":                    "target",
		"central.followers.read=memory":            "central/followers/read",
		"topologySpreadConstraints[0].maxSkews=x":  "maxSkews",
		"serviceMonitor.path=/metrics":             "path",
		"probes.scheme=HTTPS":                      "scheme",
		"rules.thresholds.errors=1":                "thresholds",
		"config.telemetry.log.level=debug":         "level",
		"env[0].name=A,env[0].valueFrom.secret=b":  "secret",
		"gitSync.branch=main":                      "branch",
		"podDisruptionBudget.minAvailable=1":       "minAvailable",
		"tolerations[0].effects=NoSchedule":        "effects",
		"admin.token=secret":                       "token",
		"resources.limits.gpu=1":                   "gpu",
	} {
		_, err := helm(t, templating, chart, "--values", chart+"/ci/gateway-values.yaml", "--set", set)
		if err == nil || !strings.Contains(err.Error(), "values don't meet the specifications of the schema") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// Values that are right by themselves but not together are refused with the key and a remedy.
func TestChartRefusesContradictions(t *testing.T) {
	refused := func(says string, args ...string) {
		t.Helper()
		if _, err := helm(t, templating, append(args, chart)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v", args, err)
		}
	}
	refused("config: is missing")
	refused("tenants: existingConfigMap must include", "--set", "existingConfigMap=mine,tenants.configMaps={a}")
	for set, says := range map[string]string{
		"existingConfigMap=mine":      "config, existingConfigMap: only one",
		"config.state.path=/x":        "config.state: set state of the chart",
		"config.admin.listen=off":     "config.admin.listen: set admin.expose",
		"config.telemetry.listen=off": "config.telemetry.listen: set nothing, it is port 9464",
		"config.mcp.listen=off":       "config.mcp.listen: set mcp.enabled",
		"config.telemetry.tls.client_ca=/ca,config.telemetry.tls.cert=/a,config.telemetry.tls.key=/b": "config.telemetry.tls.client_ca: the kubelet",
		"admin.expose=true":                   "admin.existingSecret: is missing",
		"mode=central":                        "admin.existingSecret: is missing",
		"mode=central,admin.existingSecret=a": "needs state.type: persistentVolumeClaim",
		"state.existingClaim=a":               "state.existingClaim: replicas of a gateway",
		"gitSync.enabled=true":                "gitSync.repo: is missing",
	} {
		refused(says, "--values", chart+"/ci/gateway-values.yaml", "--set", set)
	}
	refused("replicas: apps with sidecars cannot share", "--values", chart+"/ci/sidecar-values.yaml", "--set", "state.existingClaim=a")
}

// Where port 9464 has TLS, the kubelet and Prometheus ask by it.
func TestChartTelemetryHasTLS(t *testing.T) {
	for _, c := range []struct {
		args []string
		want [2]string
	}{
		{[]string{"--values", chart + "/ci/gateway-tls-values.yaml", "--set", "serviceMonitor.enabled=true"}, [2]string{"HTTPS", "https"}},
		{[]string{"--set", "existingConfigMap=mine,probes.tls=true,serviceMonitor.enabled=true,serviceMonitor.tlsConfig.serverName=x"}, [2]string{"HTTPS", "https"}},
		{[]string{"--values", chart + "/ci/gateway-values.yaml", "--set", "serviceMonitor.enabled=true"}, [2]string{}},
	} {
		text, err := helm(t, templating, append(c.args, chart)...)
		if err != nil {
			t.Fatal(err)
		}
		all := objects(t, text)
		endpoint := part[[]any](all["ServiceMonitor x-sidenote"], "spec", "endpoints")[0].(object)
		container := containers(pods(all)["Deployment x-sidenote"])[0]
		got := [2]string{part[string](container, "readinessProbe", "httpGet", "scheme"), part[string](endpoint, "scheme")}
		if got != c.want || (endpoint["tlsConfig"] != nil) != (c.want[1] != "") {
			t.Errorf("%v: %v, want %v; %v", c.args, got, c.want, endpoint)
		}
	}
}

// A sidecar starts before the app, which waits until it is ready, and only the pod can reach it.
func TestChartSidecarStartsFirst(t *testing.T) {
	pod := pods(installed(t, chart+"/ci/sidecar-values.yaml"))["Deployment x-sidenote"]
	first := part[[]any](pod, "initContainers")
	if len(first) != 2 || first[0].(object)["name"] != "migrate" {
		t.Fatalf("initContainers %v", first)
	}
	sidecar := first[1].(object)
	if sidecar["restartPolicy"] != "Always" || part[string](sidecar, "startupProbe", "httpGet", "path") != "/readyz" {
		t.Errorf("sidecar %v", sidecar)
	}
	env := variables(sidecar)
	if env["SIDENOTE_LISTEN"] != "127.0.0.1:8080" || env["SIDENOTE_READY"] != "knowledge" || env["SIDENOTE_ADMIN"] != "127.0.0.1:8081" {
		t.Errorf("environment %v", env)
	}
	if apps := part[[]any](pod, "containers"); len(apps) != 1 || apps[0].(object)["name"] != "app" {
		t.Errorf("containers %v", apps)
	}
}

// Other charts include the templates of a sidecar in pods of their own.
func TestChartTemplatesInAnotherChart(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir+"/charts/sidenote", os.DirFS(chart)), os.Mkdir(dir+"/templates", 0o755)); err != nil { //nolint:gosec // a test
		t.Fatal(err)
	}
	write(t, dir, "Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n")
	values, err := os.ReadFile(chart + "/ci/sidecar-of-central-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "values.yaml", "sidenote:\n  "+strings.ReplaceAll(string(values), "\n", "\n  "))
	write(t, dir, "templates/app.yaml", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      securityContext: {fsGroup: 65532}
      initContainers:
        {{- include "sidenote.sidecar.initContainers" .Subcharts.sidenote | nindent 8 }}
      containers: [{name: shop, image: shop}]
      volumes:
        {{- include "sidenote.sidecar.volumes" .Subcharts.sidenote | nindent 8 }}
`)
	text, err := helm(t, templating, dir)
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	write(t, made, "shop.yaml", text)
	conforms(t, made)
	all := objects(t, text)
	pod := pods(all)["Deployment shop"]
	var names []string
	for _, c := range containers(pod) {
		hardened(t, "shop", c)
		names = append(names, fmt.Sprint(c["name"]))
	}
	if !slices.Equal(names, []string{"git-sync-first", "git-sync", "sidenote"}) {
		t.Errorf("containers %v", names)
	}
	checks(t, all, "shop", pod)
	if kinds := slices.Sorted(maps.Keys(all)); len(kinds) != 2 {
		t.Errorf("it makes %v", kinds)
	}
}

// Followers that search an engine have no folders to read; those of a state folder run beside its
// writer and never write.
func TestChartCentralFollowers(t *testing.T) {
	all := installed(t, chart+"/ci/central-engine-values.yaml")
	follower := pods(all)["Deployment x-sidenote-follower"]
	if text := fmt.Sprint(configMapOf(all, follower, "sidenote-config")["sidenote.yaml"]); strings.Contains(text, "path:") || !strings.Contains(text, "url: postgres://db") {
		t.Errorf("followers read %s", text)
	}
	all = installed(t, chart+"/ci/central-values.yaml")
	follower = pods(all)["Deployment x-sidenote-follower"]
	near := part[[]any](follower, "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	if len(near) != 1 || part[string](near[0].(object), "labelSelector", "matchLabels", "app.kubernetes.io/component") != "writer" {
		t.Errorf("affinity %v", follower["affinity"])
	}
	writer := pods(all)["StatefulSet x-sidenote-writer"]
	if env := variables(containers(follower)[0]); env["SIDENOTE_FOLLOW"] != "true" || variables(containers(writer)[0])["SIDENOTE_FOLLOW"] != "" {
		t.Errorf("followers have %v", env)
	}
	if a, b := part[string](all["Service x-sidenote"], "spec", "selector", "app.kubernetes.io/component"), part[string](all["Service x-sidenote-writer"], "spec", "selector", "app.kubernetes.io/component"); a != "follower" || b != "writer" {
		t.Errorf("services lead to %s and %s", a, b)
	}
}

// kubelet writes files into a folder as the kubelet does: a link leads to the folder with the files, and
// is replaced by one to a new folder.
func kubelet(t *testing.T, dir string, version int, files map[string]any) {
	t.Helper()
	fresh := fmt.Sprintf("..v%d", version)
	err := os.MkdirAll(filepath.Join(dir, fresh), 0o700)
	for name, text := range files {
		write(t, filepath.Join(dir, fresh), name, fmt.Sprint(text))
		if link := filepath.Join(dir, name); version == 0 {
			err = errors.Join(err, os.Symlink("..data/"+name, link))
		} else if _, known := os.Lstat(link); known != nil {
			err = errors.Join(err, os.Symlink("..data/"+name, link))
		}
	}
	err = errors.Join(err, os.Symlink(fresh, filepath.Join(dir, "..data_tmp")), os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if err != nil {
		t.Fatal(err)
	}
}

// A new version of the chart's ConfigMaps takes effect without a restart: of the configuration, of a
// file of tenants, and a file that is new.
func TestChartReloadsWithoutRestart(t *testing.T) {
	docs, up, dir := handbook(t), newRecorder(t), t.TempDir()
	values := written(t, "values.yaml", `
config:
  upstreams: {openai: {base_url: "https://api.openai.com/v1", api_key: {file: /run/secrets/openai/key}}}
  knowledge: {handbook: /documents/handbook}
  policies: {default: {upstream: openai}}
secrets: [openai]
tenants: {knowledge: [handbook], files: {support.yaml: {tenants: {support: {knowledge: [handbook], keys: ["`+strings.Repeat("1", 64)+`"]}}}}}
`)
	here := strings.NewReplacer(tenantsAt, dir+"/tenants", "/documents/handbook", docs, "https://api.openai.com", up.URL, "/run/secrets", dir)
	upgrade := func(version int, set ...string) {
		t.Helper()
		all := installed(t, values, "--set", strings.Join(set, ","))
		pod := pods(all)["Deployment x-sidenote"]
		config := configMapOf(all, pod, "sidenote-config")
		config["sidenote.yaml"] = here.Replace(fmt.Sprint(config["sidenote.yaml"]))
		kubelet(t, dir+"/tenants", version, configMapOf(all, pod, "sidenote-tenants"))
		kubelet(t, dir+"/config", version, config)
	}
	if err := os.Mkdir(dir+"/openai", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/openai", "key", "sk-1")
	upgrade(0, "replicas=1")
	p := serve(t, "--config", dir+"/config/sidenote.yaml")
	tokens, models := "config.policies.default.context_tokens=1500", `tenants.files.support\.yaml.tenants.support.models={gpt-5*}`
	upgrade(1, tokens)
	p.out.until(t, "tenants changed: support (context_tokens)")
	upgrade(2, tokens, models)
	p.out.until(t, "tenants changed: support (models)")
	hr := `tenants.files.hr\.yaml.tenants.hr.`
	upgrade(3, tokens, models, hr+"knowledge={handbook}", hr+"keys={"+strings.Repeat("a", 64)+"}")
	p.out.until(t, "tenants added: hr")
}

// runsPod starts what a container of the chart runs, as a process: here replaces its folders and addresses.
func runsPod(t *testing.T, all map[string]object, pod object, here *strings.Replacer) *process {
	t.Helper()
	config := written(t, "sidenote.yaml", here.Replace(fmt.Sprint(configMapOf(all, pod, "sidenote-config")["sidenote.yaml"])))
	env := variables(containers(pod)[0])
	return serveIn(t, func(name string) (string, bool) {
		switch value, ok := env[name]; name {
		case "SIDENOTE_CONFIG":
			return config, true
		case "SIDENOTE_TELEMETRY":
			return "127.0.0.1:0", true
		default:
			return here.Replace(value), ok
		}
	})
}

// The writer of a central reads the documents, followers and Sidenotes that search these answer from
// what it wrote, also while it is away.
func TestChartCentralAnswersWithoutItsWriter(t *testing.T) {
	t.Parallel()
	values := written(t, "values.yaml", `
mode: central
config:
  upstream: https://api.openai.com/v1
  knowledge: {handbook: /documents/handbook}
  policies: {default: {retrieval: {deadline: 30s}}}
  identity: {open: true}
admin: {existingSecret: admin}
state: {type: persistentVolumeClaim}
`)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/admin", 0o700))
	reads := strings.Repeat("of-readers-", 5)
	write(t, dir+"/admin", "token", strings.Repeat("of-writers-", 5))
	write(t, dir+"/admin", "read-token", reads)
	here := strings.NewReplacer("/run/secrets", dir, "/documents/handbook", handbook(t), "https://api.openai.com", newRecorder(t).URL, "/var/lib/sidenote", dir)
	all := installed(t, values)
	writer := runsPod(t, all, pods(all)["StatefulSet x-sidenote-writer"], here)
	follower := runsPod(t, all, pods(all)["Deployment x-sidenote-follower"], here)
	edge := serve(t, "--config", edgeConfig(t, newRecorder(t).URL, follower.admin, dir+"/admin/read-token", "30s"))
	answer := func() {
		t.Helper()
		for name, p := range map[string]*process{"follower": follower, "edge": edge} {
			eventually(t, func() string {
				if status := p.chats(t); !strings.HasPrefix(status, "injected; sources=1") {
					return name + ": " + status
				}
				return ""
			})
		}
	}
	answer()
	writer.stop()
	answer()
	follower.token = reads
	for _, p := range []*process{follower, edge} { // nobody asked this before
		p.asks(t, "POST", "/v1/search", `{"query":"Do flights need approval?"}`, http.StatusOK, "travel.md")
	}
	follower.gives(t, reads, "POST", "/v1/knowledge", newBase, http.StatusForbidden)
}
