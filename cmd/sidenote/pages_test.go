package main

import (
	"bytes"
	"fmt"
	"image/png"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The pages that people read; paths in them count from the root.
var pages = []string{
	"README.md", "cmd/sidenote/README.md", "cmd/sidenote/CONFIG.md", "proxy/README.md", "rewrite/README.md", "retrieval/README.md",
	"cache/README.md", "deploy/README.md", "deploy/CONTRIBUTING.md", "deploy/MACHINES.md",
	"deploy/UPGRADES.md", "deploy/CHANGELOG.md",
	"deploy/RUNBOOK.md", "deploy/helm/README.md",
}

const root = "../.."

// A fence is a code block of a page.
type fence struct {
	at, language, text string
}

var fenceLine = regexp.MustCompile("^( *)```(\\w*)$")

// readPage returns the code blocks of a page and the text around them.
func readPage(t *testing.T, name string) (fences []fence, prose string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	var around, inside strings.Builder
	indent, open := "", false
	for i, line := range strings.Split(string(text), "\n") {
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case m != nil && !open:
			open, indent = true, m[1]
			fences = append(fences, fence{at: fmt.Sprintf("%s:%d", name, i+1), language: m[2]})
			inside.Reset()
		case m != nil:
			open = false
			fences[len(fences)-1].text = inside.String()
		case open:
			inside.WriteString(strings.TrimPrefix(line, indent) + "\n")
		default:
			around.WriteString(line + "\n")
			if strings.Count(line, "`")%2 > 0 {
				t.Errorf("%s:%d: code that does not end in its line is not looked at", name, i+1)
			}
		}
	}
	if open {
		t.Fatalf("%s ends within a block", name)
	}
	return fences, around.String()
}

// codeSpan matches code within a line; one in double backticks may hold single ones.
var codeSpan = regexp.MustCompile("``(.+?)``|`([^`\n]+)`")

func spans(prose string) (spans []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(prose, -1) {
		spans = append(spans, strings.TrimSpace(m[1]+m[2]))
	}
	return spans
}

func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) > 150 {
		t.Errorf("it has %d lines; 150 are enough", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("line %d has %d characters; 120 are enough", i+1, n)
		}
	}
}

var linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links lead to existing files and headings, and the README links to each page.
func TestPagesLinkToWhatExists(t *testing.T) {
	linked := map[string]bool{}
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, m := range linkTarget.FindAllStringSubmatch(prose, -1) {
			u, err := url.Parse(m[1])
			if err != nil || u.IsAbs() {
				continue
			}
			target := name
			if u.Path != "" {
				target = path.Join(path.Dir(name), u.Path)
			}
			if name == "README.md" {
				linked[target] = true
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if u.Fragment != "" && !slices.Contains(headings(t, target), u.Fragment) {
				t.Errorf("%s: %s has no such heading", name, m[1])
			}
		}
	}
	for _, name := range pages[1:] {
		if !linked[name] {
			t.Errorf("the README does not lead to %s", name)
		}
	}
}

// The pictures that README.md shows exist, for light and dark, and are small.
func TestReadmePictures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?:src|srcset)="([^"]+)"`).FindAllSubmatch(text, -1)
	if len(shown) != 4 {
		t.Errorf("%d pictures", len(shown))
	}
	for _, m := range shown {
		b, err := os.ReadFile(filepath.Join(root, string(m[1])))
		if err != nil {
			t.Error(err)
			continue
		}
		if c, err := png.DecodeConfig(bytes.NewReader(b)); err != nil || c.Width < 1000 || len(b) > 150_000 {
			t.Errorf("%s: %d bytes, %d pixels wide, %v", m[1], len(b), c.Width, err)
		}
	}
}

// headings returns the anchors of a page, as GitHub makes them.
func headings(t *testing.T, name string) (anchors []string) {
	t.Helper()
	_, prose := readPage(t, name)
	for line := range strings.Lines(prose) {
		if title := strings.TrimLeft(line, "#"); title != line {
			keep := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.TrimSpace(title), "")
			anchors = append(anchors, strings.ReplaceAll(strings.ToLower(keep), " ", "-"))
		}
	}
	return anchors
}

// Paths of the repository on a page exist.
func TestPagesNamePathsThatExist(t *testing.T) {
	ours := regexp.MustCompile(`^(proxy|rewrite|retrieval|cache|cmd|deploy)/[a-zA-Z0-9_./-]+$`)
	seen := 0
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, span := range spans(prose) {
			if !ours.MatchString(span) {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(root, span)); err != nil {
				t.Errorf("%s: there is no %s", name, span)
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d paths: they were not found", seen)
	}
}

// The page for contributors lists exactly the faults that tests name.
func TestPagesFaults(t *testing.T) {
	_, page := readPage(t, "deploy/CONTRIBUTING.md")
	page = strings.Join(strings.Fields(page), " ")
	named := map[string]bool{}
	for _, pattern := range []string{"cmd/sidenote/faults_*_test.go", "proxy/faults_*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`\{"([RUC][0-9]+ [^"]+)"`).FindAllStringSubmatch(string(text), -1) {
				named[m[1]] = true
				if !strings.Contains(page, m[1]) {
					t.Errorf("deploy/CONTRIBUTING.md does not tell of %s", m[1])
				}
			}
		}
	}
	for _, row := range regexp.MustCompile(`(?:^| )([RUC][0-9]+ [^·*|]+?)(?: ·| \*\*| \|)`).FindAllStringSubmatch(page, -1) {
		if !named[row[1]] {
			t.Errorf("deploy/CONTRIBUTING.md: no test is of %s", row[1])
		}
	}
	if len(named) < 50 {
		t.Errorf("found %d faults only", len(named))
	}
}

// Compound words, such as keys, labels and fields, exist in the code.
func TestPagesWords(t *testing.T) {
	code := map[string]bool{}
	word := regexp.MustCompile(`[a-z][a-z0-9]*(?:_[a-z0-9]+)+`)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, w := range word.FindAllString(string(text), -1) {
			code[w] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// These are names of others that Sidenote does not read, or only by constants of the semantic conventions.
	for _, other := range []string{"status_code", "data_source", "text_completion", "cache_read", "finish_reasons", "trec_eval", "extra_body", "cluster_composite_ops_ro", "view_index_metadata"} {
		code[other] = true
	}
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, span := range spans(prose) {
			if strings.ContainsAny(span, "/(") || strings.HasPrefix(span, "sidenote_") {
				continue // paths, calls, and metrics, which have a test of their own
			}
			for _, w := range word.FindAllString(span, -1) {
				if !code[w] {
					t.Errorf("%s: no code knows %s", name, w)
				}
			}
		}
	}
}

// The test command installs nothing if told so, and says before an installation what it installs
// and why.
func TestTestCommandInstalls(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it is a shell script")
	}
	tools := t.TempDir()
	for _, tool := range []string{"bash", "sh", "env", "id", "dirname", "true"} {
		at, err := exec.LookPath(tool)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(at, filepath.Join(tools, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, script := range map[string]string{
		"go": "echo \"go $*\"", "apt-get": "echo \"apt-get $*\"; read answer; echo \"heard $?\"", "sudo": "shift; exec \"$@\"",
	} {
		if err := os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	run := func(ci string, args ...string) (said string, failed bool) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "bash"), append([]string{filepath.Join(root, "deploy/test.sh")}, args...)...)
		cmd.Env = []string{"PATH=" + tools, "CI=" + ci}
		cmd.Stdin = strings.NewReader("yes\n")
		out, err := cmd.CombinedOutput()
		return string(out), err != nil
	}
	said, failed := run("", "--no-install", "./x")
	if failed || strings.Contains(said, "apt-get install") || !strings.Contains(said, "redis-server is missing (") || !strings.Contains(said, " ./x\n") {
		t.Errorf("with --no-install, failed %v: %s", failed, said)
	}
	said, failed = run("", "./x")
	why, installs := strings.Index(said, "redis-server is missing (for tests"), strings.Index(said, "apt-get install -y")
	if failed || why < 0 || installs < why || !strings.Contains(said, "heard 1") {
		t.Errorf("failed %v: %s", failed, said)
	}
	if said, failed = run("1", "--no-install", "./x"); !failed {
		t.Errorf("CI goes on without what tests need: %s", said)
	}
}
