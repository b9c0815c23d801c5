package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

func TestModelsHas(t *testing.T) {
	list := tenant.Models{"gpt-5*", "o3", "vendor/x-*"}
	for name, want := range map[string]bool{
		"gpt-5": true, "gpt-5-mini": true, "o3": true, "vendor/x-1": true,
		"gpt-4": false, "GPT-5": false, " gpt-5": false, "o3-mini": false, "": false, "*": false, "vendor/": false,
	} {
		if list.Allows(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
		if !tenant.Models(nil).Allows(name) || (tenant.Models{}).Allows(name) {
			t.Errorf("%q: no list, or an empty one", name)
		}
	}
}

// form returns a form with a file and the given fields, as official SDKs encode it.
func form(fields ...string) (contentType, body string) {
	const file = "--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n\x00\xff\n\r\n"
	return "Content-Type: multipart/form-data; boundary=b0", file + strings.Join(fields, "") + "--b0--\r\n"
}

func field(name, value string) string {
	return fmt.Sprintf("--b0\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
}

// modelRig returns a rig whose tenant has a list of models, with these routes open.
func modelRig(t *testing.T, u *stubUpstream) *rig {
	t.Helper()
	return open(t, u, func(p *tenant.Policy) {
		p.Models, p.MaxRewriteBytes = tenant.Models{"gpt-5*", "o3"}, 4000
		p.Routes = []string{"/chat/completions", "/completions", "/embeddings", "/responses", "/moderations", "/models", "/audio/transcriptions"}
	})
}

// A request for a listed model is forwarded unchanged.
func TestModelsThatAreAllowed(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := modelRig(t, u)
	formHead, formBody := form(field("model", "o3"), field("language", "model"))
	for _, c := range []struct{ line, head, body string }{
		{"POST /v1/embeddings", "Content-Type: application/json; charset=UTF-8", ` {"input":"model",  "model":"gpt-5-x", "n":1.0 }`},
		{"POST /completions", "X: y", `{"model":"o3","prompt":"x"}`},
		{"POST /v1/responses?x=1", "Content-Type: application/json", `{"model":"o3","models":["gpt-5"]}`},
		{"POST /v1/moderations", "Content-Type: application/json", `{"model":"o3"}`},
		{"POST /openai/deployments/gpt-5.prod/embeddings?api-version=2024-10-21", "Content-Type: application/json", `{"input":"x"}`},
		{"POST /v1/audio/transcriptions", formHead, formBody},
		{"GET /v1/models", "X: y", ""},
		{"GET /v1/models/gpt-5-mini", "X: y", ""},
	} {
		for _, chunked := range []bool{false, true} {
			framing, body := fmt.Sprintf("Content-Length: %d", len(c.body)), c.body
			if chunked {
				framing, body = "Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(c.body), c.body)
			}
			if c.body == "" {
				framing, body = "Y: z", ""
			}
			resp := g.raw(t, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n\r\n%s", c.line, c.head, framing, body))
			if resp.StatusCode != 200 {
				b, _ := io.ReadAll(resp.Body)
				t.Errorf("%s: %d %s", c.line, resp.StatusCode, b)
				continue
			}
			name, value, _ := strings.Cut(c.head, ": ")
			if s := u.next(t); s.body != c.body || s.header(name) != value {
				t.Errorf("%s went up as %q", c.line, s)
			}
			g.reports.next(t)
		}
	}
	resp, _ := g.post(t, strings.Replace(chatBody, `"m"`, `"gpt-5"`, 1))
	if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, "injected") {
		t.Errorf("a chat: %d %s", resp.StatusCode, got)
	}
	u.next(t)
	zipped := gzipped(t, `{"model":"gpt-5","input":"x"}`)
	resp = g.raw(t, fmt.Sprintf("POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(zipped), zipped))
	if s := u.next(t); resp.StatusCode != 200 || s.body != zipped || s.header("Content-Encoding") != "gzip" {
		t.Errorf("gzip: %d, went up as %q", resp.StatusCode, s.body)
	}
}

// C11, T12, T15, T19: a request that names another model, in any way in which an upstream could
// read it, is not forwarded; on each route the answer is that of the API for an unknown model.
func TestModelsThatAreRefused(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := modelRig(t, u)
	f := func(line, head, body, code string, status int) {
		t.Helper()
		resp := g.raw(t, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", line, head, len(body), body))
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(text), `:"`+code+`"`) {
			t.Errorf("%s %q %.60q: %d %s %v", line, head, body, resp.StatusCode, text, err)
		}
		if r := g.reports.next(t); r.Outcome != rewrite.Refused {
			t.Errorf("%s: %+v", line, r)
		}
	}
	const (
		isJSON  = "Content-Type: application/json"
		missing = "model_not_found"
	)
	for _, route := range []string{"/v1/chat/completions", "/completions", "/v1/embeddings", "/v1/responses", "/api/v1/moderations", "/v1/audio/transcriptions"} {
		for body, code := range map[string]string{
			`{"model":"gpt-4","messages":[{"role":"user","content":"x"}]}`: missing,
			`{"messages":[{"role":"user","content":"x"}]}`:                 missing,
			`{"model":null}`:                          missing,
			`{"model":"gpt-5","models":["gpt-4"]}`:    missing,
			`{"model":"gpt-5","fallbacks":["gpt-4"]}`: missing,
			`{"model":"gpt-5","model":"gpt-4"}`:       "ambiguous_body",
			`{"model":"gpt-5","Model":"gpt-4"}`:       "ambiguous_body",
			`{"model":"gpt-5\ud800"}`:                 "ambiguous_body",
			"\ufeff" + `{"model":"gpt-5"}`:            "not_json",
			`model=gpt-5`:                             "not_json",
			``:                                        "not_json",
		} {
			status := 400
			if code == missing {
				status = 404
			}
			f("POST "+route, isJSON, body, code, status)
		}
		ok := `{"model":"gpt-5","a":"&model=gpt-4&"}`
		f("POST "+route, "Content-Type: application/x-www-form-urlencoded", ok, "not_json", 400)
		f("POST "+route, "Content-Type: application/json; x=form", ok, "not_json", 400)
		f("POST "+route, isJSON+"\r\nContent-Type: text/plain", ok, "not_json", 400)
		f("POST "+route+"?model=gpt-4", isJSON, ok, "ambiguous_path", 400)
		f("POST "+route+"?a=1;%6dODEL=gpt-4", isJSON, ok, "ambiguous_path", 400)
		f("POST "+route+"?%zz", isJSON, ok, "ambiguous_path", 400)
		f("POST "+route+"/", isJSON, ok, "ambiguous_path", 400)
		f("POST "+route, isJSON, `{"model":"gpt-5","x":"`+strings.Repeat("x", 5000)+`"}`, "body_too_large", 413)
		f("POST "+route, isJSON+"\r\nContent-Encoding: compress", ok, "encoded_body", 400)
	}
	f("POST /openai/deployments/gpt-4/chat/completions", isJSON, `{"model":"gpt-5"}`, missing, 404)
	f("POST /openai/deployments/gpt-5/embeddings", isJSON, `{"model":"gpt-4"}`, missing, 404)
	f("GET /v1/models/gpt-4", "X: y", "", missing, 404)
	f("GET /v1/files", "X: y", "", "route_not_allowed", 403)
	f("GET /openai/deployments/gpt-4/models", "X: y", "", missing, 404)
	f("GET /v1/models/gpt-5%2F..%2Fgpt-4", "X: y", "", "ambiguous_path", 400)
	for _, line := range []string{"POST /v1/images/generations", "POST /v1/batches", "GET /v1/realtime", "POST /engines/gpt-4/completions", "PATCH /v1/embeddings"} {
		f(line, isJSON, `{"model":"gpt-5"}`, "route_not_allowed", 403)
	}
	f("POST /v1/messages", isJSON, `{"model":"gpt-5"}`, "permission_error", 403)
	model := field("model", "gpt-5")
	for name, part := range map[string]string{
		"none":        "",
		"another":     field("model", "gpt-4"),
		"twice":       model + field("model", "gpt-4"),
		"other case":  model + field("Model", "gpt-4"),
		"file":        "--b0\r\nContent-Disposition: form-data; name=\"model\"; filename=\"gpt-5\"\r\n\r\ngpt-5\r\n",
		"long":        field("model", "gpt-5"+strings.Repeat("x", 600)),
		"in quotes":   model + "--b0\r\nContent-Disposition: form-data; name=\"x\"; filename=\"a; name=model\"\r\n\r\ngpt-4\r\n",
		"extended":    model + "--b0\r\nContent-Disposition: form-data; name*=utf-8''model\r\n\r\ngpt-4\r\n",
		"not quoted":  model + "--b0\r\nContent-Disposition: form-data; name=model\r\n\r\ngpt-4\r\n",
		"two names":   model + "--b0\r\nContent-Disposition: form-data; name=\"x\"; name=\"model\"\r\n\r\ngpt-4\r\n",
		"two headers": model + "--b0\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ngpt-4\r\n",
		"bare lines":  model + field("x", "\n--b0\nContent-Disposition: form-data; name=\"model\"\n\ngpt-4\n"),
		"encoded":     "--b0\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: base64\r\n\r\ngpt-5\r\n",
		"no end":      model + "--b0\r\nContent-Disposition: form-data; name=\"x\"\r\n",
	} {
		head, body := form(part)
		code, status := "ambiguous_body", 400
		if name == "none" || name == "another" {
			code, status = missing, 404
		}
		f("POST /v1/audio/transcriptions", head, body, code, status)
	}
	head, body := form(model)
	f("POST /v1/audio/transcriptions", head, "preamble\r\n"+body, "ambiguous_body", 400)
	f("POST /v1/audio/transcriptions", head, body+field("model", "gpt-4"), "ambiguous_body", 400)
	f("POST /v1/audio/transcriptions", head+"; charset=utf-16", body, "not_json", 400)
	if len(u.seen) > 0 {
		t.Errorf("what was refused went up: %q", <-u.seen)
	}
}

// The error is the one that clients of OpenAI know.
func TestModelRefusalIsOpenAIs(t *testing.T) {
	g := modelRig(t, newUpstream(t, answerJSON("{}")))
	resp, body := g.post(t, `{"model":"gpt-4","messages":[]}`)
	const want = "{\"error\":{\"message\":\"The model `gpt-4` does not exist or you do not have access to it.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"model_not_found\"}}"
	if resp.StatusCode != http.StatusNotFound || body != want || resp.Header.Get("X-Should-Retry") != "false" ||
		resp.Header.Get(report.HeaderStatus) != "refused; reason=model-not-allowed" {
		t.Errorf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
	if _, body = g.post(t, `{"model":"`+strings.Repeat("é", 2000)[:3800]+`"}`); len(body) > 500 {
		t.Errorf("an error of %d bytes", len(body))
	}
}
