package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy"
	"sidenote/proxy/report/reporttest"
	"sidenote/retrieval/services"
	"sidenote/rewrite/model"
)

type models struct{}

func (models) Model(string) model.Model { return model.Model{} }

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Source{Path: "c.yaml", Read: func(string) ([]byte, error) { return []byte(text), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Clients follow the configuration: an unchanged upstream keeps its client and breaker state, a
// changed one gets a new client, and without a planner there is none. Each upstream has one
// breaker metric across all reloads.
func TestReload(t *testing.T) {
	var down atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer srv.Close()
	shown := map[string]func() bool{}
	p := server.NewPlanners(server.PlannerOptions{
		Cache: config.Default().Cache, Metrics: reporttest.NewMetrics(), Cached: func(cache.Event) {}, Changed: func(string, bool) {},
		Watch: func(name string, open func() bool) {
			if shown[name] != nil {
				t.Errorf("%s is shown twice", name)
			}
			shown[name] = open
		},
	})
	defer p.Close()
	of := func(upstreams, planner string) *proxy.Planners {
		t.Helper()
		made, keep, err := p.Of(load(t, "upstreams: {"+upstreams+"}\npolicies: {default: {upstream: default, planner: "+planner+"}}"), models{})
		if err != nil {
			t.Fatal(err)
		}
		keep()
		return made
	}
	at := "default: " + srv.URL + ", other: " + srv.URL + "/other"
	if of(at, "off") != nil || len(shown) > 0 {
		t.Errorf("without a planner: %d breakers", len(shown))
	}
	first := of(at, "auto")
	if len(first.Upstreams) != 1 || first.Upstreams["default"].API == nil {
		t.Fatalf("planners ask %v", first.Upstreams)
	}
	down.Store(true)
	for range 5 {
		_, _ = first.Upstreams["default"].API.Ask(context.Background(), services.LLMCall{}, services.Prompt{})
	}
	if !shown["planner/default"]() || len(p.Trouble()) != 1 {
		t.Errorf("after failures: open %v, trouble %v", shown["planner/default"](), p.Trouble())
	}
	second := of(at, "{model: m, upstream: default}")
	if second.Upstreams["default"].API != first.Upstreams["default"].API || !shown["planner/default"]() {
		t.Error("an upstream that stays has another client")
	}
	if second.Plans != first.Plans {
		t.Error("plans are forgotten")
	}
	if third := of("default: "+srv.URL+"/v1", "auto"); third.Upstreams["default"].API == first.Upstreams["default"].API || shown["planner/default"]() || len(p.Trouble()) > 0 {
		t.Errorf("another place: trouble %v", p.Trouble())
	}
	if both := of(at, "{model: m, upstream: other}"); both.Upstreams["other"].API == nil || len(both.Upstreams) != 1 || len(shown) != 2 {
		t.Errorf("planners ask %v", both.Upstreams)
	}
	if of(at, "off") != nil || shown["planner/other"]() {
		t.Error("a planner is left")
	}
}
