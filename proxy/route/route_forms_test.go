package route_test

import (
	"testing"

	"sidenote/proxy/route"
)

// The normalised path is what the most lenient server reads, and a request is ambiguous if it
// differs from what was sent.
func TestNormalForm(t *testing.T) {
	for raw, want := range map[string]string{
		// segments
		"/":             "/",
		"/a":            "/a",
		"/a/b.c/.d/..e": "/a/b.c/.d/..e",
		"/a/":           "/a",
		"//a":           "/a",
		"/a//b":         "/a/b",
		"/a/./b/.":      "/a/b",
		"/a/b/../c":     "/a/c",
		"/a/b/../../c":  "/c",
		"/../../a":      "/a",
		"/a/..":         "/",
		`/a\b`:          "/a/b",
		"/a;v=1/b;c":    "/a/b",
		"/a/;/b":        "/a/b",
		// bytes without a special meaning
		"/~!$&'()*+,:@=|^_-": "/~!$&'()*+,:@=|^_-",
		"/\x7f":              "/\x7f",
		"/é":                 "/é",
		// white space, and bytes that end the path
		"/a ":     "/a",
		"/a\t/b":  "/a/b",
		"/a b":    "/a b",
		"/a\x00b": "/a",
		"/a#b":    "/a",
		"/a%23b":  "/a",
		"/a%3Fb":  "/a",
		"/a%00b":  "/a",
		"/a%20/b": "/a/b",
		// escapes
		"/%61%2f%2F":   "/a",
		"/a%2fb":       "/a/b",
		"/a%2":         "/a%2",
		"/a%":          "/a%",
		"/%4":          "/%4",
		"/a%2%66":      "/a%2f",
		"/%252e":       "/%2e",
		"/%2e%2e/a":    "/a",
		"/%5ca":        "/a",
		"/a%3b/b":      "/a/b",
		"/%30%39%3A":   "/09:",
		"/%4a%4f%6A":   "/JOj",
		"/%fa%Af":      "/\xfa\xaf",
		"/%g1%1g":      "/%g1%1g",
		"/%G1%1G":      "/%G1%1G",
		"/%/1%1/":      "/%/1%1",
		"/%:1%1:":      "/%:1%1:",
		"/%`1%1`":      "/%`1%1`",
		"/%@1%1@":      "/%@1%1@",
		"/%-1%1-":      "/%-1%1-",
		"/% 1":         "/% 1",
		"/%c3%a9%C3%A": "/é\xc3%A",
		// other forms of target
		"*":                     "*",
		"**":                    "/**",
		"x":                     "/x",
		"":                      "/",
		"example.com:443":       "/example.com:443",
		"://":                   "/",
		"http://host":           "/",
		"http://host/":          "/",
		"http://host/a":         "/a",
		"http://host#/a":        "/",
		"http://host?/a":        "/",
		"http://host/a?b":       "/a",
		"/a?http://host/b":      "/a",
		"/http://host/a":        "/http:/host/a",
		"http://u:p@[::1]:80/a": "/a",
		"?/a":                   "/",
		"/?a":                   "/",
		"/a?/../b#%":            "/a",
	} {
		for _, method := range []string{"GET", "POST"} {
			got := route.Classify([]byte(method), []byte(raw))
			if got.Path != want {
				t.Errorf("%s %q: %q, want %q", method, raw, got.Path, want)
			}
			sent := raw
			switch raw { // here the path is only a part
			case "http://host/", "http://host/a", "http://host/a?b", "/a?http://host/b", "http://u:p@[::1]:80/a", "/?a", "/a?/../b#%":
				sent = want
			}
			if got.Ambiguous != (sent != want) || got.Route != route.Other {
				t.Errorf("%s %q: %s, ambiguous %v", method, raw, got.Route, got.Ambiguous)
			}
		}
	}
}

// Classify must not read beyond the target: that memory belongs to another request.
func TestEscapeAtTheEnd(t *testing.T) {
	buffer := []byte("/a%2f")
	for n, want := range []string{"/", "/", "/a", "/a%", "/a%2", "/a"} {
		if got := route.Classify([]byte("GET"), buffer[:n]); got.Path != want {
			t.Errorf("%q: %q, want %q", buffer[:n], got.Path, want)
		}
	}
}

// Each route is identified by the end of the path and by its methods.
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		method, target string
		want           route.Kind
	}{
		{"POST", "/chat/completions", route.Chat},
		{"POST", "/v1/threads/t/chat/completions", route.Chat},
		{"POST", "/completions", route.Completions},
		{"POST", "/responses", route.Responses},
		{"POST", "/v1/responses/input_tokens", route.InputTokens},
		{"POST", "/v1/responses/compact", route.Compact},
		{"POST", "/v1/responses/resp_1/cancel", route.Stored},
		{"GET", "/v1/responses/resp_1/input_items", route.Stored},
		{"GET", "/v1/responses", route.Stored},
		{"POST", "/messages", route.Messages},
		{"POST", "/v1/threads/messages", route.Assistants},
		{"GET", "/v1/assistants", route.Assistants},
		{"GET", "/v1/realtime", route.Realtime},
		{"POST", "/v1/realtime/sessions", route.Realtime},
		{"DELETE", "/v1/responses/resp_1", route.Stored},
		{"POST", "/v1/responsesx", route.Other},
		{"POST", "/v1/realtimes", route.Other},
		{"POST", "/v1/threadsx/messages", route.Messages},
		{"POST", "/v1/messages/count_tokens", route.CountTokens},
		{"POST", "/v1/messages/batches", route.Other},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-6@20260101:rawPredict", route.Messages},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-6:streamRawPredict", route.Messages},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", route.CountTokens},
		{"POST", "/v1/projects/p/locations/l/publishers/google/models/gemini:rawPredict", route.Other},
		{"POST", "/v1/projects/p/locations/l/publishers/anthropic/models/claude:predict", route.Other},
		{"POST", "/model/eu.anthropic.claude-sonnet-4-6/invoke", route.Messages},
		{"POST", "/model/eu.anthropic.claude-sonnet-4-6/invoke-with-response-stream", route.Other},
		{"POST", "/model/amazon.nova-pro/invoke", route.Other},
		{"POST", "/embeddings", route.Embeddings},
		{"POST", "/moderations", route.Moderations},
		{"POST", "/v1/models", route.Other},
		{"POST", "/v1/modelsx", route.Other},
		{"POST", "/essages", route.Other},
		{"GET", "/v1/models", route.Models},
		{"HEAD", "/v1/models", route.Models},
		{"GET", "/models/a/b", route.Models},
		{"GET", "/v1/modelsx", route.Other},
		{"GET", "/v1/model", route.Other},
		{"get", "/v1/models", route.Other},
		{"GET", "/v1/completions", route.Other},
		{"PUT", "/v1/chat/completions", route.Other},
		{"", "/v1/chat/completions", route.Other},
	} {
		if got := route.Classify([]byte(c.method), []byte(c.target)); got.Route != c.want || got.Ambiguous {
			t.Errorf("%s %s: %s, ambiguous %v; want %s", c.method, c.target, got.Route, got.Ambiguous, c.want)
		}
	}
	for kind, want := range map[route.Kind]bool{
		route.Chat: false, route.Completions: true, route.Responses: false, route.InputTokens: false, route.Compact: false, route.Messages: false, route.CountTokens: false,
		route.Embeddings: false, route.Moderations: false, route.Models: false, route.Stored: false, route.Assistants: true, route.Realtime: true, route.Other: false,
	} {
		if kind.Generates() != want {
			t.Errorf("%s generates: %v", kind, !want)
		}
	}
}

// With Sidenote's own key, only usual ends of base URLs may precede a route.
func TestPrefixesOfAllowedRoutes(t *testing.T) {
	for prefix, want := range map[string]bool{
		"": true, "/v1": true, "/v0": true, "/v9": true, "/v10beta": true, "/v1/v2": true, "/api": true, "/openai": true, "/openai/v1": true,
		"/openai/deployments/a": true, "/deployments/a": true, "/v1/deployments/vx": true,
		"/v": false, "/vx": false, "/v/": false, "/v:": false, "/v.1": false, "/v-1": false, "/1": false, "/V1": false, "/x1": false, "/apix": false, "/v1/x": false, "/x/v1": false,
		"/openai/deployments": false, "/x/deployments/a": false, "/openai/deployments/a/b": false, "/openai/deployments/a/v1": false,
	} {
		for _, target := range []string{prefix + "/chat/completions", prefix + "/audio/speech"} {
			routes := []string{"/audio/speech", "/chat/completions"}
			if got := route.Classify([]byte("POST"), []byte(target)).Allowed([]byte("POST"), routes); got != (want && prefix != "/v/") {
				t.Errorf("POST %s: %v", target, got)
			}
		}
		target := prefix + "/models"
		if got := route.Classify([]byte("GET"), []byte(target)).Allowed([]byte("GET"), []string{"/x", "/models"}); got != want {
			t.Errorf("GET %s: %v", target, got)
		}
	}
	for _, c := range []struct{ method, target string }{
		{"GET", "/"}, {"GET", "/v1"}, {"GET", "/v1/modelsx"}, {"GET", "/v1/v2"}, {"GET", "/v1/completions"}, {"PUT", "/v1/models"}, {"POST", "/v1/models"},
		{"POST", "/"}, {"POST", "/v1"}, {"POST", "/v1/v2"}, {"PUT", "/v1/chat/completions"}, {"POST", "/v1/messages/batches"}, {"POST", "/v1/models/x/messages"},
	} {
		if route.Classify([]byte(c.method), []byte(c.target)).Allowed([]byte(c.method), nil) {
			t.Errorf("%s %s is allowed", c.method, c.target)
		}
	}
	for _, suffix := range route.Defaults() {
		method := []byte("POST")
		if suffix == "/models" {
			method = []byte("GET")
		}
		if !route.Classify(method, []byte("/v1"+suffix)).Allowed(method, nil) {
			t.Errorf("%s is not allowed", suffix)
		}
	}
}
