package route_test

import (
	"testing"

	"sidenote/proxy/route"
)

// T15: the normalised path decides, and if it differs from what was sent, the request is
// ambiguous.
func TestClassify(t *testing.T) {
	f := func(method, target string, kind route.Kind, ambiguous bool) {
		t.Helper()
		got := route.Classify([]byte(method), []byte(target))
		if got.Route != kind || got.Ambiguous != ambiguous {
			t.Errorf("%s %s: got %s, ambiguous=%v (%s); want %s, %v", method, target, got.Route, got.Ambiguous, got.Path, kind, ambiguous)
		}
	}
	for _, target := range []string{
		"/v1/chat/completions",
		"/chat/completions",
		"/v1/chat/completions?api-version=2024-10-21&x=%2e%2e//;",
		"/openai/deployments/GPT-4o.prod/chat/completions?api-version=1",
		"/some/Gateway/v3/chat/completions",
		"http://api.openai.com/v1/chat/completions",
		"HTTPS://user@evil.example:8443/v1/chat/completions?x",
	} {
		f("POST", target, route.Chat, false)
	}
	for _, target := range []string{
		"//v1/chat/completions",
		"/v1//chat/completions",
		"/v1/chat/completions/",
		"/v1/./chat/completions",
		"/v1/models/../chat/completions",
		"/../v1/chat/completions",
		"/v1/chat%2Fcompletions",
		"/v1/chat%2fcompletions",
		"/v1/%63hat/completions",
		"/v1/Chat/Completions",
		"/v1/chat/completions;v=1",
		"/v1/chat;x/completions",
		"/v1/chat%5ccompletions",
		`/v1/chat\completions`,
		"/v1/chat/completions%00.png",
		"/v1/chat/completions%3fx=1",
		"/v1/chat/completions#x",
		"/v1/chat/completions%20",
		"/v1/files/%2e%2E/chat/completions",
	} {
		f("POST", target, route.Chat, true)
	}
	f("post", "/v1/chat/completions", route.Chat, true)

	f("POST", "/v1/chat%252fcompletions", route.Other, true) // decoded once, not twice
	f("GET", "/v1/chat/completions", route.Other, false)     // stored completions
	f("POST", "/v1/chat/completions/chatcmpl-1", route.Other, false)
	f("POST", "/v1/xchat/completions", route.Completions, false)
	f("POST", "/v1/mychat-completions", route.Other, false)
	f("POST", "/v1/completions", route.Completions, false)
	f("POST", "/v1/responses", route.Responses, false)
	f("GET", "/v1/responses/resp_1", route.Stored, false)
	f("POST", "/v1/messages", route.Messages, false)
	f("POST", "/v1/threads/t1/messages", route.Assistants, false)
	f("POST", "/v1/embeddings", route.Embeddings, false)
	f("POST", "/v1/moderations", route.Moderations, false)
	f("GET", "/v1/models", route.Models, false)
	f("GET", "/v1/models/Qwen/Qwen3-8B", route.Models, false)
	f("DELETE", "/v1/models/ft:gpt", route.Other, false)
	f("OPTIONS", "*", route.Other, false)
	f("GET", "/.well-known/x", route.Other, false)
	f("GET", "/", route.Other, false)
	f("GET", "", route.Other, true)
	f("GET", "http://host", route.Other, true)
}

// The fast path gives the same results as the general one.
func TestUsualLines(t *testing.T) {
	for _, method := range []string{"POST", "GET", "post"} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"} {
			got, slow := route.Classify([]byte(method), []byte(path)), route.Classify([]byte(method), []byte(path+"?"))
			if got != slow || got.Path != path {
				t.Errorf("%s %s: %+v, with an empty query %+v", method, path, got, slow)
			}
		}
	}
}

// A request with Sidenote's own key reaches an upstream only if it is unambiguously one of
// the listed routes.
func TestAllowedRoutes(t *testing.T) {
	f := func(method, target string, want bool, routes ...string) {
		t.Helper()
		if got := route.Classify([]byte(method), []byte(target)).Allowed([]byte(method), routes); got != want {
			t.Errorf("%s %s with %v: got %v", method, target, routes, got)
		}
	}
	for _, target := range []string{
		"/chat/completions", "/v1/chat/completions", "/openai/v1/responses", "/api/v1beta/embeddings",
		"/openai/deployments/GPT-4o/chat/completions?api-version=1", "/v1/completions", "/v1/moderations",
	} {
		f("POST", target, true)
	}
	f("GET", "/v1/models", true)
	f("HEAD", "/v1/models/gpt-5", true)
	f("GET", "/v1/models/org/name", true)

	f("DELETE", "/v1/models/ft:gpt", false)
	f("GET", "/v1/chat/completions", false) // every tenant's stored answers
	f("GET", "/v1/responses/resp_1", false)
	f("GET", "/v1/files/models/content", false)
	f("POST", "/v1/files", false)
	f("POST", "/v1/threads/x/responses", false)
	f("POST", "/v1/chat/completions/", false)
	f("POST", "/v1/files/..%2fchat/completions", false)
	f("GET", "/v1/models/..%2ffiles", false)
	f("post", "/v1/chat/completions", false)
	f("POST", "/openai/deployments//chat/completions", false)
	f("POST", "/openai/deployments/a/b/chat/completions", false)
	f("OPTIONS", "*", false)

	f("POST", "/v1/chat/completions", true, "/chat/completions")
	f("POST", "/v1/embeddings", false, "/chat/completions")
	f("POST", "/v1/completions", false, "/chat/completions")
	f("GET", "/v1/models", false, "/chat/completions")
	f("POST", "/v1/audio/speech", true, "/audio/speech")
}

// The fast path and the general one agree: with a prefix, which takes the general one, a chat path
// is still a chat path. An ambiguous path is never allowed.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{"/v1/chat/completions", "//a/./../b/;x%2f%", "http://x", "*", "", "/%zz%4", "/a/..", "/.a"} {
		f.Add("POST", s)
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		got := route.Classify([]byte(method), []byte(target))
		again := route.Classify([]byte("POST"), []byte("/x"+got.Path))
		if got.Route == route.Chat && !got.Ambiguous && again.Route != route.Chat {
			t.Errorf("%q is chat, its normal form %q is %s", target, got.Path, again.Route)
		}
		if got.Ambiguous && got.Allowed([]byte(method), nil) {
			t.Errorf("%q is ambiguous and allowed", target)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	method, target := []byte("POST"), []byte("/v1/chat/completions")
	b.ReportAllocs()
	for b.Loop() {
		route.Classify(method, target)
	}
}
