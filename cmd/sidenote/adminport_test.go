package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport/transporttest"
)

// Commands reach an admin port over TLS, with client certificates, and over a unix socket: as the
// writer of the state folder, by --admin, and as a probe. Clients without a certificate are
// refused. (T14)
func TestAdminPort(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair, stranger := authority.Issue(time.Now().Add(time.Hour)), transporttest.NewAuthority().Issue(time.Now().Add(time.Hour))
	u := newRecorder(t)
	for name, c := range map[string]struct{ admin, place string }{
		"TLS":          {"{listen: '%s', tls: {cert: cert.pem, key: key.pem}}", "https://"},
		"certificates": {"{listen: '%s', tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}", "https://"},
		"a socket":     {"{listen: 'unix:%s'}", "unix:"},
		"both":         {"{listen: 'unix:%s', tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}", "https://unix:"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key, "ca.pem": authority.PEM,
				"stranger.pem": stranger.Cert, "stranger-key.pem": stranger.Key})
			at := func(name string) string { return filepath.Join(dir, name) }
			address, err := freeAddress()
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.place, "unix:") {
				address = at("admin.sock")
			}
			if err := os.WriteFile(at("c.yaml"), fmt.Appendf(nil, "upstream: %s\nadmin: "+c.admin+"\nstate: state\n", u.URL, address), 0o600); err != nil {
				t.Fatal(err)
			}
			p := serveIn(t, noEnv, "--config", at("c.yaml"), "--admin", "")
			run := func(want int, says string, args ...string) {
				t.Helper()
				var out strings.Builder
				if code := Run(t.Context(), args, strings.NewReader(""), &out, &out, noEnv); code != want || !strings.Contains(out.String(), says) {
					t.Errorf("%q ends with %d: %s", args, code, out.String())
				}
			}
			run(exitDone, "", "health", "--config", at("c.yaml"))
			run(exitDone, "", "mode", "off", "--for", "1h", "--config", at("c.yaml"))
			run(exitDone, "off", "mode", "--config", at("c.yaml"))
			run(exitDone, "", "reload", "--config", at("c.yaml"))
			run(exitDone, "asked the process at "+c.place+address, "knowledge", "list", "--state", at("state"), "--admin-cert", at("cert.pem"), "--admin-key", at("key.pem"))
			flag := strings.TrimPrefix(c.place, "https://") + address
			run(exitDone, "off", "mode", "--config", at("c.yaml"), "--admin", flag)
			if strings.Contains(c.admin, "client_ca") {
				run(exitFailed, "it asks for a client's certificate: give --admin-cert and --admin-key", "mode", "--state", at("state"))
				with := []string{"--admin-cert", at("stranger.pem"), "--admin-key", at("stranger-key.pem")}
				run(exitFailed, "was shown "+at("stranger.pem"), append([]string{"mode", "--config", at("c.yaml")}, with...)...)
				run(exitFailed, "was shown "+at("stranger.pem"), "health", "--config", at("c.yaml"), "--cert", at("stranger.pem"), "--key", at("stranger-key.pem"))
			}
			if c.place == "https://" {
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}}}
				resp, err := client.Get("https://" + address + "/v1/keys")
				if err == nil {
					_ = resp.Body.Close()
				}
				if answered := err == nil; answered == strings.Contains(c.admin, "client_ca") {
					t.Errorf("a client without a certificate: %v", err)
				}
				client.CloseIdleConnections()
			}
			if code := p.stop(); code != exitDone {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// A probe of a telemetry port that requires client certificates uses the port's own if its
// authorities issued that, or the given one; otherwise it says what is wrong.
func TestHealthWithCertificate(t *testing.T) {
	clients, servers := transporttest.NewAuthority(), transporttest.NewAuthority()
	client, both, server := clients.Issue(time.Now().Add(time.Hour)), clients.Issue(time.Now().Add(time.Hour)), servers.Issue(time.Now().Add(time.Hour))
	u := newRecorder(t)
	dir := writeFiles(t, map[string][]byte{"ca.pem": clients.PEM, "client.pem": client.Cert, "client-key.pem": client.Key,
		"both.pem": both.Cert, "both-key.pem": both.Key, "server.pem": server.Cert, "server-key.pem": server.Key})
	at := func(name string) string { return filepath.Join(dir, name) }
	for served, alone := range map[string]int{"both": exitDone, "server": exitFailed} {
		telemetry, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		file := at(served + ".yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, "upstream: %s\ntelemetry: {listen: '%s', tls: {cert: %s.pem, key: %[3]s-key.pem, client_ca: ca.pem}}\n", u.URL, telemetry, served), 0o600); err != nil {
			t.Fatal(err)
		}
		serveIn(t, noEnv, "--config", file, "--state", ":memory:")
		var out strings.Builder
		if code := Run(t.Context(), []string{"health", "--config", file}, strings.NewReader(""), &out, &out, noEnv); code != alone ||
			strings.Contains(out.String(), "give --cert and --key") != (alone == exitFailed) {
			t.Errorf("%s: health ends with %d: %s", served, code, out.String())
		}
		out.Reset()
		if code := Run(t.Context(), []string{"health", "--config", file, "--cert", at("client.pem"), "--key", at("client-key.pem")}, strings.NewReader(""), &out, &out, noEnv); code != exitDone {
			t.Errorf("%s, with a certificate: health ends with %d: %s", served, code, out.String())
		}
	}
}
