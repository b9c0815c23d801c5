package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// offices writes three bases whose documents overlap: leave policies of several years, pages that
// stand in two bases, word for word or nearly, and pages of their own.
func offices(t *testing.T) (dirs map[string]string) {
	t.Helper()
	const leave = "---\n%s---\n# Parental leave\n\nEmployees with a new child are entitled to %d weeks of paid parental leave. Tell your manager eight weeks before it starts.\n"
	files := map[string]string{
		"hr/leave-2019.md":        fmt.Sprintf(leave, "", 8),
		"hr/leave-2024.md":        fmt.Sprintf(leave, "", 12),
		"hr/parental.md":          fmt.Sprintf(leave, "date: 2026-02-01\nsupersedes: leave-2024.md\n", 16),
		"hr/expenses.md":          "# Expenses\n\nExpenses are paid within 30 days after the receipt was handed in. Hotels cost at most 140 euros a night.\n",
		"hr/bicycles.md":          "# Bicycles\n\nBicycles stand in the cellar. Ask the facility team for a key; the deposit is 20 euros.\n",
		"it/laptops.md":           "# Laptops\n\nA laptop is replaced after three years. Broken ones are repaired by the service desk within two days.\n",
		"it/vpn-v1.md":            "# VPN\n\nThe VPN client is OpenConnect. Sign in with your password.\n",
		"it/vpn-v2.md":            "# VPN\n\nThe VPN client is WireGuard. Sign in with your security key.\n",
		"it/expenses.md":          "# Expenses\n\nExpenses are paid within 30 days after the receipt was handed in. Hotels cost at most 140 euros a night.\n",
		"it/visitors.md":          "# Visitors\n\nVisitors sign in at the desk and get a badge for the wireless network, which works for one day.\n",
		"legal/contracts.md":      "# Contracts\n\nContracts above 10000 euros are signed by two directors. The legal team keeps the originals for ten years.\n",
		"legal/leave-2019.md":     fmt.Sprintf(leave, "", 8),
		"legal/travel.md":         "# Travel\n\nHotels cost at most 140 euros a night. Trains are booked in second class; flights need the consent of a director.\n",
		"legal/travel-hr.md":      "# Travel\n\nHotels cost at most 120 euros a night. Trains are booked in second class; flights need the consent of a director.\n",
		"legal/retention-2025.md": "# Retention\n\nInvoices are kept for eight years, applications of candidates for six months.\n",
		"legal/retention-2021.md": "# Retention\n\nInvoices are kept for ten years, applications of candidates for six months.\n",
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]string{"hr": filepath.Join(dir, "hr"), "it": filepath.Join(dir, "it"), "legal": filepath.Join(dir, "legal")}
}

// officeQuestions are questions to offices, the last ones about nothing in them.
var officeQuestions = []string{
	"How many weeks of parental leave do I get?", "What was the parental leave in 2019?", "How has parental leave changed?",
	"When are expenses paid?", "What may a hotel cost?", "Which VPN client do we use?", "vpn v1 client", "Who signs contracts?",
	"How long are invoices kept?", "How long were invoices kept in 2021?", "When is a laptop replaced?", "Where do bicycles stand?",
	"Do flights need consent?", "tell me a joke", "what is the capital of France?",
}

// officeSearches are bodies of searches for officeQuestions, with an earlier turn, and in some bases.
func officeSearches() (bodies []map[string]any) {
	for _, question := range officeQuestions {
		bodies = append(bodies, map[string]any{"query": question})
	}
	return append(bodies, map[string]any{"query": "and in 2019?", "turns": []string{"How many weeks of parental leave do I get?"}},
		map[string]any{"query": "How many weeks of parental leave do I get?", "knowledge": []string{"it", "hr"}},
		map[string]any{"query": "How many weeks of parental leave do I get?", "knowledge": []string{"hr"}})
}

// foundAt returns the sources of a search as bases, documents, chunks and dates, best first, by the
// policy of the tenant default. Their relevance changes when the floor of a base has been measured,
// which a busy machine may do between two searches.
func foundAt(t *testing.T, admin, bearer string, body map[string]any) (list []string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	code, answer := posted(t, admin+"/v1/search?tenant=default", bearer, string(text))
	var a struct {
		Data []struct {
			Knowledge string `json:"kb_id"`
			Doc       string `json:"doc_id"`
			Chunk     int    `json:"chunk"`
			Date      string `json:"date"`
		} `json:"data"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || code != http.StatusOK {
		t.Fatal(code, answer, err)
	}
	for _, s := range a.Data {
		list = append(list, fmt.Sprintf("%s/%s#%d %s", s.Knowledge, s.Doc, s.Chunk, s.Date))
	}
	return append(list, a.Reason)
}

// A Sidenote with several bases at a central one gets the sources that the central one finds in
// them, in one call; also with earlier turns, under a filter, and in a subset of the bases.
func TestBasesAtOneCentral(t *testing.T) {
	dirs, token := offices(t), written(t, "token", "s3cret")
	central := serve(t, "--config", written(t, "central.yaml", fmt.Sprintf("upstream: %s\nknowledge: {hr: %s, it: %s, legal: %s}\nadmin: {token: {file: %s}}\npolicies: {default: {retrieval: {deadline: 5s}}}\n",
		newRecorder(t).URL, dirs["hr"], dirs["it"], dirs["legal"], token)))
	u, err := url.Parse(central.admin)
	if err != nil {
		t.Fatal(err)
	}
	searches := make(chan string, 1000)
	relay := httputil.NewSingleHostReverseProxy(u)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/search") {
			searches <- r.URL.Path
		}
		r.Host = u.Host
		relay.ServeHTTP(w, r)
	}))
	defer between.Close()
	up := newRecorder(t)
	edge := serve(t, "--config", written(t, "edge.yaml", fmt.Sprintf(`
upstream: %s/v1
upstreams:
  central: {base_url: %s, api_key: {file: %s}}
knowledge:
  hr: {engine: vector_store, upstream: central, id: hr}
  it: {engine: vector_store, upstream: central, id: it}
  legal: {engine: vector_store, upstream: central, id: legal}
policies:
  default: {retrieval: {deadline: 5s}}
`, up.URL, between.URL, token)))
	edge.out.until(t, "vector store legal")
	bodies := officeSearches()
	some := 0
	for _, body := range bodies {
		want, got := foundAt(t, central.admin, "s3cret", body), foundAt(t, edge.admin, "", body)
		if !slices.Equal(got, want) {
			t.Errorf("%v:\n%s\nthe central one: \n%s", body, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if len(want) > 2 {
			some++
		}
		if path := <-searches; len(searches) > 0 || body["knowledge"] == nil && path != "/v1/vector_stores/hr,it,legal/search" {
			t.Errorf("%v: %s and %d more", body, path, len(searches))
		}
	}
	if some < 8 {
		t.Errorf("%d questions with several sources", some)
	}
	// The answers of all three are cached in one entry.
	before := len(searches)
	foundAt(t, edge.admin, "", bodies[0])
	if len(searches) != before {
		t.Error("asked again")
	}
	// The date of a document's front matter gets into the tag that the model reads.
	var sent []byte
	sdk := sdkClient(edge, &sent)
	if _, err := sdk.Chat.Completions.New(t.Context(), question("gpt-4o")); err != nil {
		t.Fatal(err)
	}
	sources := injectedInto(t, sent, up.last(t).body)
	if s := sources[0]; s.KB != "hr" || s.Doc != "parental.md" || s.Date != "2026-02-01" || !strings.Contains(s.Body, "16 weeks") {
		t.Errorf("first of %d sources: %+v", len(sources), s)
	}
}
