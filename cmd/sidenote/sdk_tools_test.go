package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// offered decodes a request as it went upstream, and removes Sidenote's tools; ours is how many
// there were.
func offered(t *testing.T, body []byte) (request map[string]any, ours int) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&request); err != nil {
		t.Fatal(err)
	}
	tools, _ := request["tools"].([]any)
	var rest []any
	for _, tool := range tools {
		name := tool.(map[string]any)["function"].(map[string]any)["name"].(string)
		if strings.HasSuffix(name, "_knowledge") {
			ours++
		} else {
			rest = append(rest, tool)
		}
	}
	if delete(request, "tools"); rest != nil {
		request["tools"] = rest
	}
	return request, ours
}

// If the model calls none of the tools that it is offered, the client gets byte for byte the same
// answer as without tools, and the request differs only by the tools.
func TestSDKToolsUncalled(t *testing.T) {
	up := newRecorder(t)
	folder := handbook(t)
	start := func(mode string) *process {
		return serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {mode: %s}}\n", up.URL, folder, mode)))
	}
	inject, tools := start("inject"), start("tools")
	type outcome struct {
		Answer  []string // JSON of it, or of each chunk
		Request map[string]any
		Sources string
	}
	for name, params := range scenarios() {
		ask := func(t *testing.T, p *process, stream bool) (o outcome, ours int, status string) {
			var sent []byte
			var resp *http.Response
			sdk := sdkClient(p, &sent)
			if stream {
				events := sdk.Chat.Completions.NewStreaming(t.Context(), params, option.WithResponseInto(&resp))
				defer events.Close()
				for events.Next() {
					chunk := events.Current()
					o.Answer = append(o.Answer, chunk.RawJSON())
				}
				if err := events.Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				answer, err := sdk.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&resp))
				if err != nil {
					t.Fatal(err)
				}
				o.Answer = []string{answer.RawJSON()}
			}
			o.Request, ours = offered(t, up.last(t).body)
			o.Sources = resp.Header.Get("Sidenote-Sources")
			return o, ours, resp.Header.Get("Sidenote-Status")
		}
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, stream), func(t *testing.T) {
				want, none, _ := ask(t, inject, stream)
				got, ours, status := ask(t, tools, stream)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				wantOurs, wantStatus := 2, "tools; "
				if name == "n" {
					wantOurs, wantStatus = 0, "injected; unoffered=choices; "
				}
				if none != 0 || ours != wantOurs || !strings.HasPrefix(status, wantStatus) {
					t.Errorf("%d and %d tools are offered; Sidenote-Status: %s", none, ours, status)
				}
			})
		}
	}

	var sent []byte
	sdk := sdkClient(tools, &sent)
	_, err := sdk.Chat.Completions.New(t.Context(), question("error-429"))
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != 429 || api.Message != "slow down" || api.Response.Header.Get("Retry-After") != "7" {
		t.Errorf("an error of the upstream is %v", err)
	}
	if _, err := sdk.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "text-embedding-3-small", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("parental leave")}}); err != nil {
		t.Error(err)
	}
	if got := up.last(t); !bytes.Equal(got.body, sent) || got.target != "/v1/embeddings" {
		t.Errorf("%s got %s, want %s", got.target, got.body, sent)
	}
}
