package opensearch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/opensearch"
)

// scripted returns a Server at a handler, and the bodies that it was sent, by path.
func scripted(t *testing.T, c engine.Connection, answer func(w http.ResponseWriter, r *http.Request)) (*opensearch.Server, map[string]string) {
	t.Helper()
	sent := map[string]string{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent[r.URL.Path] = string(body)
		answer(w, r)
	}))
	t.Cleanup(h.Close)
	at, err := url.Parse(h.URL)
	must(t, err)
	c.URL = []*url.URL{at}
	return openAs(t, c), sent
}

func TestCredentialIsSentAndNeverShown(t *testing.T) {
	const secret = "s3cret-value"
	for name, c := range map[string]engine.Connection{
		"Basic ":  {User: "reader", Password: func() string { return secret }},
		"ApiKey ": {APIKey: func() string { return secret }},
	} {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			s, _ := scripted(t, c, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.Header.Get("Authorization"), name) {
					t.Errorf("authorization %q, want %s", r.Header.Get("Authorization"), name)
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"error":{"type":"security_exception","reason":"no permissions for `+secret+`"}}`)
			})
			_, err := s.States(t.Context(), []string{"b"})
			want := map[int]error{http.StatusUnauthorized: engine.ErrLogin, http.StatusForbidden: engine.ErrDenied}[status]
			if !errors.Is(err, want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%d: %v, want %v", status, err, want)
			}
		}
	}
}

// What is wrong with one base is no trouble of the others on the same server.
func TestBasesInTroubleAlone(t *testing.T) {
	var schema atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/_mget":
			_, _ = fmt.Fprintf(w, `{"docs":[{"_id":"own","found":true,"_source":{"schema":%d,"current":3,"generation":"aa"}}]}`, schema.Load())
		case "/secret/_search":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":{"type":"security_exception","reason":"no permissions for secret"}}`)
		default:
			_, _ = io.WriteString(w, `{"hits":{"total":{"value":1,"relation":"eq"},"hits":[]}}`)
		}
	}))
	t.Cleanup(h.Close)
	at, err := url.Parse(h.URL)
	must(t, err)
	s, err := opensearch.Open(opensearch.Options{
		Connection: engine.Connection{URL: []*url.URL{at}, Timeout: time.Minute},
		Mappings:   map[string]engine.Mapping{"a": {Table: "open", ID: "_id", Text: "body"}, "b": {Table: "secret", ID: "_id", Text: "body"}},
	})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	for version, want := range map[int32][3]string{1: {"", "security_exception", ""}, 9: {"", "security_exception", "schema of another version"}} {
		schema.Store(version)
		states, err := s.States(t.Context(), []string{"a", "b", "own"})
		must(t, err)
		for i, state := range states {
			if why := state.Trouble; (why == "") != (want[i] == "") || !strings.Contains(why, want[i]) || (state.Generation == "") != (why != "") {
				t.Errorf("state %+v, want trouble %q", state, want[i])
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	s, _ := scripted(t, engine.Connection{}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://other.example/", http.StatusFound)
	})
	if _, err := s.States(t.Context(), []string{"b"}); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
		t.Error(err)
	}
}

const aState = `{"schema":1,"current":3,"next":4,"generation":"aa","documents":1,"chunks":1,"embedded":1,"dimensions":2}`

// speak answers as a server of a version with one base.
func speak(version, search string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = io.WriteString(w, `{"version":`+version+`}`)
		case "/_mget":
			_, _ = io.WriteString(w, `{"docs":[{"_id":"b","found":true,"_source":`+aState+`}]}`)
		case "/_msearch":
			_, _ = io.WriteString(w, search)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}
}

func TestAnswersThatAreWrongAreErrors(t *testing.T) {
	hit := func(chunk string) string { return `{"hits":{"hits":[{"_id":"x","_score":1,"_source":` + chunk + `}]}}` }
	state := `{"hits":{"hits":[{"_id":"b","_source":` + aState + `}]}}`
	empty := `{"hits":{"hits":[]}}`
	for name, search := range map[string]string{
		"not JSON":          `<html>`,
		"too few parts":     `{"responses":[` + state + `]}`,
		"failed shard":      `{"responses":[{"_shards":{"failed":1},"hits":{"hits":[]}},` + empty + `,` + state + `]}`,
		"timed out":         `{"responses":[{"timed_out":true,"hits":{"hits":[]}},` + empty + `,` + state + `]}`,
		"error of one part": `{"responses":[{"status":400,"error":{"type":"x","reason":"y"}},` + empty + `,` + state + `]}`,
		"no document":       `{"responses":[` + hit(`{"c":{"base":"b"}}`) + `,` + empty + `,` + state + `]}`,
		"another base":      `{"responses":[` + hit(`{"c":{"base":"other","doc":"d"}}`) + `,` + empty + `,` + state + `]}`,
		"negative ordinal":  `{"responses":[` + hit(`{"c":{"base":"b","doc":"d","ordinal":-1}}`) + `,` + empty + `,` + state + `]}`,
		"no base64":         `{"responses":[` + hit(`{"c":{"base":"b","doc":"d","packed":"%"}}`) + `,` + empty + `,` + state + `]}`,
		"newer schema":      `{"responses":[` + empty + `,` + empty + `,{"hits":{"hits":[{"_id":"b","_source":{"schema":2}}]}}]}`,
	} {
		s, _ := scripted(t, engine.Connection{}, speak(`{"distribution":"opensearch","number":"3.1.0"}`, search))
		if f, err := s.Search(t.Context(), &engine.Search{Bases: []string{"b"}, Terms: terms("x"), Depth: 5}); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestVersionsThatAreTooOldAreRefused(t *testing.T) {
	for version, want := range map[string]string{
		`{"distribution":"opensearch","number":"2.18.0"}`: "OpenSearch 2.18.0 is older than 2.19",
		`{"number":"7.17.9"}`:                             "Elasticsearch 7.17.9 is older than 8.4",
		`{}`:                                              "neither OpenSearch nor Elasticsearch",
	} {
		s, _ := scripted(t, engine.Connection{}, speak(version, ""))
		if err := s.Init(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestElasticsearchIsAskedInItsDialect checks the requests to the newest version, which no test runs.
func TestElasticsearchIsAskedInItsDialect(t *testing.T) {
	empty := `{"hits":{"hits":[]}}`
	s, sent := scripted(t, engine.Connection{}, speak(`{"number":"9.1.0"}`, `{"responses":[`+empty+`,{"hits":{"hits":[{"_id":"b","_source":`+aState+`}]}}]}`))
	must(t, s.Init(t.Context(), "b"))
	if index := sent["/sidenote.b.chunks-1"]; strings.Contains(index, "knn") || !json.Valid([]byte(index)) {
		t.Errorf("index: %s", index)
	}
	_, err := s.Search(t.Context(), &engine.Search{Bases: []string{"b"}, Vector: []float32{1, 0}, Depth: 5})
	must(t, err)
	want := `"knn":{"field":"vector_2","filter":{"bool":{"filter":[`
	if !strings.Contains(sent["/_msearch"], want) || !strings.Contains(sent["/_msearch"], `"num_candidates":100,"query_vector":[1,0]`) {
		t.Errorf("search: %s, want %s", sent["/_msearch"], want)
	}
}

func TestSetupPrintsTheRequestsOfInit(t *testing.T) {
	s, sent := scripted(t, engine.Connection{Namespace: "ns"}, speak(`{"distribution":"opensearch","number":"2.19.1"}`, ""))
	text, err := s.Setup("b")
	must(t, err)
	must(t, s.Init(t.Context(), "b"))
	for _, path := range []string{"/ns.state-1", "/ns.b.chunks-1", "/ns.b.documents-1", "/ns.b.terms-1", "/ns.state/_create/b"} {
		if !strings.Contains(text, "PUT "+path+"\n"+sent[path]+"\n") || sent[path] == "" {
			t.Errorf("PUT %s %s is not in\n%s", path, sent[path], text)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	at := []*url.URL{{Scheme: "http", Host: "h"}}
	for want, o := range map[string]opensearch.Options{
		"url: is missing":          {},
		"url: ftp://h is neither":  {Connection: engine.Connection{URL: []*url.URL{{Scheme: "ftp", Host: "h"}}}},
		`namespace: "A.b" is not`:  {Connection: engine.Connection{URL: at, Namespace: "A.b"}},
		`base m: index: "a,b"`:     {Connection: engine.Connection{URL: at}, Mappings: map[string]engine.Mapping{"m": {Table: "a,b", ID: "_id", Text: "t"}}},
		"base m: text: is missing": {Connection: engine.Connection{URL: at}, Mappings: map[string]engine.Mapping{"m": {Table: "a", ID: "_id"}}},
	} {
		if _, err := opensearch.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
