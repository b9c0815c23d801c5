package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sidenote/cache/redis/redistest"
	"sidenote/rewrite/goldentest"
)

const (
	rulesFile     = deployed + "/prometheus/rules.yaml"
	dashboardFile = deployed + "/grafana/sidenote.json"
)

// alertRules returns the alerts of the rules, by name, and the text of the rules.
func alertRules(t *testing.T) (alerts map[string]object, text string) {
	t.Helper()
	content, err := os.ReadFile(rulesFile)
	must(t, err)
	var file struct {
		Groups []struct{ Rules []object }
	}
	must(t, yaml.Unmarshal(content, &file))
	alerts = map[string]object{}
	for _, rule := range file.Groups[0].Rules {
		if name, ok := rule["alert"].(string); ok {
			alerts[name] = rule
		}
	}
	if len(alerts) < 12 {
		t.Fatalf("%d alerts only", len(alerts))
	}
	return alerts, string(content)
}

// The rules are what Prometheus accepts, and their own tests pass: each alert fires on its fault, not
// before its time, and on none of the others'.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	absent(t, err, "it is in Debian's package prometheus")
	tests := []string{deployed + "/prometheus/rules_test.yaml", deployed + "/prometheus/rules_days_test.yaml"}
	for _, args := range [][]string{{"check", "rules", rulesFile}, append([]string{"test", "rules"}, tests...)} {
		if said, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, said)
		}
	}
	var cases []byte
	for _, file := range tests {
		more, err := os.ReadFile(file)
		must(t, err)
		cases = append(cases, more...)
	}
	alerts, _ := alertRules(t)
	headings := headings(t, "deploy/RUNBOOK.md")
	for name, rule := range alerts {
		if !bytes.Contains(cases, []byte("alertname: "+name+"\n        exp_alerts:\n")) || !bytes.Contains(cases, []byte("alertname: "+name+", ")) {
			t.Errorf("%s: no test that it fires, or that it does not", name)
		}
		if page := part[string](rule, "annotations", "runbook_url"); page != "RUNBOOK.md#"+strings.ToLower(name) || !slices.Contains(headings, strings.ToLower(name)) {
			t.Errorf("%s: no heading of the runbook at %q", name, page)
		}
		if severity := part[string](rule, "labels", "severity"); severity != "page" && severity != "ticket" {
			t.Errorf("%s: severity %q", name, severity)
		}
	}
	if _, page := readPage(t, "deploy/RUNBOOK.md"); strings.Count(page, "\n## Sidenote") != len(alerts) {
		t.Error("the runbook tells of alerts that do not exist")
	}
}

// The chart has the same rules and dashboard; go test ./cmd/sidenote -run Chart -update copies them.
func TestChartCopies(t *testing.T) {
	for copied, original := range map[string]string{"rules.yaml": rulesFile, "dashboard.json": dashboardFile} {
		text, err := os.ReadFile(original)
		must(t, err)
		goldentest.Text(t, filepath.Join(chart, "files", copied), string(text))
	}
}

// Rules and dashboard use metrics and labels that exist.
func TestRulesAndDashboardNameMetricsThatExist(t *testing.T) {
	known, _ := exportedMetrics(t)
	for _, file := range []string{rulesFile, dashboardFile} {
		text, err := os.ReadFile(file)
		must(t, err)
		seen := map[string]bool{}
		for _, name := range regexp.MustCompile(`\b(?:sidenote|process|go)_[a-z_]+`).FindAllString(string(text), -1) {
			plain := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if seen[name] = true; !known[name] && !known[plain] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
		if len(seen) < 12 {
			t.Errorf("%s: found %v only", file, seen)
		}
	}
	var dashboard struct {
		UID    string
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(dashboardFile)
	must(t, err)
	must(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		if p.Type != "row" && (p.Title == "" || len(p.Targets) == 0 || p.Targets[0].Expr == "") {
			t.Errorf("panel %q shows nothing", p.Title)
		}
	}
}

// A planted fault is one alert's. Until it is spoilt all is well.
type planted struct {
	p       *process
	traffic func(n int) // sends one request; nil: nobody asks
	when    string      // what Prometheus must know before; %s is the job
	spoil   func()
}

// askOnce sends a question, whatever the answer is.
func askOnce(p *process, question string) {
	body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question)
	resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// anew returns traffic that asks something else each time, and same that repeats itself.
func anew(p *process) func(n int) {
	return func(n int) { askOnce(p, fmt.Sprintf("How large is the bonus of year %d, and parental leave?", n)) }
}

func same(p *process) func(int) {
	return func(int) { askOnce(p, "How many weeks of parental leave do I get?") }
}

// connect opens a connection and waits a moment for what the server says.
func connect(p *process) {
	c, err := net.DialTimeout("tcp", strings.TrimPrefix(p.data, "http://"), 5*time.Second)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// cachingUpstream is an upstream whose answers report cached tokens, as long as its cache holds.
func cachingUpstream(t *testing.T) (address string, cold *atomic.Bool) {
	cold = &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cached := 800
		if cold.Load() {
			cached = 0
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"16"},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":940,"completion_tokens":10,"total_tokens":950,"prompt_tokens_details":{"cached_tokens":%d}}}`, cached)
	}))
	t.Cleanup(s.Close)
	return s.URL, cold
}

// slowArchive is a vector store that takes its time once it is spoilt.
func slowArchive(t *testing.T, delay time.Duration) (address string, slow *atomic.Bool) {
	a, slow := newArchive(t, false), &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() && r.Method == http.MethodPost {
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
			}
		}
		a.answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, slow
}

// patient serves documents to whoever waits: on a busy machine a search may take long.
func patient(t *testing.T, docs, up, policy, rest string) *process {
	t.Helper()
	return serve(t, "--state", t.TempDir(), "--config", written(t, "sidenote.yaml", fmt.Sprintf(
		"upstream: %s\nknowledge: {docs: %q}\npolicies: {default: {retrieval: {deadline: 10s}%s}}\n%s\n", up, docs, policy, rest)))
}

// archived serves a base in a vector store with a deadline.
func archived(t *testing.T, store, deadline string) *process {
	return serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(`
upstreams: {model: %s/v1, archive: %s}
knowledge: {legal: {engine: vector_store, upstream: archive, id: vs_1}}
policies: {default: {upstream: model, retrieval: {deadline: %s}}}
`, newRecorder(t).URL, store, deadline)))
}

// plants are the faults by the alert that each raises.
var plants = map[string]func(t *testing.T) planted{
	"SidenoteDown": func(t *testing.T) planted {
		p := serve(t, "--upstream", newRecorder(t).URL)
		return planted{p: p, spoil: func() { p.stop() }}
	},
	"SidenoteErrors": func(t *testing.T) planted {
		var spoilt atomic.Bool
		up := newRecorder(t)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if spoilt.Load() {
				panic(http.ErrAbortHandler) // hangs up
			}
			up.answer(w, r)
		}))
		t.Cleanup(s.Close)
		p := patient(t, handbook(t), s.URL, "", "")
		return planted{p: p, traffic: anew(p), spoil: func() { spoilt.Store(true) }}
	},
	"SidenoteUpstreamDown": func(t *testing.T) planted {
		up := newRecorder(t)
		p := serve(t, "--upstream", up.URL)
		return planted{p: p, spoil: up.Close}
	},
	"SidenoteExpiring": func(t *testing.T) planted {
		dir := t.TempDir()
		keys := func(expires time.Time) {
			write(t, dir, "sidenote.yaml", fmt.Sprintf("upstream: %s\ntenants: {hr: {keys: [{sha256: %s, name: app, expires: %s}]}}\n",
				newRecorder(t).URL, strings.Repeat("1", 64), expires.Format(time.DateOnly)))
		}
		keys(time.Now().AddDate(1, 0, 0))
		p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
		return planted{p: p, spoil: func() { keys(time.Now().AddDate(0, 0, 2)) }}
	},
	"SidenoteSlow": func(t *testing.T) planted {
		store, slow := slowArchive(t, 4*time.Second)
		p := archived(t, store, "10s")
		return planted{p: p, traffic: anew(p), spoil: func() { slow.Store(true) }}
	},
	"SidenoteDegraded": func(t *testing.T) planted {
		p := patient(t, gardenFolder(t), newRecorder(t).URL, ", rerank: {upstream: judge, model: m, dialect: cohere, timeout: 5s}", "upstreams: {judge: "+newJudge(t).URL+"}")
		var spoilt atomic.Bool
		return planted{p: p, spoil: func() { spoilt.Store(true) }, traffic: func(n int) {
			question := fmt.Sprintf("What happens in the garden by night %d?", n)
			if spoilt.Load() {
				question += " ←" // the reranker leaves a document out
			}
			askOnce(p, question)
		}}
	},
	"SidenoteWithoutSources": func(t *testing.T) planted {
		store, slow := slowArchive(t, 700*time.Millisecond)
		p := archived(t, store, "300ms")
		return planted{p: p, traffic: anew(p), spoil: func() { slow.Store(true) }}
	},
	"SidenoteKnowledgeStale": func(t *testing.T) planted {
		e := newOrigins(t)
		p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(
			"upstream: %s\nknowledge: {code: {git: {url: %q, every: 10s, allow_private: true}}}\n", newRecorder(t).URL, e.url+"/r.git")), "--state", t.TempDir())
		return planted{p: p, when: `sidenote_knowledge_fetch_success_timestamp_seconds{job="%s"}`, spoil: func() { e.down.Store(true) }}
	},
	"SidenoteBudgetNearlyUsed": func(t *testing.T) planted {
		address, _ := cachingUpstream(t)
		p := patient(t, handbook(t), address, ", max_output_tokens: 100, limits: {tokens_per_day: 10000}", "")
		var spoilt atomic.Bool
		return planted{p: p, spoil: func() { spoilt.Store(true) }, traffic: func(n int) {
			if spoilt.Load() { // each takes a tenth
				same(p)(n)
			}
		}}
	},
	ledgerAlert: func(t *testing.T) planted {
		server := redistest.Start(t, durable...)
		p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(
			"upstream: %s\nredis: {url: %s, timeout: 5s}\npolicies: {default: {limits: {tokens_per_day: 100M}}}\n", newRecorder(t).URL, server.URL())))
		return planted{p: p, traffic: anew(p), spoil: func() { server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru") }}
	},
	"SidenoteReloadFailed": func(t *testing.T) planted {
		dir := t.TempDir()
		config := "upstream: " + newRecorder(t).URL + "\n"
		write(t, dir, "sidenote.yaml", config)
		p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
		return planted{p: p, traffic: anew(p), spoil: func() { write(t, dir, "sidenote.yaml", config+"upstreem: x\n") }}
	},
	"SidenoteBreakerOpen": func(t *testing.T) planted {
		server := redistest.Start(t)
		p := patient(t, handbook(t), newRecorder(t).URL, "", "redis: "+server.URL())
		return planted{p: p, traffic: anew(p), spoil: server.Kill}
	},
	"SidenoteCacheHitsFell": func(t *testing.T) planted {
		p := patient(t, handbook(t), newRecorder(t).URL, "", "")
		var spoilt atomic.Bool
		return planted{p: p, when: `sidenote:cache_hits:ratio1h{job="%s"} > 0.5`, spoil: func() { spoilt.Store(true) }, traffic: func(n int) {
			if spoilt.Load() {
				anew(p)(n)
			} else {
				same(p)(n)
			}
		}}
	},
	"SidenoteCachedTokensFell": func(t *testing.T) planted {
		address, cold := cachingUpstream(t)
		p := patient(t, handbook(t), address, "", "")
		return planted{p: p, traffic: anew(p), when: `sidenote:cached_tokens:ratio1h{job="%s"} > 0.5`, spoil: func() { cold.Store(true) }}
	},
	"SidenoteShedding": func(t *testing.T) planted {
		p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nmax_connections_per_address: 3\n", newRecorder(t).URL)))
		var spoilt atomic.Bool
		return planted{p: p, spoil: func() { spoilt.Store(true) }, traffic: func(n int) {
			anew(p)(n)
			if spoilt.Load() {
				each(8, 8, func(int) { connect(p) })
			}
		}}
	},
	"SidenoteIntegrity": func(t *testing.T) planted {
		server := redistest.Start(t)
		p := patient(t, handbook(t), newRecorder(t).URL, "", "redis: {url: "+server.URL()+", timeout: 5s}\ncache: {ttl: 1s}")
		return planted{p: p, traffic: same(p), spoil: func() {
			server.WaitFor(":selected:", "KEYS", "*")
			for key := range strings.FieldsSeq(server.Do("KEYS", "*:selected:*")) {
				server.Do("DEL", key)
				server.Do("LPUSH", key, "of somebody else")
			}
		}}
	},
	"": func(t *testing.T) planted { // no fault, no alert
		p := patient(t, handbook(t), newRecorder(t).URL, "", "")
		return planted{p: p, traffic: anew(p)}
	},
}

// hurried are the rules with times that a test can wait for. A scrape may be late on a busy machine, so
// a process is down once all scrapes of ten seconds have failed.
func hurried(rules string) string {
	rules = strings.NewReplacer("up == 0 and", "max_over_time(up[10s]) == 0 and", "sidenote_build_info[1h]", "sidenote_build_info[1m]", "[5m]", "[10s]", "[10m]", "[2m]", "offset 10m", "offset 2m", "[1h]", "[10s]", "[1d]", "[2m]",
		"offset 1d", "offset 20s", "86400", "5", "_seconds[5m])))) > 1", "_seconds[10s])))) > 4").Replace(rules)
	return regexp.MustCompile(`for: \d+m`).ReplaceAllString(rules, "for: 2s")
}

// A promServer is a Prometheus that was started for a test.
type promServer struct{ url string }

// startPrometheus starts Prometheus with rules, and a job for each of some addresses.
func startPrometheus(t *testing.T, program, rules string, jobs map[string]string) *promServer {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "rules.yaml", rules)
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n")
	for job, address := range jobs {
		fmt.Fprintf(&config, "  - {job_name: %q, static_configs: [{targets: [%q]}]}\n", job, address)
	}
	write(t, dir, "prometheus.yaml", config.String())
	address, err := freeAddress()
	must(t, err)
	var said bytes.Buffer
	cmd := exec.Command(program, "--config.file="+dir+"/prometheus.yaml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	cmd.Stderr = &said
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &promServer{"http://" + address}
	eventually(t, func() string {
		resp, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return "Prometheus does not start: " + err.Error()
		}
		_ = resp.Body.Close()
		return map[bool]string{false: "Prometheus is not ready"}[resp.StatusCode == http.StatusOK]
	})
	return p
}

// query returns the labels of the series that an expression has.
func (p *promServer) query(t *testing.T, expr string) (series []map[string]string) {
	t.Helper()
	resp, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	text := answered(t, resp, err)
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %s", expr, err, text)
	}
	for _, r := range answer.Data.Result {
		series = append(series, r.Metric)
	}
	return series
}

// Each alert fires in a real Prometheus on the fault of a running program that is its own, and on no
// other; without a fault none does. The alert on what keeps budgets has a test of its own.
func TestAlertsFire(t *testing.T) {
	others := maps.Clone(plants)
	delete(others, ledgerAlert)
	alertsFire(t, others)
}

// ledgerAlert is the alert on a Redis that may lose what budgets count, which a process looks for
// every minute.
const ledgerAlert = "SidenoteLedgerUnsafe"

// A process notices while it serves that its Redis may lose what budgets count.
func TestLedgerAlertFires(t *testing.T) {
	t.Parallel()
	alertsFire(t, map[string]func(*testing.T) planted{ledgerAlert: plants[ledgerAlert]})
}

// alertsFire plants faults and expects their alerts and no others.
func alertsFire(t *testing.T, plants map[string]func(*testing.T) planted) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	absent(t, err, "it is in Debian's package prometheus")
	_, rules := alertRules(t)
	jobs, all := map[string]string{}, map[string]planted{}
	stop, driven := make(chan struct{}), sync.WaitGroup{}
	t.Cleanup(func() { close(stop); driven.Wait() })
	for alert, plant := range plants {
		f := plant(t)
		all[alert], jobs["of "+alert] = f, strings.TrimPrefix(f.p.admin, "http://")
		if f.traffic != nil {
			driven.Go(func() { drive(stop, f.traffic) })
		}
	}
	p := startPrometheus(t, program, hurried(rules), jobs)
	for _, alert := range slices.Sorted(maps.Keys(all)) {
		job, f := "of "+alert, all[alert]
		eventually(t, unless("up of "+alert, func() bool { return len(p.query(t, fmt.Sprintf(`up{job=%q} == 1`, job))) > 0 }))
		if f.when != "" {
			expr := strings.Replace(f.when, "%s", job, 1)
			eventually(t, unless(expr, func() bool { return len(p.query(t, expr)) > 0 }))
		}
	}
	for _, f := range all {
		if f.spoil != nil {
			f.spoil()
		}
	}
	fired := func() (fired []string) {
		for _, s := range p.query(t, `max by (job, alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))`) {
			fired = append(fired, strings.TrimPrefix(s["job"], "of ")+": "+s["alertname"])
		}
		slices.Sort(fired)
		return fired
	}
	var want []string
	for alert := range all {
		if alert != "" {
			want = append(want, alert+": "+alert)
		}
	}
	slices.Sort(want)
	eventually(t, func() string {
		got := fired()
		for _, each := range want {
			if !slices.Contains(got, each) {
				return fmt.Sprintf("%s does not fire; %v", each, got)
			}
		}
		return ""
	})
	if got := fired(); !slices.Equal(got, want) {
		t.Errorf("fired %v\nwant  %v", got, want)
	}
}

// drive sends five requests in two seconds, or as many as are answered.
func drive(stop <-chan struct{}, traffic func(n int)) {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-tick.C:
			traffic(n)
		}
	}
}
