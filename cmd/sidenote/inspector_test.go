package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// browse asks for a page as a browser does that follows no redirects.
func browse(t *testing.T, method, address, form, session string) (resp *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Cookie", session)
	if resp, err = http.DefaultTransport.RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// The pages want the admin token where the port does; a session outlives that the
// configuration is read again.
func TestInspectorSessions(t *testing.T) {
	env := func(name string) (string, bool) { return "tok", name == "SIDENOTE_ADMIN_TOKEN" }
	p := serveIn(t, env, "--upstream", "http://127.0.0.1:1", "--state", t.TempDir())
	if resp, _ := browse(t, "GET", p.admin+"/requests", "", ""); resp.Header.Get("Location") != "/signin?next=%2Frequests" {
		t.Errorf("without a session: %d %s", resp.StatusCode, resp.Header)
	}
	resp, _ := browse(t, "POST", p.admin+"/signin", "token=tok", "")
	session, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	for range 2 {
		if resp, body := browse(t, "GET", p.admin+"/requests", "", session); resp.StatusCode != 200 || !strings.Contains(body, "<h1>Requests</h1>") {
			t.Errorf("with a session: %d %s", resp.StatusCode, body)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", p.admin+"/v1/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer tok")
		again, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		again.Body.Close()
		if again.StatusCode != 200 {
			t.Fatalf("reload: %s", again.Status)
		}
	}
}

// A demo that goes on says where its requests can be looked at, and there they are.
func TestDemoSaysWhereToLook(t *testing.T) {
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(out.ended)
		Run(ctx, []string{"demo", "--serve"}, strings.NewReader(""), out, io.Discard, func(string) (string, bool) { return "", false })
	}()
	defer func() { stop(); <-out.ended }()
	text := out.until(t, "All requests from now on:  ")
	address := regexp.MustCompile(`What the model was shown:  (http://127\.0\.0\.1:[0-9]+)/(requests/[0-9A-Z]{26})\nAll requests from now on:  (http://127\.0\.0\.1:[0-9]+)/\n`).FindStringSubmatch(text)
	if address == nil || address[1] != address[3] {
		t.Fatal(text)
	}
	if _, body := browse(t, "GET", address[1]+"/"+address[2], "", ""); !strings.Contains(body, "cache=miss") || !strings.Contains(body, "leave.md") {
		t.Errorf("the page of the request: %s", body)
	}
	if _, body := browse(t, "GET", address[1]+"/requests", "", ""); strings.Count(body, `title="injected; sources=6; `) != 2 {
		t.Error(body)
	}
}
