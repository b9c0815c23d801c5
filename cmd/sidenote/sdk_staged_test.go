package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// tee also writes the bodies of answers into a buffer.
func tee(to io.Writer) option.Middleware {
	return func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(resp.Body, to), resp.Body}
		}
		return resp, err
	}
}

// all returns the requests so far.
func (u *recorder) all() []recorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// The scenarios of apps under a policy in mode staged: those that ask for text get what they get
// under mode inject, except for the usage; what a chain cannot carry is answered as under mode
// inject.
func TestSDKStaged(t *testing.T) {
	up := newRecorder(t)
	folder := handbook(t)
	start := func(policy string) *process {
		return serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {%s}}\n", up.URL, folder, policy)))
	}
	inject, medical := start("mode: inject"), start("mode: staged, stages: medical")
	unfit := map[string]string{"n": "choices", "tools": "client-tools", "image": "attachments"}
	used := regexp.MustCompile(`"usage":\{[^}]*\}`)
	for name, params := range scenarios() {
		ask := func(t *testing.T, p *process, stream bool) (answer []string, head http.Header, went []recorded) {
			t.Helper()
			before := up.count()
			var sent []byte
			var resp *http.Response
			sdk := sdkClient(p, &sent)
			if stream {
				events := sdk.Chat.Completions.NewStreaming(t.Context(), params, option.WithResponseInto(&resp))
				defer events.Close()
				for events.Next() {
					chunk := events.Current()
					answer = append(answer, chunk.RawJSON())
				}
				if err := events.Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				whole, err := sdk.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
				if err != nil {
					t.Fatal(err)
				}
				answer = []string{whole.RawJSON()}
			}
			return answer, resp.Header, up.all()[before:]
		}
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, stream), func(t *testing.T) {
				want, injected, once := ask(t, inject, stream)
				got, staged, calls := ask(t, medical, stream)
				if injected.Get("Sidenote-Sources") != staged.Get("Sidenote-Sources") {
					t.Errorf("sources %s, want %s", staged.Get("Sidenote-Sources"), injected.Get("Sidenote-Sources"))
				}
				if reason := unfit[name]; reason != "" {
					if status := staged.Get("Sidenote-Status"); !strings.HasPrefix(status, "injected; unstaged="+reason+"; sources=1; ") || len(calls) != 1 || !bytes.Equal(calls[0].body, once[0].body) || !cmp.Equal(got, want) {
						t.Errorf("%s: %d calls, of which the first has\n%s\nwant\n%s", status, len(calls), calls[0].body, once[0].body)
					}
					return
				}
				if status := staged.Get("Sidenote-Status"); !strings.HasPrefix(status, "staged; stages=4; sources=1; ") || len(calls) != 4 {
					t.Fatalf("%s, %d calls", status, len(calls))
				}
				sum := `"usage":{"prompt_tokens":4,"completion_tokens":4,"total_tokens":8}`
				if !stream && strings.Count(got[0], sum) != 1 {
					t.Errorf("used in four calls: %s", got[0])
				}
				for i := range got {
					got[i] = used.ReplaceAllString(got[i], "")
				}
				for i := range want {
					want[i] = used.ReplaceAllString(want[i], "")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				for i, call := range calls {
					inStage(t, name, call, once[0].body, i == len(calls)-1, stream)
				}
			})
		}
	}
}

// inStage compares a call of a stage with the one that mode inject makes.
func inStage(t *testing.T, name string, call recorded, once []byte, last, stream bool) {
	t.Helper()
	read := func(body []byte) (request map[string]json.RawMessage) {
		if err := json.Unmarshal(body, &request); err != nil {
			t.Fatal(err)
		}
		return request
	}
	got, want := read(call.body), read(once)
	if call.header.Get("Authorization") != "Bearer sk-test" || call.target != "/v1/chat/completions" {
		t.Errorf("%s with Authorization %q", call.target, call.header.Get("Authorization"))
	}
	if (string(got["stream"]) == "true") != (last && stream) {
		t.Errorf("last %t, stream %t: %s", last, stream, call.body)
	}
	for _, field := range []string{"top_p", "seed", "model"} {
		if string(got[field]) != string(want[field]) {
			t.Errorf("%s: %s is %s, want %s", name, field, got[field], want[field])
		}
	}
	draft := strings.Contains(string(call.body), "Write the answer only, as its reader will see it")
	if has := got["response_format"] != nil; has != (name == "schema" && (last || draft)) || has && string(got["response_format"]) != string(want["response_format"]) {
		t.Errorf("%s, last %t, draft %t: response_format is %s", name, last, draft, got["response_format"])
	}
	role := "system"
	if name == "developer" {
		role = "developer"
	}
	if n := strings.Count(string(got["messages"]), `"role":"`+role+`"`); n != 2 {
		t.Errorf("%s: %d messages of the role %s: %s", name, n, role, got["messages"])
	}
}

// The error of an upstream that refuses every call is passed on unchanged, and nothing looks like
// an answer; if the policy refuses, the error names the stage. Other routes are relayed unchanged.
func TestSDKStagedErrors(t *testing.T) {
	for policy, want := range map[string]struct {
		status              int
		code, says, outcome string
		calls               int
	}{
		"mode: staged, stages: medical":                                              {429, "rate_limit_exceeded", "slow down", "", 2},
		"mode: staged, stages: medical, on_failure: {stage: refuse}":                 {502, "stage_failed", "evidence_evaluator", "failed=evidence_evaluator; failure=rate-limit", 1},
		"mode: staged, stages: {chain: medical, unfit: refuse}, models: [error-429]": {429, "rate_limit_exceeded", "slow down", "", 2},
	} {
		up := newRecorder(t)
		p := serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {%s}}\n", up.URL, handbook(t), policy)))
		var sent []byte
		sdk := sdkClient(p, &sent)
		for _, stream := range []bool{false, true} {
			before := up.count()
			var err error
			if stream {
				events := sdk.Chat.Completions.NewStreaming(t.Context(), question("error-429"))
				for events.Next() {
					t.Errorf("%s: an answer: %s", policy, events.Current().RawJSON())
				}
				err = events.Err()
				events.Close()
			} else {
				_, err = sdk.Chat.Completions.New(t.Context(), question("error-429"))
			}
			var api *openai.Error
			if !errors.As(err, &api) || api.StatusCode != want.status || api.Code != want.code || !strings.Contains(api.Message, want.says) || !strings.Contains(api.Response.Header.Get("Sidenote-Status"), want.outcome) {
				t.Errorf("%s, stream %t: %v", policy, stream, err)
				continue
			}
			if want.status == 429 && api.Response.Header.Get("Retry-After") != "7" {
				t.Errorf("%s: the error lost its head: %v", policy, api.Response.Header)
			}
			if n := up.count() - before; n != want.calls {
				t.Errorf("%s: %d calls, want %d", policy, n, want.calls)
			}
		}
		if _, err := sdk.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "error-429x", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("parental leave")}}); strings.Contains(policy, "models") != (err != nil) {
			t.Error(err)
		} else if got := up.last(t); err == nil && (!bytes.Equal(got.body, sent) || got.target != "/v1/embeddings") {
			t.Errorf("%s got %s, want %s", got.target, got.body, sent)
		}
	}
}
