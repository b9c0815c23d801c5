package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/transport/transporttest"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A step is a command line of a page and the output that the page shows for it.
type step struct{ at, line, want string }

func steps(f fence) (steps []step) {
	for line := range strings.Lines(f.text) {
		n := len(steps)
		switch {
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{f.at, strings.TrimPrefix(line, "$ "), ""})
		case n > 0 && steps[n-1].want == "" && strings.HasSuffix(steps[n-1].line, "\\\n"):
			steps[n-1].line += line
		case n > 0:
			steps[n-1].want += line
		}
	}
	return steps
}

// elsewhere has the beginnings of command lines that do not run sidenote.
var elsewhere = []string{"docker ", "curl ", "deploy/", "export OPENAI_BASE_URL=", "TOKEN="}

// The examples of the pages are run, each page in a folder of its own, and must print what the page
// shows. Commands that run until they are stopped, or need a running instance, are only parsed.
func TestPagesCommands(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil || runtime.GOOS == "windows" {
		t.Skip("the examples are for a shell")
	}
	for _, name := range pages {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			fences, prose := readPage(t, name)
			dir, path := newExampleFolder(t), releasedPath(t)
			for _, f := range fences {
				for _, s := range steps(f) {
					s.line = strings.ReplaceAll(s.line, "go run ./cmd/sidenote ", "sidenote ")
					switch {
					case f.language != "console":
						t.Errorf("%s: a command stands in a block that is not run", s.at)
					case slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(s.line, prefix) }):
					case regexp.MustCompile(`^sidenote (serve|stub|health|explain|report|mode|reload|ask)\b|^sidenote demo .*--serve`).MatchString(s.line):
						parses(t, s)
					case strings.HasPrefix(s.line, "sidenote "), strings.HasPrefix(s.line, "cat "):
						runs(t, path, dir, s)
					default:
						t.Errorf("%s: nothing is known of the command %s", s.at, s.line)
					}
				}
			}
			for _, span := range spans(prose) {
				if strings.HasPrefix(span, "sidenote ") {
					parses(t, step{name, span, ""})
				}
			}
		})
	}
}

// newExampleFolder returns a folder with the files that the examples use.
func newExampleFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "docs"), os.DirFS("internal/demo/corpus")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"old/docs/a.md":     "# A\n",
		"sidenote.yaml":     "upstream: https://api.openai.com/v1\nknowledge: {docs: ./docs}\n",
		"old/sidenote.yaml": "listen: 127.0.0.1:9090\nupstream: https://api.openai.com/v1\nknowledge: {docs: ./docs}\npolicies: {default: {context_tokens: 1000}}\n",
		"meeting.md":        "# Meeting\n\nThe office moves in May.\n",
		"handbook/leave.md": "# Leave policy\n\n## Parental leave\n\nEvery parent may take 16 weeks.\n",
		"request.json": `{"model":"gpt-4o","messages":[` + "\n" + `  {"role":"system","content":"You are the HR assistant."},` + "\n" +
			`  {"role":"user","content":"How many weeks of parental leave?"}], "temperature":0.10}` + "\n",
		"questions.csv": "question,expected\nHow many weeks of parental leave do I get?,leave.md\nWho approves trips?,travel.md\n" +
			"\"Laptops, and what else do I get?\",\"{laptops,onboarding}.md\"\n",
		"our-questions/corpus.jsonl":   `{"_id": "leave", "title": "Leave", "text": "Every parent may take 16 weeks of leave."}` + "\n",
		"our-questions/queries.jsonl":  `{"_id": "q1", "text": "How long is parental leave?"}` + "\n",
		"our-questions/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tleave\t1\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runs runs a step and compares its output with what the page shows: there "…" stands for any text,
// alone on a line for any lines, and durations may differ.
func runs(t *testing.T, path, dir string, s step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exampleWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", s.line)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SIDENOTE_") || strings.HasPrefix(v, "XDG_") }),
		"HOME="+dir, "NO_COLOR=1", "GORACE=atexit_sleep_ms=0",
		"PATH="+path)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %s: %v\n%s", s.at, s.line, err, errs.String())
		return
	}
	if s.want == "" {
		return
	}
	if !shown(s.want).MatchString(levelled(string(out))) {
		t.Errorf("%s: %s prints\n%s\nand not\n%s", s.at, s.line, out, s.want)
	}
}

// exampleWait is far longer than any example takes.
const exampleWait = time.Minute

var took = regexp.MustCompile(`[0-9][0-9.,]* ?(ms|µs|s)\b`)

// port matches a listener on this machine: another process may have the usual port.
var port = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// levelled returns an output without what differs from run to run: ports, times, and the spaces
// that align columns.
func levelled(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = port.ReplaceAllString(took.ReplaceAllString(line, "TIME"), "127.0.0.1:PORT")
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// shown returns a pattern for the outputs that match a page's text.
func shown(want string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(levelled(want)) {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*"))
	}
	return regexp.MustCompile(`^` + b.String() + `$`)
}

// parses parses the command line of a step as the program would.
func parses(t *testing.T, s step) {
	t.Helper()
	line := strings.ReplaceAll(s.line, "…", "etc")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `sidenote() { printf '%s\0' "$@"; }`+"\n"+line).Output()
	if err != nil {
		t.Errorf("%s: %s: %v", s.at, s.line, err)
		return
	}
	args := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	p, err := kong.New(&cli{}, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse(args); err != nil && !errors.Is(err, errHelp) {
		t.Errorf("%s: %s: %v", s.at, s.line, err)
	}
}

// Every flag that a page names belongs to a command or a script.
func TestPagesFlags(t *testing.T) {
	known := map[string]bool{"--no-install": true, "--verify": true, "--build": true, "--help": true}
	p, err := kong.New(&cli{}, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	err = kong.Visit(p.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known["--"+flag.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, span := range spans(prose) {
			for _, flag := range regexp.MustCompile(`(?:^| )(--[a-z-]+)`).FindAllStringSubmatch(span, -1) {
				if !known[flag[1]] {
					t.Errorf("%s: there is no flag %s", name, flag[1])
				}
			}
		}
	}
}

// top matches a configuration within a line.
var top = regexp.MustCompile(`^(admin|cache|explain|identity|include|knowledge|models|redis|state|telemetry|timeouts|upstreams?): ?(\{|\[\{)`)

// Every YAML of a page, also within a line, is a valid configuration by itself or merged into the
// example. JSON is valid.
func TestPagesData(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(root, "deploy/sidenote.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range pages {
		fences, prose := readPage(t, name)
		for _, span := range spans(prose) {
			if top.MatchString(span) && !strings.Contains(span, "…") {
				fences = append(fences, fence{name + ": " + span, "yaml", span})
			}
		}
		for _, f := range fences {
			switch f.language {
			case "console", "text", "python", "js":
			case "json":
				if !json.Valid([]byte(f.text)) {
					t.Errorf("%s is no JSON", f.at)
				} else if err := asks(f.text); err != nil {
					t.Errorf("%s: %v", f.at, err)
				}
			case "yaml":
				seen++
				alone := loads(f.text)
				if alone == nil {
					continue
				}
				if over := loads(overlaid(t, f, example)); over != nil {
					t.Errorf("%s does not load: %v\nover the example: %v", f.at, alone, over)
				}
			default:
				t.Errorf("%s: nothing is known of a block in %q", f.at, f.language)
			}
		}
	}
	if seen < 20 {
		t.Errorf("found %d configurations only", seen)
	}
}

// asks returns what is wrong with a chat request and its Sidenote options.
func asks(text string) error {
	if !strings.Contains(text, `"messages"`) {
		return nil
	}
	req, err := chat.Completions.Parse([]byte(text))
	if err != nil {
		return err
	}
	_, err = rewrite.ReadOptions(req)
	return err
}

// overlaid returns the example with the keys of a block replaced.
func overlaid(t *testing.T, f fence, example []byte) string {
	t.Helper()
	var under, over map[string]any
	if err := errors.Join(yaml.Unmarshal(example, &under), yaml.Unmarshal([]byte(f.text), &over)); err != nil {
		t.Fatalf("%s: %v", f.at, err)
	}
	text, err := yaml.Marshal(merged(under, over))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func merged(under, over map[string]any) map[string]any {
	for key, value := range over {
		low, isMap := under[key].(map[string]any)
		if high, ok := value.(map[string]any); ok && isMap {
			value = merged(low, high)
		}
		under[key] = value
	}
	return under
}

// authority is a certificate that no system trusts.
var authority = sync.OnceValue(func() []byte {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
})

// pagesPair is a certificate with its key.
var pagesPair = sync.OnceValue(func() transporttest.Pair { return transporttest.NewAuthority().Issue(time.Now().Add(time.Hour)) })

// loads loads a configuration; all its secrets exist.
func loads(text string) error {
	_, err := config.Load(config.Source{
		Path: "page.yaml", Offline: true,
		Env: func(name string) (string, bool) {
			switch name {
			case "HOME":
				return "/home/somebody", true
			case "REDIS_URL":
				return "rediss://:password@redis.test", true
			case config.AdminTokenEnv:
				return "", false
			}
			return "secret-of-" + name, true
		},
		Read: func(file string) ([]byte, error) {
			switch {
			case file == "page.yaml":
				return []byte(text), nil
			case strings.HasSuffix(file, "-ca.pem"):
				return authority(), nil
			case strings.HasSuffix(file, "ci-keys.json"):
				return []byte(`{"keys": [{"kty": "EC", "crv": "P-256", "kid": "ci-1", "x": "CK3v1_ZEHQX19zEfVNGsM2vg8blRItRmEyA90dbV4_4", "y": "diKQon9oS3YyufMPi5nXLv3QINESlyltVK6upaKWCHA"}]}`), nil
			case strings.HasSuffix(file, "-key.pem"):
				return pagesPair().Key, nil
			case strings.HasSuffix(file, ".pem"):
				return pagesPair().Cert, nil
			case strings.HasSuffix(file, "sidenote-redis"), strings.HasSuffix(file, "sidenote-records"):
				return []byte("one " + strings.Repeat("A", 43) + "="), nil
			case strings.HasSuffix(file, "models.yaml"):
				return []byte("date: 2026-11-28\nmodels: [{match: house, window: 1k}]"), nil
			case file == "included.yaml":
				return []byte("models: [{match: house, window: 1k}]"), nil
			case strings.HasPrefix(file, "/run/secrets/"), file == "PATH", strings.HasSuffix(file, "known_hosts"):
				return []byte("a-secret-in-" + path.Base(file)), nil
			}
			return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
		},
		Glob: func(string) ([]string, error) { return []string{"included.yaml"}, nil },
	})
	return err
}
