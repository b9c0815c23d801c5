package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/gaps"
	"sidenote/proxy/record"
	"sidenote/proxy/record/recordtest"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge/chunk"
)

// A found is a gaps.Finder over one base.
type found struct{ retrieval.Retriever }

func (f found) search(ctx context.Context, text string) (retrieval.Result, error) {
	q := retrieval.Query{Text: text, Settings: retrieval.DefaultSettings(), Bases: []retrieval.Ref{{Knowledge: "kb"}}}
	q.Settings.Deadline = time.Minute
	return f.Retrieve(ctx, q)
}

func (f found) Find(ctx context.Context, r *record.Record) (gaps.Finding, error) {
	res, err := f.search(ctx, r.Question)
	return gaps.Finding{Nearest: nearest(&res), Sources: len(res.Sources)}, err
}

// ask returns the record of a question whose answer cites the document that holds the answer, if it is
// among the sources.
func (f found) ask(t *testing.T, id, text, document string) *record.Record {
	t.Helper()
	res, err := f.search(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	r := &record.Record{ID: id, Question: text, Checked: true, Time: time.Unix(1_800_000_000, 0), Reason: "no-match"}
	for n, s := range res.Sources {
		source := record.Source{ID: n + 1, Doc: s.Doc}
		if r.Reason = ""; s.Doc == document {
			source.Cited = 1
		}
		r.Sources = append(r.Sources, source)
	}
	return r
}

// With 20 of 200 documents removed and 400 questions asked, at least 15 of the 20 subjects are among
// the first 25 groups, and at least 80 % of the questions of these groups belong together.
func TestGapsAreTheDocumentsThatAreMissing(t *testing.T) {
	const dir = "../../../../../shared/ir/drcd"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test collection: %v", err)
	}
	c, err := eval.Read(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	questions := map[string][]eval.Query{} // by document
	for _, q := range c.Queries {
		for id := range c.Grades[q.ID] {
			questions[id] = append(questions[id], q)
		}
	}
	for trial := range 5 {
		t.Run(fmt.Sprint(trial), func(t *testing.T) {
			missing(t, c.Documents, questions, trial)
		})
	}
}

func missing(t *testing.T, all []eval.Document, questions map[string][]eval.Query, trial int) {
	titles, removed, subject := map[string]bool{}, map[string]bool{}, map[string]string{}
	var kept []chunk.Document
	var chosen []eval.Document
	for i := trial * 397; len(chosen) < 200; i++ {
		d := all[i%len(all)]
		if len(questions[d.ID]) < 2 || titles[d.Title] {
			continue
		}
		titles[d.Title] = true
		if chosen = append(chosen, d); len(chosen)%10 == trial {
			removed[d.ID] = true
			continue
		}
		kept = append(kept, chunk.Document{ID: d.ID, Name: d.Title, Text: d.Text})
	}
	base := baseOf(t, "kb", kept)
	f := found{&retrieval.Pipeline{Bases: func(string) retrieval.Retriever { return base }, Terms: new(analysis.Recent).Terms}}
	var asked recordtest.List
	for _, d := range chosen {
		for _, q := range questions[d.ID][:2] {
			asked = append(asked, f.ask(t, q.ID, q.Text, d.ID))
			subject[q.ID] = d.ID
		}
	}
	report, err := gaps.Find(t.Context(), asked, record.Query{}, f)
	if err != nil {
		t.Fatal(err)
	}
	first, together, count := map[string]bool{}, 0, 0
	for _, g := range report.Groups[:min(len(report.Groups), 25)] {
		in, most := map[string]int{}, ""
		for _, q := range g.Questions {
			if in[subject[q.ID]]++; in[subject[q.ID]] > in[most] {
				most = subject[q.ID]
			}
		}
		together, count = together+in[most], count+g.Count
		if removed[most] {
			first[most] = true
		}
	}
	share := float64(together) / float64(count)
	t.Logf("%d gaps in %d groups; %d of %d subjects in the first 25, %.2f of their questions together", report.Gaps, len(report.Groups), len(first), len(removed), share)
	if len(first) < 15 || share < 0.8 {
		t.Errorf("%d subjects, %.2f together", len(first), share)
	}
}

// A question is searched for as its request was, by its own query and in the bases that it chose, with
// the filters of today and of then, and not at all if nobody can do that.
func TestGapsAreSearchedAsTheyWereAsked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docs/open.md": "---\naudience: public\n---\n# Bikes\n\nRent a bike in the portal.\n", "docs/shut.md": "---\naudience: board\n---\n# Bonus\n\nThe board gets a bonus in May.\n",
		"menu/lunch.md": "# Lunch\n\nLunch is served at noon.\n",
		"c.yaml": `
upstream: https://u.test
state: ":memory:"
knowledge: {docs: {path: docs, attributes_from: {front_matter: [audience]}}, menu: menu}
identity: {jwt: {idp: {issuer: https://i.test, audience: a, jwks_file: jwks}}}
tenants:
  acme: {knowledge: [docs, menu], keys: ["` + strings.Repeat("0", 64) + `"]}
  claims: {knowledge: [docs], jwt: {idp: {org: x}}, filters: [{type: eq, key: audience, value: "${claims.audience}"}]}
`, "jwks": `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`, // of RFC 8037
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(config.Source{Path: filepath.Join(dir, "c.yaml"), Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.Bases.Index(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	e.Bases.AwaitFloor(t.Context(), []string{"docs", "menu"})
	find := func(r record.Record) gaps.Finding {
		t.Helper()
		r.Question, r.Policy = "Who gets a bonus in May?", "default"
		found, err := GapFinder(e, cfg).Find(t.Context(), &r)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if f := find(record.Record{Tenant: "acme"}); f.Unsearched || len(f.Nearest) == 0 || f.Nearest[0].ID != "shut.md" {
		t.Errorf("got %+v", f)
	}
	if f := find(record.Record{Tenant: "acme", Filter: json.RawMessage(`{"type":"eq","key":"audience","value":"public"}`)}); f.Unsearched || len(f.Nearest) > 0 && f.Nearest[0].ID == "shut.md" {
		t.Errorf("beyond its filter: %+v", f)
	}
	if f := find(record.Record{Tenant: "acme", Asked: &record.Asked{Knowledge: []string{"menu", "gone"}}}); f.Unsearched || len(f.Nearest) > 0 {
		t.Errorf("beyond the base that it chose: %+v", f)
	}
	if f := find(record.Record{Tenant: "acme", Earlier: []string{"And the bikes?"}, Asked: &record.Asked{Query: "lunch"}}); len(f.Nearest) != 1 || f.Nearest[0].ID != "lunch.md" {
		t.Errorf("by its own query: %+v", f)
	}
	for name, r := range map[string]record.Record{
		"gone base":   {Tenant: "acme", Asked: &record.Asked{Knowledge: []string{"gone"}}},
		"gone tenant": {Tenant: "gone"}, "claims": {Tenant: "claims"}, "claims then": {Tenant: "acme", Filter: json.RawMessage(`{"type":"eq","key":"audience","value":"${claims.audience}"}`)},
	} {
		if f := find(r); !f.Unsearched || f.Nearest != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
