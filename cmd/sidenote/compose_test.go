package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sidenote/cache/redis/redistest"
)

// A composeFile has the keys that deploy/compose.yaml uses and no others: a new key must be
// considered here.
type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]struct{}       `yaml:"volumes"`
}

type composeService struct {
	Image       string   `yaml:"image"`
	Build       string   `yaml:"build"`
	Command     []string `yaml:"command"`
	Volumes     []string `yaml:"volumes"`
	Ports       []string `yaml:"ports"`
	Grace       string   `yaml:"stop_grace_period"`
	Healthcheck struct {
		Test              []string `yaml:"test"`
		Interval, Timeout time.Duration
	} `yaml:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
		Required  *bool  `yaml:"required"`
	} `yaml:"depends_on"`
}

// A pictureImage is what the Dockerfile sets for its containers.
type pictureImage struct {
	env         map[string]string
	entrypoint  []string
	healthcheck []string
}

const deployed = "../../deploy" // the folder that paths in compose.yaml are relative to

func readCompose(t *testing.T) (composeFile, pictureImage) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict(), yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	docker, err := os.ReadFile(filepath.Join(deployed, file.Services["one"].Build, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	img := pictureImage{env: map[string]string{}}
	for _, set := range regexp.MustCompile(`\b(SIDENOTE_[A-Z]+)=(\S+)`).FindAllStringSubmatch(string(docker), -1) {
		img.env[set[1]] = set[2]
	}
	for name, to := range map[string]*[]string{"ENTRYPOINT": &img.entrypoint, "HEALTHCHECK .* CMD": &img.healthcheck} {
		line := regexp.MustCompile(`(?m)^` + name + ` (\[.*\])$`).FindStringSubmatch(string(docker))
		if line == nil {
			t.Fatalf("the Dockerfile has no %s", name)
		}
		if err := json.Unmarshal([]byte(line[1]), to); err != nil {
			t.Fatal(err)
		}
	}
	return file, img
}

// Properties of compose.yaml that can be checked without running it.
func TestComposeFile(t *testing.T) {
	file, img := readCompose(t)
	one, two := file.Services["one"], file.Services["two"]
	if !slices.Equal(one.Command, two.Command) || !slices.Equal(one.Volumes, two.Volumes) || one.Build != two.Build {
		t.Errorf("replicas differ: %+v, %+v", one, two)
	}
	inner := map[string]bool{}
	for _, address := range img.env {
		if port, ok := strings.CutPrefix(address, "0.0.0.0:"); ok { // others cannot be reached from outside
			inner[port] = true
		}
	}
	taken := map[string]bool{}
	for name, s := range file.Services {
		for _, p := range s.Ports {
			part := strings.Split(p, ":")
			if len(part) != 3 || part[0] != "127.0.0.1" || taken[part[1]] || !inner[part[2]] {
				t.Errorf("%s: port %s: want 127.0.0.1, a port of its own, and one of %v", name, p, inner)
				continue
			}
			taken[part[1]] = true
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := file.Volumes[source]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(deployed, source)); err != nil {
				t.Errorf("%s: volume: %v", name, err)
			}
		}
		for on, d := range s.DependsOn {
			if d.Condition != "service_healthy" || len(file.Services[on].Healthcheck.Test) == 0 {
				t.Errorf("%s waits for %s to be %s, which nothing finds out", name, on, d.Condition)
			}
			// Redis must neither make the service fail nor keep it from starting.
			if required := d.Required == nil || *d.Required; required == (on == "redis") {
				t.Errorf("%s: %s is required: %v", name, on, required)
			}
		}
	}
	if len(taken) != 4 || len(one.DependsOn) != 2 {
		t.Errorf("%d ports, %d dependencies: the checks above have seen too little", len(taken), len(one.DependsOn))
	}
	command := strings.Join(file.Services["redis"].Command, " ")
	for option, without := range map[string]string{"--appendonly yes": "keeps nothing across restarts", "--maxmemory-policy noeviction": "may drop what budgets count"} {
		if !strings.Contains(command, option) {
			t.Errorf("redis %s: %s", without, command)
		}
	}
}

// A composition runs the services as local processes.
type composition struct {
	t     *testing.T
	file  composeFile
	img   pictureImage
	hosts map[string]string // addresses here by what containers call them
	// patient is a configuration that waits longer for Redis than users would: the machine may be
	// busy, and a hit must remain a hit.
	patient string
}

// A container is one service of a composition.
type container struct {
	t    *testing.T
	at   map[string]string // addresses here by the port inside
	cmd  *exec.Cmd
	out  *announced
	code int // once out has ended
}

// local translates a container's argument: hosts, its own ports and paths are replaced.
func (c *composition) local(s composeService, at map[string]string, args []string) []string {
	c.t.Helper()
	var pairs []string
	for host, address := range c.hosts {
		pairs = append(pairs, "://"+host, "://"+address)
	}
	for port, address := range at {
		pairs = append(pairs, "0.0.0.0:"+port, address, "127.0.0.1:"+port, address)
	}
	for _, v := range s.Volumes {
		part := strings.Split(v, ":")
		source, err := filepath.Abs(filepath.Join(deployed, part[0]))
		if err != nil {
			c.t.Fatal(err)
		}
		pairs = append(pairs, "="+part[1], "="+source)
	}
	replace := strings.NewReplacer(pairs...)
	var out []string
	for _, arg := range args {
		out = append(out, replace.Replace(arg))
	}
	return out
}

// command runs a process of the image, with env instead of the image's environment.
func (c *composition) command(args []string, env map[string]string) *exec.Cmd {
	cmd := exec.Command(filepath.Base(args[0]), args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"} // else a check takes a second longer with -race
	for _, key := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, key+"="+env[key])
	}
	return cmd
}

// up starts a service and waits until its health check succeeds.
func (c *composition) up(name string) *container {
	c.t.Helper()
	s := c.file.Services[name]
	ct := &container{t: c.t, at: map[string]string{}, out: &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}}
	env := map[string]string{}
	for key, value := range c.img.env {
		if strings.HasPrefix(value, "/") {
			env[key] = c.t.TempDir() // each container has its own of the image's folder
			continue
		}
		if !strings.Contains(value, ":") { // it is no address
			env[key] = value
			continue
		}
		env[key] = c.inside(ct, value)
	}
	env["SIDENOTE_CONFIG"] = c.patient
	for _, own := range regexp.MustCompile(`\b0\.0\.0\.0:\d+`).FindAllString(strings.Join(s.Command, " "), -1) {
		_, port, _ := net.SplitHostPort(own)
		c.hosts[name+":"+port] = c.inside(ct, own)
	}
	ct.cmd = c.command(append(slices.Clone(c.img.entrypoint), c.local(s, ct.at, s.Command)...), env)
	ct.cmd.Stderr = ct.out
	if err := ct.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = ct.cmd.Wait()
		ct.code = ct.cmd.ProcessState.ExitCode()
		close(ct.out.ended)
	}()
	c.t.Cleanup(func() {
		_ = ct.cmd.Process.Kill() // most have ended
		<-ct.out.ended
	})
	check := c.img.healthcheck
	if len(s.Healthcheck.Test) > 0 {
		check = s.Healthcheck.Test[1:]
	}
	check = c.local(s, ct.at, check)
	var said []byte
	var err error
	ct.until(name+" is healthy", func() bool {
		said, err = c.command(check, env).CombinedOutput()
		return err == nil
	}, func() any { return fmt.Sprintf("%s: %v", said, err) })
	return ct
}

// inside returns the local address for an address inside the container.
func (c *composition) inside(ct *container, address string) string {
	c.t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		c.t.Fatal(err)
	}
	if ct.at[port], err = freeAddress(); err != nil {
		c.t.Fatal(err)
	}
	return ct.at[port]
}

// until waits until a condition holds; why says what is missing.
func (ct *container) until(what string, so func() bool, why func() any) {
	ct.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !so(); <-tick.C {
		if time.Now().After(end) {
			ct.out.mu.Lock()
			defer ct.out.mu.Unlock()
			ct.t.Fatalf("not so after 20 s: %s: %v\n%s", what, why(), ct.out.text.String())
		}
	}
}

// stop ends a service as docker stop does.
func (ct *container) stop() {
	ct.t.Helper()
	if err := ct.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		ct.t.Fatal(err)
	}
	select {
	case <-ct.out.ended:
	case <-time.After(10 * time.Second): // and then docker kills
		ct.t.Fatal("does not end on SIGTERM")
	}
	if ct.code != 0 {
		ct.t.Errorf("exit code %d: %s", ct.code, ct.out.text.String())
	}
}

// ask sends a question and returns the cache status; the answer must come from the handbook.
func (ct *container) ask(question string) (cache, answer string) {
	ct.t.Helper()
	body := fmt.Sprintf(`{"model":"gpt-4o","messages":[{"role":"user","content":%q}]}`, question)
	resp, err := http.Post("http://"+ct.at["8080"]+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		ct.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		ct.t.Fatal(err)
	}
	status := resp.Header.Get("Sidenote-Status")
	found := regexp.MustCompile(`^injected; .*; cache=(\w+);`).FindStringSubmatch(status)
	if resp.StatusCode != http.StatusOK || found == nil || !strings.Contains(string(text), "weeks") {
		ct.t.Fatalf("%s: %q: %s", resp.Status, status, text)
	}
	return found[1], string(text)
}

// ready waits until /readyz, if it is published, reports a state; it must not fail because of
// Redis.
func (ct *container) ready(want string, meanwhile func()) {
	ct.t.Helper()
	var text []byte
	ct.until("/readyz says "+want, func() bool {
		meanwhile()
		resp, err := http.Get("http://" + ct.at["9464"] + "/readyz")
		if err != nil {
			ct.t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err = io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			ct.t.Fatalf("%s: %s %v", resp.Status, text, err)
		}
		return strings.Contains(string(text), `"`+want+`"`)
	}, func() any { return string(text) })
}

// The services of compose.yaml, run as processes without Docker, do what it promises.
func TestComposeRuns(t *testing.T) {
	t.Setenv("PATH", releasedPath(t))
	file, img := readCompose(t)
	redis := redistest.Start(t, file.Services["redis"].Command[1:]...)
	if got := redis.Do("CONFIG", "GET", "maxmemory-policy"); got != "maxmemory-policy\nnoeviction" {
		t.Errorf("redis: %q", got)
	}
	c := &composition{t: t, file: file, img: img, hosts: map[string]string{"redis:6379": redis.Addr()}, patient: filepath.Join(t.TempDir(), "patient.yaml")}
	if err := os.WriteFile(c.patient, []byte("redis: {timeout: 5s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} { // word for word, but for the folder
		s := file.Services[name]
		check := append([]string{img.entrypoint[0], "check"}, (&composition{t: t}).local(s, nil, s.Command[1:])...)
		if out, err := c.command(check, img.env).CombinedOutput(); err != nil {
			t.Fatalf("%s: %q: %v: %s", name, check, err, out)
		}
	}
	stub := c.up("stub")
	says(t, stub.out, "listening  http://"+stub.at["9090"]+"/v1 ")
	one, two := c.up("one"), c.up("two")
	for _, ct := range []*container{one, two} {
		says(t, ct.out, "shared on redis "+redis.Addr())
	}
	const question = "How many weeks of parental leave do I get?"
	cache, want := one.ask(question)
	if cache != "miss" {
		t.Errorf("the first was asked with cache=%s", cache)
	}
	redis.WaitFor(":selected:", "KEYS", "*")
	redis.WaitFor("aof_buffer_length:0\r", "INFO", "persistence") // a write waits there while the disk is busy
	if cache, got := two.ask(question); cache != "hit" || got != want {
		t.Errorf("cache=%s, %s; want what the other found: %s", cache, got, want)
	}

	redis.Kill()
	for i, ct := range []*container{one, two} {
		n := 100 * i
		ct.ready("degraded", func() { // marks make it a question that was never asked
			n++
			if cache, got := ct.ask(question + strings.Repeat("!", n)); cache != "miss" || got == "" {
				t.Errorf("without redis: cache=%s %s", cache, got)
			}
		})
	}
	two.stop()
	redis.Restart()
	two = c.up("two")
	says(t, two.out, "shared on redis "+redis.Addr())
	if cache, got := two.ask(question); cache != "hit" || got != want {
		t.Errorf("after a restart of both: cache=%s, %s; want %s", cache, got, want)
	}
	one.ready("ready", func() {})
	for _, ct := range []*container{one, two, stub} {
		ct.stop()
	}
}

// The Redis of compose.yaml keeps what budgets count, so replicas with limits need no other. Each
// process looks at its start, and then every minute, for which TestLedgerAlertFires waits.
func TestComposeRedisKeepsBudgets(t *testing.T) {
	file, _ := readCompose(t)
	redis := redistest.Start(t, file.Services["redis"].Command[1:]...)
	config := fmt.Sprintf("upstream: %s\nredis: {url: %s, timeout: 5s}\npolicies: {default: {limits: {tokens_per_day: 100M}}}\n", newRecorder(t).URL, redis.URL())
	safe := func(want string) {
		t.Helper()
		p := serve(t, "--config", written(t, "sidenote.yaml", config))
		eventually(t, func() string {
			p.chats(t)
			_, metrics := get(t, p.admin+"/metrics")
			return map[bool]string{false: "not so: " + want}[strings.Contains(metrics, want+"\n")]
		})
	}
	safe("sidenote_budget_store_safe 1")
	redis.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	safe("sidenote_budget_store_safe 0")
}
