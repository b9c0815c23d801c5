package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"sidenote/cmd/sidenote/internal/config"
)

type healthCmd struct {
	URL       string        `name:"url" placeholder:"URL" help:"What to ask (/healthz of the telemetry or admin listener)."`
	Config    string        `placeholder:"FILE" help:"Configuration that names the listeners."`
	Admin     string        `placeholder:"HOST:PORT" help:"Admin listener."`
	Telemetry string        `placeholder:"HOST:PORT" help:"Telemetry listener, preferred where there is one."`
	Timeout   time.Duration `default:"3s" help:"How long to wait."`
}

// Help shows how health is used.
func (healthCmd) Help() string {
	return "Ends with 0 when /healthz answers 200, else with 1.\n\nsidenote health\n\nsidenote health --url http://127.0.0.1:9464/readyz"
}

// Run asks once.
func (c *healthCmd) Run(a *app) error {
	target, err := c.target(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return usageError{fmt.Errorf("--url: %w", err)}
	}
	resp, err := probeClient().Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return fmt.Errorf("ask %s: %w", target, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for the message
		return fmt.Errorf("%s answers %s: %s", target, resp.Status, body)
	}
	return nil
}

// probeClient returns a client that asks one address only: it uses no proxy of the
// environment and follows no redirect.
func probeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// target is the URL to ask.
func (c *healthCmd) target(a *app) (string, error) {
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
	at := cfg.Telemetry.Listen
	if at == config.Off {
		at = cfg.Admin.Listen
	}
	if at == config.Off {
		return "", usageError{errors.New("both telemetry and admin are off, so there is nothing to ask; give --url")}
	}
	return "http://" + local(at) + "/healthz", nil
}

// local is where a program on this machine calls a listener of the configuration: one on
// all interfaces has no address of its own.
func local(at config.Address) string {
	host, port, err := net.SplitHostPort(string(at))
	if err != nil {
		panic("BUG: address was not checked: " + string(at))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
