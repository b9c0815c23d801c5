//go:build !race

package record_test

import (
	"runtime/debug"
	"testing"
	"time"

	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// What recording does on the path of a request allocates nothing.
func TestPathAllocatesNothing(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would empty the pool
	held, goOn := make(chan struct{}), make(chan struct{})
	hold := true // of the background
	r := record.New(t.TempDir(), record.Options{Count: func(string, string) {
		if hold {
			hold = false
			held <- struct{}{}
			<-goOn
		}
	}})
	r.Configure(map[string]record.Settings{"p": everything(t)})
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`)
	req, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	asked, of := &rewrite.Options{Query: "leave"}, reported("p", "t", report.NewID(time.Now()), time.Now(), "doc")
	one := func() {
		d := r.Begin("p", "t", of.ID)
		d.Ask(body, req, asked)
		d.Finish(of)
	}
	one()
	<-held // the background does not allocate meanwhile
	const n = 500
	var drafts []*record.Draft
	for range n + 1 {
		drafts = append(drafts, r.Begin("p", "t", of.ID))
	}
	for _, d := range drafts { // into the pool, with buffers
		d.Ask(body, req, asked)
		d.Discard()
	}
	if got := testing.AllocsPerRun(n, one); got != 0 {
		t.Errorf("%v allocations", got)
	}
	close(goOn)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
