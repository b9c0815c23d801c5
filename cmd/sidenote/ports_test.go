package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sidenote/proxy/transport/transporttest"
)

// Each combination of port, certificate and key identifies one tenant or none: on a port with a
// tenant only that counts, whatever is sent, and a certificate alone identifies nobody. (P14, T09)
func TestPorts(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair := authority.Issue(time.Now().Add(time.Hour))
	u := newRecorder(t)
	var ports [3]string
	for i := range ports {
		var err error
		if ports[i], err = freeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	const key = "sk-sidenote-canary"
	dir := writeFiles(t, map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key, "ca.pem": authority.PEM, "c.yaml": fmt.Appendf(nil, `
listen:
  - %s
  - {address: %s, tenant: port}
  - {address: %s, tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem}}
upstream: %s
policies: {default: {mode: inject}}
tenants: {port: {policy: default}, keyed: {keys: [{sha256: %x}]}}
`, ports[0], ports[1], ports[2], u.URL, sha256.Sum256([]byte(key)))})
	p := serveIn(t, noEnv, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:", "--listen", "")
	with := func(certificate bool) *http.Client {
		c := &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}
		if certificate {
			c.Certificates = []tls.Certificate{pair.TLS()}
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	}
	plain, secure := "http://", "https://"
	for _, c := range []struct {
		url         string
		certificate bool
		key         string
		status      int // 0: no connection
		tenant      string
	}{
		{plain + ports[0], false, "", 401, ""},
		{plain + ports[0], false, "sk-other", 401, ""},
		{plain + ports[0], false, key, 200, "keyed"},
		{plain + ports[1], false, "", 200, "port"},
		{plain + ports[1], false, "sk-other", 200, "port"},
		{plain + ports[1], false, key, 200, "port"},
		{secure + ports[2], false, key, 0, ""},
		{secure + ports[2], true, "", 401, ""},
		{secure + ports[2], true, key, 200, "keyed"},
		{plain + ports[2], false, key, 0, ""},
	} {
		client := with(c.certificate)
		req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		before := u.count()
		resp, err := client.Do(req)
		if c.status == 0 {
			if err == nil {
				_ = resp.Body.Close()
				t.Errorf("%+v: answered %d", c, resp.StatusCode)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		if resp.StatusCode != c.status || (u.count() > before) != (c.status == 200) {
			t.Errorf("%+v: status %d", c, resp.StatusCode)
		}
		if c.tenant != "" {
			if header := u.last(t).header; strings.Contains(fmt.Sprint(header), "canary") {
				t.Errorf("%+v: the upstream saw %v", c, header)
			}
			id := resp.Header.Get("Sidenote-Id")
			for line := range strings.Lines(p.out.until(t, id)) {
				if strings.Contains(line, id) && !strings.Contains(line, `"tenant":"`+c.tenant+`"`) {
					t.Errorf("%+v: logged as %s", c, line)
				}
			}
		}
	}
}

// The official SDK sends requests over TLS, streamed and not, while certificates are replaced: no
// request fails, and the new certificate is served. sidenote health follows it.
func TestRotationUnderLoad(t *testing.T) {
	old, fresh := transporttest.NewAuthority(), transporttest.NewAuthority()
	first, second := old.Issue(time.Now().Add(time.Hour)), fresh.Issue(time.Now().Add(time.Hour))
	u := newRecorder(t)
	telemetry, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := writeFiles(t, map[string][]byte{"cert.pem": first.Cert, "key.pem": first.Key, "c.yaml": fmt.Appendf(nil, `
listen: {address: 127.0.0.1:0, tls: {cert: cert.pem, key: key.pem}}
telemetry: {listen: '%s', tls: {cert: cert.pem, key: key.pem}}
upstream: %s
`, telemetry, u.URL)})
	config := filepath.Join(dir, "c.yaml")
	p := serve(t, "--config", config, "--state", ":memory:")
	said := p.out.until(t, "https://")
	_, rest, _ := strings.Cut(said, "https://")
	base := "https://" + rest[:strings.IndexAny(rest, "/ \n")]
	health := func() {
		t.Helper()
		var out strings.Builder
		if code := Run(t.Context(), []string{"health", "--config", config}, strings.NewReader(""), &out, &out, noEnv); code != exitDone {
			t.Errorf("health ends with %d: %s", code, out.String())
		}
	}
	health()
	both := old.Pool.Clone()
	both.AppendCertsFromPEM(fresh.PEM)
	var seen sync.Map // first issuers by key
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // a handshake for each request
		TLSClientConfig: &tls.Config{RootCAs: both, MinVersion: tls.VersionTLS12, VerifyConnection: func(s tls.ConnectionState) error {
			seen.Store(string(s.PeerCertificates[0].Raw), true)
			return nil
		}},
	}}
	sdk := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0), option.WithHTTPClient(client))
	ask := func(ctx context.Context, stream bool) error {
		params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")}}
		if !stream {
			_, err := sdk.Chat.Completions.New(ctx, params)
			return err
		}
		s := sdk.Chat.Completions.NewStreaming(ctx, params)
		text := ""
		for s.Next() {
			text += s.Current().Choices[0].Delta.Content
		}
		if s.Err() == nil && text != "Sixteen weeks [1]." {
			return fmt.Errorf("streamed %q", text)
		}
		return s.Err()
	}
	served := func(pair transporttest.Pair) bool {
		_, ok := seen.Load(string(pair.TLS().Certificate[0]))
		return ok
	}
	rotated := make(chan struct{})
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-rotated:
					return
				default:
				}
				if err := ask(t.Context(), (i+n)%2 == 0); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), second.Cert, 0o600); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), second.Key, 0o600); err != nil {
		t.Error(err)
	}
	p.out.until(t, "listen: 127.0.0.1:0: new certificates are used")
	close(rotated)
	load.Wait()
	if err := ask(t.Context(), false); err != nil || !served(second) {
		t.Errorf("the new certificate is not served: %v", err)
	}
	health()
}
