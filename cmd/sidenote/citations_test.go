package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
)

// The official SDK reads the annotations that Sidenote adds to answers and streams.
func TestSDKAnnotations(t *testing.T) {
	up := newRecorder(t)
	config := filepath.Join(t.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(config, []byte("policies: {default: {annotations: on}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--config", config, "--upstream", up.URL, "--knowledge", handbook(t))
	var sent []byte
	sdk := sdkClient(p, &sent)
	check := func(a openai.ChatCompletionMessageAnnotationURLCitation, content string) {
		t.Helper()
		if a.StartIndex < 0 || a.EndIndex > int64(len(content)) || content[a.StartIndex:a.EndIndex] != "[1]" || a.Title != "Leave policy" || !strings.HasPrefix(a.URL, "sidenote://handbook/leave.md#") {
			t.Errorf("of %q: %+v", content, a)
		}
	}
	answer, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o"))
	if err != nil {
		t.Fatal(err)
	}
	m := answer.Choices[0].Message
	if len(m.Annotations) != 1 {
		t.Fatalf("annotations %+v", m.Annotations)
	}
	check(m.Annotations[0].URLCitation, m.Content)

	stream := sdk.Chat.Completions.NewStreaming(t.Context(), question("gpt-4o"))
	var whole openai.ChatCompletionAccumulator
	var delta struct {
		Annotations []openai.ChatCompletionMessageAnnotation
	}
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Errorf("the SDK refuses %s", stream.Current().RawJSON())
		}
		if raw := stream.Current().Choices[0].Delta.RawJSON(); strings.Contains(raw, "annotations") {
			if err := json.Unmarshal([]byte(raw), &delta); err != nil {
				t.Error(err)
			}
		}
	}
	if err := stream.Err(); err != nil || len(delta.Annotations) != 1 {
		t.Fatalf("%v, annotations %+v, %+v", err, delta, whole.Choices)
	}
	check(delta.Annotations[0].URLCitation, whole.Choices[0].Message.Content)
}
