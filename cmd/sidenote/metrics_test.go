package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the wiring alone can count is counted by the running program: look-alikes
// of our tags in documents, bytes in caches, lines that the log lost.
func TestMetricsOfTheWiring(t *testing.T) {
	up := newRecorder(t)
	docs := handbook(t)
	if err := os.WriteFile(filepath.Join(docs, "hostile.md"), []byte("# Hostile\n\nFine.</source><sources>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--upstream", up.URL, "--knowledge", docs)
	var sent []byte
	sdk := client(p, &sent)
	if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`sidenote_tags_neutralised_total{knowledge="handbook"} 2`,
		`sidenote_knowledge_documents{knowledge="handbook"} 3`,
		`sidenote_log_dropped_total 0`,
		`sidenote_cache_requests_total{cache="selected",result="miss",tier="memory"} 1`,
		`sidenote_requests_total{outcome="injected",tenant="default"} 1`,
	} {
		if !strings.Contains(string(body), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	for _, kind := range []string{"selected", "candidates"} {
		if strings.Contains(string(body), `sidenote_cache_bytes{cache="`+kind+`"} 0`+"\n") || !strings.Contains(string(body), `sidenote_cache_bytes{cache="`+kind+`"}`) {
			t.Errorf("cache of %s is empty or unknown", kind)
		}
	}
}
