package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
	"sidenote/retrieval/services/servicestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// words counts words instead of tokens.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

// A rig is a state folder, a service, and a VectorMaker for both.
type rig struct {
	t       *testing.T
	dir     string
	service *servicestest.Service
	client  *services.Embedder
	library *library.Library
	maker   *server.VectorMaker
}

// newRig opens a state folder. Each batch has four chunks.
func newRig(t *testing.T, dir string, service *servicestest.Service, perDay int) *rig {
	t.Helper()
	u, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, service: service, client: services.NewEmbedder(services.EmbedOptions{BaseURL: u, Model: "stub", Counter: words{}, Batch: 4})}
	space := func(string) (retrieval.Space, bool) { return r.client.Space(), true }
	if r.library, err = library.Open(t.Context(), dir, knowledge.Deps{Counter: words{}, Version: "words"}, library.Options{Space: space}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.library.Load(t.Context(), nil), r.library.CreateBase(t.Context(), "kb")); err != nil {
		t.Fatal(err)
	}
	r.maker = server.NewVectorMaker(r.client, r.library, perDay)
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.library.Close(); err != nil {
		r.t.Error(err)
	}
	r.client.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// put writes documents of one chunk, given as "ID=text".
func (r *rig) put(documents ...string) {
	r.t.Helper()
	var list []chunk.Document
	for _, d := range documents {
		id, text, _ := strings.Cut(d, "=")
		list = append(list, chunk.Document{ID: id, Text: text})
	}
	if _, err := r.library.Put(r.t.Context(), "kb", list...); err != nil {
		r.t.Fatal(err)
	}
}

// numbered returns documents of two words each, for put.
func numbered(n int) (documents []string) {
	for i := range n {
		documents = append(documents, fmt.Sprintf("%d=text number%d", i, i))
	}
	return documents
}

func (r *rig) remove(ids ...string) {
	r.t.Helper()
	if err := r.library.Delete(r.t.Context(), "kb", ids...); err != nil {
		r.t.Fatal(err)
	}
}

// embed embeds the base and checks which texts were sent.
func (r *rig) embed(what string, want ...string) server.EmbeddingReport {
	r.t.Helper()
	report, err := r.maker.Embed(r.t.Context(), "kb", nil)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	r.sent(what, want...)
	if n, of := r.library.Base("kb").Content().Embedded(); n != of || report.Missing() != 0 {
		r.t.Errorf("%s: %d of %d are embedded, %d are missing", what, n, of, report.Missing())
	}
	return report
}

// sent checks which texts were sent since the last check, in any order.
func (r *rig) sent(what string, want ...string) {
	r.t.Helper()
	got := r.service.Inputs()
	r.service.Break(nil)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: sent %q, want %q", what, got, want)
	}
}

// No text is sent twice: not after it is read again, renamed or restored, not by another process,
// and not because two documents share it.
func TestNothingIsSentTwice(t *testing.T) {
	dir, service := t.TempDir(), servicestest.Start(t)
	r := newRig(t, dir, service, 0)
	r.put("a=ant", "b=bee", "c=cat", "d=dog", "e=elk", "f=fox")
	if got := r.embed("at first", "ant", "bee", "cat", "dog", "elk", "fox"); got.NewVectors != 6 || got.Tokens != 6 || got.AlreadyEmbedded != 0 {
		t.Errorf("%+v", got)
	}
	if got := r.embed("again"); got.NewVectors != 0 || got.AlreadyEmbedded != 6 {
		t.Errorf("%+v", got)
	}
	r.put("a=ape")
	r.embed("another text", "ape")
	r.put("g=bee", "h=gnu", "i=gnu")
	if got := r.embed("the text of others", "gnu"); got.Chunks != 9 || got.NewVectors != 2 || got.AlreadyEmbedded != 7 {
		t.Errorf("%+v", got)
	}
	r.remove("c")
	r.embed("a deletion")
	r.put("c2=cat", "a=ant")
	r.embed("a return")
	r.close()
	r = newRig(t, dir, service, 0)
	r.embed("a restart")
	if err := errors.Join(r.library.DeleteBase(t.Context(), "kb"), r.library.CreateBase(t.Context(), "kb")); err != nil {
		t.Fatal(err)
	}
	r.put("z=fox", "y=yak")
	r.embed("another base", "yak")
}

// Vectors made before a failure are kept, and the next attempt continues from there.
func TestFailureKeepsWhatWasMade(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 0)
	r.put(numbered(10)...)
	service.Break(func(n int, _ servicestest.Request) servicestest.Fault {
		if n == 3 {
			return servicestest.Status(401, "")
		}
		return nil
	})
	report, err := r.maker.Embed(t.Context(), "kb", nil)
	if err == nil || !strings.Contains(err.Error(), "401") || report.NewVectors != 8 || report.Missing() != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	if n, of := r.library.Base("kb").Content().Embedded(); n != 8 || of != 10 {
		t.Errorf("%d of %d are embedded", n, of)
	}
	asked := service.Inputs()
	service.Break(nil)
	r.embed("the rest", asked[8:]...)
	if all := append(asked[:8:8], asked[8:]...); len(all) != 10 {
		t.Errorf("sent %q", all)
	}
}

// A caller that is cancelled during a batch loses at most that batch.
func TestStopped(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 0)
	r.put(numbered(10)...)
	ctx, cancel := context.WithCancel(t.Context())
	service.Break(func(n int, _ servicestest.Request) servicestest.Fault {
		if n == 2 {
			cancel()
		}
		return nil
	})
	if report, err := r.maker.Embed(ctx, "kb", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", report, err)
	}
	before := len(service.Inputs())
	service.Break(nil)
	if _, err := r.maker.Embed(t.Context(), "kb", nil); err != nil {
		t.Fatal(err)
	}
	if all := before + len(service.Inputs()); all > 14 || all < 10 {
		t.Errorf("%d texts were sent for 10, in batches of 4", all)
	}
}

// When the tokens of a day are used up, the rest waits for the next day.
func TestTokensPerDay(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 13)
	now := time.Date(2026, 3, 1, 22, 30, 0, 0, time.UTC)
	server.SetClock(r.maker, func() time.Time { return now })
	r.put(numbered(8)...)
	report, err := r.maker.Embed(t.Context(), "kb", nil)
	limit := (*server.LimitError)(nil)
	if !errors.As(err, &limit) || !limit.Until.Equal(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)) || report.Tokens != 12 || report.NewVectors != 6 {
		t.Fatalf("%+v, %v", report, err)
	}
	if want := "embeddings.tokens_per_day, 13, are used up until 2026-03-02 00:00 UTC"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if n := len(service.Inputs()); n != 6 {
		t.Errorf("%d were sent", n)
	}
	if report, err := r.maker.Embed(t.Context(), "kb", nil); !errors.As(err, &limit) || report.Tokens != 0 {
		t.Errorf("the same day again: %+v, %v", report, err)
	}
	now = now.Add(2 * time.Hour)
	if report, err := r.maker.Embed(t.Context(), "kb", nil); err != nil || report.NewVectors != 2 || report.Missing() != 0 {
		t.Errorf("the next day: %+v, %v", report, err)
	}
}

// Vectors of another length than the stored ones are not used for the base, also after a restart.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestOtherDimensions(t *testing.T) {
	dir, service := t.TempDir(), servicestest.Start(t)
	r := newRig(t, dir, service, 0)
	r.put("a=ant")
	r.embed("at first", "ant")
	r.close()
	service.Break(func(_ int, q servicestest.Request) servicestest.Fault {
		q.Dimensions = 32
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(q)) }
	})
	r = newRig(t, dir, service, 0)
	r.put("b=bee")
	report, err := r.maker.Embed(t.Context(), "kb", nil)
	other := (*services.DimensionError)(nil)
	if !errors.As(err, &other) || *other != (services.DimensionError{Got: 32, Want: servicestest.Dimensions}) || report.NewVectors != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if n, of := r.library.Base("kb").Content().Embedded(); n != 1 || of != 2 {
		t.Errorf("%d of %d are embedded", n, of)
	}
}

// A text that the service rejects is not sent again.
func TestRefusedOnce(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 0)
	r.put("a=ant", "b=poison", "c=cat")
	refusing := func(_ int, q servicestest.Request) servicestest.Fault {
		if slices.Contains(q.Input, "poison") {
			return servicestest.Status(400, "")
		}
		return nil
	}
	service.Break(refusing)
	report, err := r.maker.Embed(t.Context(), "kb", nil)
	if err != nil || report.NewVectors != 2 || report.Refused != 1 || report.LastRefusal == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	service.Break(refusing)
	report, err = r.maker.Embed(t.Context(), "kb", nil)
	if err != nil || report.Refused != 1 || len(service.Asked()) != 0 {
		t.Errorf("%+v, %v after %d requests", report, err, len(service.Asked()))
	}
}

// Vectors are kept as long as their chunks, and for thirty days after that.
func TestForget(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 0)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	server.SetClock(r.maker, func() time.Time { return now })
	r.put("a=ant", "b=bee")
	r.embed("at first", "ant", "bee")
	days := func(n int) {
		t.Helper()
		for range n {
			now = now.Add(24 * time.Hour)
			if err := r.maker.Forget(t.Context(), []string{"kb"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	days(50)
	r.remove("b")
	days(30)
	r.put("c=bee")
	r.embed("a return after 30 days")
	days(9) // the use counts from then on, not from when it is recorded
	r.remove("c")
	days(30)
	r.put("c=bee")
	r.embed("another return after 30 days")
	r.remove("a")
	days(60)
	r.put("d=ant")
	r.embed("a return after 60 days", "ant")
}

// A plan counts exactly what Embed then sends.
func TestPlan(t *testing.T) {
	service := servicestest.Start(t)
	r := newRig(t, t.TempDir(), service, 0)
	r.put("a=ant bee", "b=cat")
	r.embed("at first", "ant bee", "cat")
	r.put("c=dog elk fox", "d=dog elk fox", "e=cat", "f=gnu")
	vectors := library.VectorsOf(r.library)
	planner := server.EmbeddingPlanner{Client: r.client, Kept: &vectors}
	got, err := planner.Base(t.Context(), r.library.Base("kb").Content())
	if want := (server.EmbeddingEstimate{Chunks: 6, Kept: 4, Inputs: 2, Tokens: 4}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if report := r.embed("the plan", "dog elk fox", "gnu"); report.Tokens != got.Tokens {
		t.Errorf("sent %d tokens, planned %d", report.Tokens, got.Tokens)
	}
	nothing := server.EmbeddingPlanner{Client: r.client}
	if got, err := nothing.Base(t.Context(), r.library.Base("kb").Content()); err != nil || got.Inputs != 4 {
		t.Errorf("without a state folder: %+v, %v", got, err)
	}
}

// A text whose answer is an error with status 200, as when a quota is used up, is sent again,
// because the error is not about the text. Other texts still get their vectors.
//
// Row K7 of deploy/CONTRIBUTING.md.
func TestAnswersThatMayPass(t *testing.T) {
	for name, body := range map[string]string{
		"quota":   `{"error": {"message": "quota exceeded", "code": "insufficient_quota"}}`,
		"no data": `{"object": "list"}`,
	} {
		t.Run(name, func(t *testing.T) {
			service := servicestest.Start(t)
			r := newRig(t, t.TempDir(), service, 0)
			r.put("a=ant", "b=unlucky", "c=cat", "d=unlucky")
			service.Break(func(_ int, q servicestest.Request) servicestest.Fault {
				if !slices.Contains(q.Input, "unlucky") {
					return nil
				}
				return func(w http.ResponseWriter, _ servicestest.Request) { _, _ = w.Write([]byte(body)) }
			})
			report, err := r.maker.Embed(t.Context(), "kb", nil)
			later := (*server.LaterError)(nil)
			if !errors.As(err, &later) || later.Chunks != 2 || report.NewVectors != 2 || report.Refused != 0 || report.Missing() != 2 {
				t.Fatalf("%+v, %v", report, err)
			}
			if n, of := r.library.Base("kb").Content().Embedded(); n != 2 || of != 4 {
				t.Errorf("%d of %d are embedded", n, of)
			}
			service.Break(nil)
			r.embed("afterwards", "unlucky")
		})
	}
}

// Tokens that were sent count for the day even if the answer cannot be stored with the existing
// vectors.
func TestUselessAnswersCount(t *testing.T) {
	dir, service := t.TempDir(), servicestest.Start(t)
	r := newRig(t, dir, service, 0)
	r.put("a=ant")
	r.embed("at first", "ant")
	r.close()
	service.Break(func(_ int, q servicestest.Request) servicestest.Fault {
		q.Dimensions = 32
		return func(w http.ResponseWriter, _ servicestest.Request) { servicestest.Write(w, servicestest.AnswerTo(q)) }
	})
	r = newRig(t, dir, service, 6) // a token has been spent
	r.put(numbered(2)...)
	report, err := r.maker.Embed(t.Context(), "kb", nil)
	if other := (*services.DimensionError)(nil); !errors.As(err, &other) || report.Tokens != 4 || report.NewVectors != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	asked := len(service.Asked())
	if _, err := r.maker.Embed(t.Context(), "kb", nil); !errors.As(err, new(*server.LimitError)) || len(service.Asked()) != asked {
		t.Errorf("again: %v, %d more requests", err, len(service.Asked())-asked)
	}
}
