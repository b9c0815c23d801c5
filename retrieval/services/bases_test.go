package services_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sidenote/retrieval/services"
)

// A call goes to the next base URL, with that URL's own path, if no connection to the first can be
// made, and to that one first for some time. Once a request was sent it goes nowhere else.
func TestCallsGoToTheNextBaseURL(t *testing.T) {
	var got []string
	cut := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got = append(got, r.Host+r.URL.RequestURI()+" "+string(body))
		if err != nil || cut {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"results":[{"index":0,"relevance_score":0.5}]}`)
	}))
	defer srv.Close()
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	dialled := 0
	refuses := func(context.Context, string, string) (net.Conn, error) {
		dialled++
		return nil, errors.New("connection refused")
	}
	c := services.NewReranker(services.RerankOptions{
		Name: "up", BaseURL: parse("http://first.test/a%20b/v1"), Dialect: services.RerankCohere, Dial: refuses,
		Others: []services.Base{{URL: parse("http://second.test/v1"), Dial: refuses}, {URL: parse(srv.URL + "/other/v2/")}, {URL: parse("http://never.test"), Dial: refuses}},
	})
	defer c.Close()
	ask := func() error {
		_, err := c.Scores(t.Context(), "m", "q", []string{"d"})
		return err
	}
	for range 2 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	const body = `{"model":"m","query":"q","documents":["d"]`
	want := strings.TrimPrefix(srv.URL, "http://") + "/other/v2/rerank " + body
	if len(got) != 2 || !strings.HasPrefix(got[0], want) || !strings.HasPrefix(got[1], want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if dialled != 2 {
		t.Errorf("%d connections were tried, want one for each of the first two", dialled)
	}
	cut = true
	if err := ask(); err == nil || dialled != 2 {
		t.Errorf("%v after %d failed connections", err, dialled)
	}
}

// The error of a service with several base URLs is that of the last one tried.
func TestNoBaseURLCanBeReached(t *testing.T) {
	refuses := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	base := &url.URL{Scheme: "http", Host: "a.test"}
	c := services.NewReranker(services.RerankOptions{Name: "up", BaseURL: base, Dialect: services.RerankCohere, Dial: refuses, Others: []services.Base{{URL: base, Dial: refuses}}})
	defer c.Close()
	if _, err := c.Scores(t.Context(), "m", "q", []string{"d"}); err == nil || err.Error() != "rerank: connection refused" {
		t.Errorf("got %v", err)
	}
}
