package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// T10: the image listens on every interface, but is not open by default: its user must set that, or
// give tenants keys. The documented commands show it explicitly.
func TestImageDoesNotStartOpen(t *testing.T) {
	file, img := readCompose(t)
	if img.env["SIDENOTE_LISTEN"] != "0.0.0.0:8080" || img.env["SIDENOTE_OPEN"] != "" {
		t.Errorf("the image sets %v", img.env)
	}
	run := func(args ...string) (int, string) {
		var out, errs strings.Builder
		env := func(name string) (string, bool) { v, ok := img.env[name]; return v, ok }
		code := Run(t.Context(), args, strings.NewReader(""), &out, &errs, env)
		return code, out.String() + errs.String()
	}
	const want = "--listen: listen: 0.0.0.0:8080 can be reached from other machines, and callers need no key"
	for _, command := range []string{"check", "serve"} {
		if code, said := run(command, "--upstream", "http://127.0.0.1:9"); code != exitUsage || !strings.HasPrefix(said, want) {
			t.Fatalf("%s: exit code %d: %s", command, code, said)
		}
	}
	if code, said := run("check", "--upstream", "http://127.0.0.1:9", "--open"); code != exitDone || !strings.Contains(said, "unknown    tenant default; anyone who reaches 0.0.0.0:8080 may ask\n") {
		t.Errorf("exit code %d: %s", code, said)
	}
	img.env["SIDENOTE_OPEN"] = "true"
	if code, said := run("check", "--upstream", "http://127.0.0.1:9"); code != exitDone {
		t.Errorf("exit code %d: %s", code, said)
	}
	for _, name := range []string{"one", "two"} {
		if !slices.Contains(file.Services[name].Command, "--open") {
			t.Errorf("compose: %s does not say that it is open: %q", name, file.Services[name].Command)
		}
	}
	for _, page := range []string{"README.md", "deploy/README.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		commands := regexp.MustCompile(`(?m)^ *\$ docker run (?:.*\\\n)*.*\bserve\b.*$`).FindAllString(string(text), -1)
		if len(commands) == 0 || slices.ContainsFunc(commands, func(c string) bool { return !strings.Contains(c, "--open") }) {
			t.Errorf("%s runs the image by %q", page, commands)
		}
	}
}
