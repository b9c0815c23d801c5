package vectorstore_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/retrievaltest"
	"sidenote/retrieval/vectorstore"
)

// breakable is a Base with its service.
type breakable struct {
	*vectorstore.Base
	*service
}

func TestContractOfAnAPI(t *testing.T) {
	retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
		s := newService(t, stub(docs))
		b := breakable{open(t, s.URL, nil), s}
		<-b.FirstRead()
		return b
	})
}

// central is a Base that searches another Sidenote, whose documents can change.
type central struct {
	breakable
	embedded *knowledge.Base
}

func (c central) Change(t *testing.T, docs []retrievaltest.Document) {
	t.Helper()
	var list []chunk.Document
	for _, d := range docs {
		list = append(list, chunk.Document{ID: d.ID, Text: d.Text, Markdown: true, Attributes: d.Attributes})
	}
	content, _, err := knowledge.FromDocuments(t.Context(), list, knowledge.Deps{Counter: bytesCounter{}})
	if err != nil {
		t.Fatal(err)
	}
	c.embedded.Swap(content)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type bytesCounter struct{}

func (bytesCounter) Count(s string) (int, bool) { return len(s) / 4, true }

// library is the embedded base as the admin port serves it.
type library struct {
	*knowledge.Base
	joint bool
}

func (l library) Store(id string) (explain.Store, bool) {
	c := l.Content()
	if c == nil || id != "vs_1" {
		return explain.Store{}, id == "vs_1"
	}
	return explain.Store{Generation: c.Generation(), Joint: l.joint, Files: c.Documents(), File: func(i int) explain.KnowledgeFile {
		h := c.DocumentAt(i)
		return explain.KnowledgeFile{ID: h.ID, Attributes: h.Attributes}
	}}, true
}

func (l library) Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	return retrieval.WithTexts{Next: l.Base, Sketches: true}.Retrieve(ctx, q)
}

// newCentral starts a Sidenote's admin port and a base that searches it; joint says whether it
// searches several bases as one.
func newCentral(t *testing.T, joint bool) central {
	t.Helper()
	embedded := knowledge.New("vs_1")
	h := &admin.Handler{Lookup: &explain.Knowledge{Bases: func() []string { return []string{"vs_1"} }}, Library: library{embedded, joint}}
	server := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	target := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	front := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// net/http reads a body past its end while the answer is written, which closes it and
		// breaks off the answer. So pass a body that is already read.
		if body, err := io.ReadAll(r.In.Body); err == nil { // otherwise the client has left
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
		}
	}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-served
	})
	s := newService(t, front)
	c := central{breakable{open(t, s.URL, nil), s}, embedded}
	<-c.FirstRead() // the first state, of the empty base, must not arrive after a change
	return c
}

func TestContractOfASidenote(t *testing.T) {
	for name, joint := range map[string]bool{"older": false, "joint": true} {
		t.Run(name, func(t *testing.T) {
			retrievaltest.Run(t, func(t *testing.T, docs []retrievaltest.Document) retrieval.Base {
				c := newCentral(t, joint)
				c.Change(t, docs)
				return c
			})
		})
	}
}

// A search through the API returns the same sources as one in that Sidenote, except for
// neighbours: scores and floor too, so that thresholds mean the same, and sketches if it can be
// searched jointly.
func TestASidenoteGivesItsOwnSources(t *testing.T) {
	for name, joint := range map[string]bool{"older": false, "joint": true} {
		t.Run(name, func(t *testing.T) { testOwnSources(t, joint) })
	}
}

func testOwnSources(t *testing.T, joint bool) {
	c := newCentral(t, joint)
	docs := retrievaltest.Documents()
	docs = append(docs, retrievaltest.Document{ID: "odd  name#?.md", Text: "# Odd\n\n## Part one\n\nAll about the flux compensator.\n"})
	c.Change(t, docs)
	for _, text := range []string{"How many weeks of parental leave?", "broken laptop", "committee menu", "flux compensator", "zebra"} {
		got, err := c.Retrieve(t.Context(), query(text))
		if err != nil {
			t.Fatal(err)
		}
		want, err := retrieval.WithTexts{Next: c.embedded, Sketches: true}.Retrieve(t.Context(), query(text))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want.Sources {
			want.Sources[i].Knowledge, want.Sources[i].Before, want.Sources[i].After = "legal", "", ""
			if !joint {
				want.Sources[i].Sketch = ""
			}
			if want.Sources[i].Doc == "leave.md" { // the only document with such an attribute
				want.Sources[i].Attributes = `{"version":2}`
			}
			if !joint {
				want.Sources[i].Arm = retrieval.ArmVector // the API does not report the arm
			}
		}
		if diff := cmp.Diff(want.Sources, got.Sources, cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-there +here):\n%s", text, diff)
		}
		if len(want.Sources) > 0 && got.Floor != want.Floor || got.Reason != want.Reason || !slices.Equal(got.Bases, []retrieval.Ref{c.Ref()}) {
			t.Errorf("%q: floor %v, reason %q of %v; there %v, %q", text, got.Floor, got.Reason, got.Bases, want.Floor, want.Reason)
		}
	}
}
