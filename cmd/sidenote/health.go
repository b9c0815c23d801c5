package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy"
)

type healthCmd struct {
	URL       string        `name:"url" placeholder:"URL" help:"What to ask (/healthz of the telemetry or admin listener)."`
	Config    string        `placeholder:"FILE" help:"Configuration that names the listeners."`
	Admin     string        `placeholder:"HOST:PORT" help:"Admin listener."`
	Telemetry string        `placeholder:"HOST:PORT" help:"Telemetry listener, preferred where there is one."`
	Timeout   time.Duration `default:"3s" help:"How long to wait."`
	Cert      string        `placeholder:"FILE" help:"Certificate to show to a listener that asks for one, PEM (that of the listener)."`
	Key       string        `placeholder:"FILE" help:"Its key, PEM."`
}

// Help shows how health is used.
func (healthCmd) Help() string {
	return "Exits with 0 if /healthz answers 200, else with 1.\n\nsidenote health\n\nsidenote health --url http://127.0.0.1:9464/readyz"
}

// Run sends one probe.
func (c *healthCmd) Run(a *app) error {
	cl := probeClient()
	shown := &client.Certificate{Cert: c.Cert, Key: c.Key}
	target, err := c.target(a, cl.Transport.(*http.Transport), shown)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return usageError{fmt.Errorf("--url: %w", err)}
	}
	resp, err := cl.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return fmt.Errorf("ask %s: %w", target, shown.Explain(err, "--cert and --key"))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for the message
		return fmt.Errorf("%s answers %s: %s", target, resp.Status, body)
	}
	return nil
}

// probeClient returns a client that calls one address only: it uses no proxy of the environment
// and follows no redirect.
func probeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reachable returns an error unless the upstream answers; any status will do.
func reachable(ctx context.Context, u proxy.Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.BaseURL.String(), nil)
	if err != nil {
		return err
	}
	client := probeClient()
	client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: u.Dial.DialContext, TLSClientConfig: u.Dial.TLS(u.BaseURL.Hostname())}
	resp, err := client.Do(req)
	if err != nil {
		return terminal.Cause(err)
	}
	return resp.Body.Close()
}

// target returns the URL to probe. For a TLS listener of the configuration, transport trusts only
// its certificate, which need not name a loopback address. It presents the given client
// certificate, or the listener's own if client_ca issued that too.
func (c *healthCmd) target(a *app, transport *http.Transport, shown *client.Certificate) (string, error) {
	var err error
	if transport.TLSClientConfig, err = shown.Settings(); err != nil {
		return "", usageError{err}
	}
	if c.URL != "" {
		if u, err := url.Parse(c.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", usageError{fmt.Errorf("--url: %q is not a URL; write it as in http://127.0.0.1:8081/healthz", c.URL)}
		}
		return c.URL, nil
	}
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{Admin: c.Admin, Telemetry: c.Telemetry}}.listeners(a)
	if err != nil {
		return "", err
	}
	at, files, key := cfg.Telemetry.Listen, cfg.Telemetry.TLS, "telemetry.tls"
	if at == config.Off {
		at, files, key = cfg.Admin.Listen, cfg.Admin.TLS, "admin.tls"
	}
	if at == config.Off {
		return "", usageError{errors.New("both telemetry and admin are off, so there is nothing to ask; give --url")}
	}
	var host string
	if path := at.Socket(); path != "" {
		host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else {
		host = serving.Local(at)
	}
	if !files.On() {
		return "http://" + host + "/healthz", nil
	}
	text, err := os.ReadFile(files.Cert)
	if err != nil {
		return "", fmt.Errorf("%s.cert: %w", key, err)
	}
	shown.OwnCert, shown.OwnKey = files.Cert, files.Key
	client.OnlyTrust(transport.TLSClientConfig, text, key)
	return "https://" + host + "/healthz", nil
}
