package main

import (
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
)

// The image listens on every interface, and does not start open by itself: its user
// says so, or gives tenants keys. What we tell people to run says so in sight.
func TestM02ImageDoesNotStartOpen(t *testing.T) {
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

// Who opens a port says at whose cost.
func TestM02OpenLine(t *testing.T) {
	l := addressed{at: net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}}
	for file, want := range map[string]string{
		"upstream: http://u.test\n":                                  "open: anyone who reaches [::]:8080 may ask, without a key",
		"upstream: {base_url: http://u.test, api_key: {env: KEY}}\n": "open: anyone who reaches [::]:8080 may ask, without a key and with the api_key of upstream default",
	} {
		cfg, err := config.Load(config.Source{
			Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte("listen: ':8080'\nidentity: {open: true}\n" + file), nil },
			Env: func(string) (string, bool) { return "sk-canary", true },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := openLine(cfg, l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An addressed is a listener of some address.
type addressed struct {
	net.Listener
	at net.TCPAddr
}

func (a addressed) Addr() net.Addr { return &a.at }

// A name may lead elsewhere than it looks: the address that was taken counts.
func TestM02RealAddressCounts(t *testing.T) {
	load := func(listen string, open bool) *config.Config {
		cfg, err := config.Load(config.Source{Flags: config.Flags{Upstream: "http://u.test", Listen: listen, Open: &open}})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	for _, c := range []struct {
		listen, real, want string
		open               bool
	}{
		{"localhost:8080", "192.0.2.1", "listen: localhost:8080 is 192.0.2.1:8080 here, which can be reached from other machines, and callers need no key; write 127.0.0.1:8080", false},
		{"localhost:8080", "127.0.0.1", "", false},
		{"localhost:8080", "::1", "", false},
		{"localhost:8080", "192.0.2.1", "", true},
		{"0.0.0.0:8080", "::", "", true},
	} {
		l := addressed{at: net.TCPAddr{IP: net.ParseIP(c.real), Port: 8080}}
		got := ""
		if err := refuseOpen(load(c.listen, c.open), l); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s at %s, open %v: got %q, want %q", c.listen, c.real, c.open, got, c.want)
		}
	}
}
