package http1_test

import (
	"testing"

	"sidenote/proxy/transport/http1"
)

// A deployment is replaced only in the path, only once, and by a single segment whatever its name.
func TestAppendTargetInDeployment(t *testing.T) {
	for target, want := range map[string]string{
		"/openai/deployments/gpt-4o/chat/completions?api-version=1": "/openai/deployments/my%20mini%2F2/chat/completions?api-version=1",
		"/deployments/a/b/deployments/c":                            "/deployments/my%20mini%2F2/b/deployments/c",
		"/deployments/a":                                            "/deployments/my%20mini%2F2",
		"/deployments/":                                             "/deployments/my%20mini%2F2",
		"/v1/chat/completions":                                      "/v1/chat/completions",
		"/v1/chat/completions?of=/deployments/a/":                   "/v1/chat/completions?of=/deployments/a/",
		"/deployments":                                              "/deployments",
	} {
		got, ok := http1.AppendTarget([]byte("POST "), "", []byte(target), "my mini/2")
		if string(got) != "POST "+want || !ok {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if got, _ := http1.AppendTarget(nil, "/openai/deployments/a", []byte("/chat/completions"), "b"); string(got) != "/openai/deployments/b/chat/completions" {
		t.Errorf("of a base: %s", got)
	}
}
