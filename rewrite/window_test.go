package rewrite_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// measured counts the whole request, even without sources.
func measured(t testing.TB, rw *rewrite.Rewriter, body string) model.Window {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return rw.Rewritten(t.Context(), rewrite.Policy{CountWhole: true}, req, rewrite.Options{}).Ledger.Window
}

func costOf(t testing.TB, m model.Model, body string) model.CostTokens {
	t.Helper()
	w := measured(t, &rewrite.Rewriter{Models: models{m}}, body)
	if w.Cost == nil {
		t.Fatalf("not counted: %+v", w)
	}
	return *w.Cost
}

func modelOf(t testing.TB, name string) model.Model {
	return model.Model{Row: "test", Encoding: name, Counter: encoding(t, name)}
}

// A request costs the same whatever was counted before, and each model has its own counts.
func TestCostsAreRemembered(t *testing.T) {
	by := map[string]*rewrite.Rewriter{}
	for _, name := range []string{"o200k_base", "cl100k_base"} {
		by[name] = &rewrite.Rewriter{Models: models{modelOf(t, name)}}
	}
	both := &rewrite.Rewriter{Models: byName{by["o200k_base"].Models, by["cl100k_base"].Models}}
	rapid.Check(t, func(t *rapid.T) {
		body := bodyGen().Draw(t, "body")
		name := rapid.SampledFrom([]string{"o200k_base", "cl100k_base"}).Draw(t, "encoding")
		var read map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &read); err != nil {
			t.Fatal(err)
		}
		read["model"] = json.RawMessage(`"` + name + `"`)
		named, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		req, err := chat.Completions.Parse(named)
		if err != nil {
			t.Fatal(err)
		}
		count := func(rw *rewrite.Rewriter) model.CostTokens {
			return *rw.Rewritten(t.Context(), rewrite.Policy{CountWhole: true}, req, rewrite.Options{}).Ledger.Window.Cost
		}
		want := count(rewrite.OneOfMany(&rewrite.Rewriter{Models: by[name].Models}))
		if got := count(both); got != want {
			t.Fatalf("%s: %+v, anew %+v", named, got, want)
		}
	})
}

// byName has two models named after their encodings.
type byName struct{ o200k, cl100k rewrite.Models }

func (b byName) Model(name string) model.Model {
	if name == "o200k_base" {
		return b.o200k.Model(name)
	}
	return b.cl100k.Model(name)
}

// windowed rewrites a question of nine tokens (words) for a model with a window.
func windowed(t *testing.T, m model.Model, p rewrite.Policy, more string) rewrite.Result {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	m.Counter = words{}
	rw := &rewrite.Rewriter{Retriever: answering(manySources(3)), Models: models{m}}
	return rw.Rewritten(t.Context(), p, req, rewrite.Options{})
}

// The policy's reserve for the answer applies.
func TestReservedByPolicy(t *testing.T) {
	p := testPolicy(t, nil)
	p.ReserveOutputTokens = 3000
	if got := windowed(t, model.Model{Window: 8192}, p, "").Ledger.Window.ReservedOutput; got != 3000 {
		t.Errorf("%d tokens reserved", got)
	}
}

// What is added shrinks to what the window leaves, down to nothing. A short request is bounded by
// its length and not counted.
func TestWindow(t *testing.T) {
	const cap100 = `,"max_tokens":100`
	for _, c := range []struct {
		window, sources int
		check           model.WindowCheck
		outcome         rewrite.Outcome
		reason          rewrite.Reason
	}{
		{0, 3, model.CheckUnknown, rewrite.Injected, ""},
		{1 << 20, 3, model.CheckBound, rewrite.Injected, ""},
		{8000, 3, model.CheckBound, rewrite.Injected, ""},
		{2500, 1, model.CheckBound, rewrite.Injected, ""},
		{900, 1, model.CheckCount, rewrite.Injected, ""},
		{400, 0, model.CheckCount, rewrite.Injected, ""},
		{130, 0, model.CheckCount, rewrite.Untouched, rewrite.ReasonWindow},
		{109, 0, model.CheckCount, rewrite.Untouched, rewrite.ReasonWindow},
		{50, 0, model.CheckCount, rewrite.Untouched, rewrite.ReasonWindow},
	} {
		res := windowed(t, model.Model{Window: c.window}, testPolicy(t, nil), cap100)
		w := res.Ledger.Window
		if w.Check != c.check || res.Outcome != c.outcome || res.Reason != c.reason || w.Size != c.window || res.Ledger.ChunksSelected < c.sources {
			t.Errorf("window %d: %s %q, %d sources, %+v", c.window, res.Outcome, res.Reason, res.Ledger.ChunksSelected, w)
		}
		if w.Check == model.CheckCount && (w.Request != 9 || w.Room != c.window-109) {
			t.Errorf("window %d: request %d, room %d", c.window, w.Request, w.Room)
		}
		if w.Size > 0 && res.Ledger.Used > max(w.Room, 0) {
			t.Errorf("window %d: %d tokens added where %d were left", c.window, res.Ledger.Used, w.Room)
		}
	}
}

// The offset learned from an upstream's bills is added to the bound by bytes, too.
func TestBoundKnowsWhatIsBilledBeyond(t *testing.T) {
	hidden := model.CalibrationValue{Ratio: 1, Offset: 5000, OffsetUpper: 5000}
	for _, estimated := range []bool{false, true} {
		m := model.Model{Window: 8000, Calibration: hidden, Estimated: estimated}
		if w := windowed(t, m, testPolicy(t, nil), `,"max_tokens":100`).Ledger.Window; w.Check != model.CheckBound || w.Request < 5000 {
			t.Errorf("estimated %v: %+v", estimated, w)
		}
	}
	m := model.Model{Window: 5150, Calibration: hidden}
	res := windowed(t, m, testPolicy(t, nil), `,"max_tokens":100`)
	if w := res.Ledger.Window; w.Check != model.CheckCount || w.Room != 5150-5000-100-9 || res.Ledger.Used > w.Room {
		t.Errorf("used %d, %+v", res.Ledger.Used, w)
	}
}

// The request is not counted if the window is unknown or nothing is to be added.
func TestWindowNotLookedAt(t *testing.T) {
	p := testPolicy(t, nil)
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: answering(nil), Models: models{model.Model{Counter: words{}, Window: 10}}}
	if w := rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger.Window; w.Check != model.CheckNone || w.Cost != nil || w.Size != 10 {
		t.Errorf("without sources: %+v", w)
	}
}

// Bills of the upstream correct the counts: by an offset for models that are counted exactly, by
// a ratio for estimated ones.
func TestCalibratedWindow(t *testing.T) {
	p := testPolicy(t, nil)
	p.CountWhole = true
	const tools = `,"max_tokens":100,"tools":[{"type":"function","function":{"name":"f"}}]` // 23 tokens, 16 + 1 reserve for the formula
	seen := func(v model.CalibrationValue) model.Model { return model.Model{Window: 4000, Calibration: v} }
	estimated := func(v model.CalibrationValue) model.Model {
		m := seen(v)
		m.Estimated = true
		return m
	}
	for _, c := range []struct {
		model   model.Model
		request int
	}{
		{seen(model.CalibrationValue{}), 9 + 23 + 17},
		{seen(model.CalibrationValue{Ratio: 1, RatioUpper: 1.01, Offset: 3, OffsetUpper: 5}), 9 + 23 + 17 + 5},
		{seen(model.CalibrationValue{Ratio: 1, RatioUpper: 1.01, Offset: -3, OffsetUpper: -1}), 9 + 23 + 17},
		{estimated(model.CalibrationValue{}), 36 + 350},
		{estimated(model.CalibrationValue{Ratio: 1.4, RatioUpper: 1.5, Offset: 9, OffsetUpper: 10}), 48 + 350},
	} {
		res := windowed(t, c.model, p, tools)
		if got := res.Ledger.Window.Request; got != c.request {
			t.Errorf("%+v: request %d, want %d", c.model.Calibration, got, c.request)
		}
		if v := res.Ledger.Calibration; (v != nil) != (c.model.Calibration != model.CalibrationValue{}) || v != nil && *v != c.model.Calibration {
			t.Errorf("ledger shows %+v of %+v", v, c.model.Calibration)
		}
	}
	p.ContextTokens = 4000
	exact, more := windowed(t, model.Model{}, p, "").Ledger.Used, estimated(model.CalibrationValue{RatioUpper: 1.5})
	more.Window = 0
	if got, want := windowed(t, more, p, "").Ledger.Used, (3*exact+1)/2; got != want {
		t.Errorf("used %d, want %d", got, want)
	}
}

// When a conversation grows, only the new message is counted.
func BenchmarkCountConversation(b *testing.B) {
	rw := &rewrite.Rewriter{Models: models{modelOf(b, "o200k_base")}}
	body := string(chatOf(20 << 10))
	turns := strings.Count(body, `{"role"`)
	req := func(i int) *chat.Request {
		r, err := chat.Completions.Parse([]byte(strings.Replace(body, "How many weeks", fmt.Sprintf("How many (%d) weeks", i), 1)))
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	p := rewrite.Policy{CountWhole: true}
	rw.Rewritten(b.Context(), p, req(-1), rewrite.Options{})
	next := make([]*chat.Request, 0, 1024)
	for i := range cap(next) {
		next = append(next, req(i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i == len(next) {
			b.StopTimer()
			rw = &rewrite.Rewriter{Models: rw.Models}
			rw.Rewritten(b.Context(), p, req(-1), rewrite.Options{})
			i = 0
			b.StartTimer()
		}
		rw.Rewritten(b.Context(), p, next[i], rewrite.Options{})
		i++
	}
	b.ReportMetric(float64(turns), "messages")
}

// A hostile message of one character repeated to 400 KB: from Parse to the edited body, counting
// the whole request without a cache.
func BenchmarkLongMessage(b *testing.B) {
	for _, char := range []string{"a", " ", "=", "1", `\n`, "文", "🙂", "é"} {
		b.Run(char, func(b *testing.B) {
			p := rewrite.DefaultPolicy()
			p.Knowledge, p.Placement, p.CountWhole = []string{"handbook"}, rewrite.PlaceLastUser, true
			m := modelOf(b, "o200k_base")
			m.Window = 1 << 20
			rw := &rewrite.Rewriter{Retriever: answering(sixSources()), Models: models{m}}
			run := strings.Repeat(char, 400_000/len(char))
			b.SetBytes(400_000)
			i := 0
			for b.Loop() {
				i++
				body := fmt.Appendf(nil, `{"messages":[{"role":"user","content":"How %d long?%s"}]}`, i, run)
				req, err := chat.Completions.Parse(body)
				if err != nil {
					b.Fatal(err)
				}
				res := rw.Rewritten(b.Context(), p, req, rewrite.Options{})
				if res.Outcome != rewrite.Injected {
					b.Fatal(res.Outcome, res.Reason)
				}
				rewrite.ApplyEdits(nil, body, res.Edits)
			}
		})
	}
}

// Counting stops once the count exceeds the window, whatever the text is, because nothing can be
// added then. A partial count is not cached.
func TestCountingStops(t *testing.T) {
	e := encoding(t, "o200k_base")
	const window = 5000
	many := func(unit string) string { return strings.Repeat(unit+",", 400_000/len(unit)) + unit }
	for name, body := range map[string]string{
		"a message":  `{"messages":[{"role":"user","content":"` + strings.Repeat("How long? ", 40_000) + `"}]}`,
		"messages":   `{"messages":[` + many(`{"role":"user","content":"How long?"}`) + `]}`,
		"parts":      `{"messages":[{"role":"user","content":[` + many(`{"type":"text","text":"How long?"}`) + `]}]}`,
		"tools":      `{"messages":[{"role":"user","content":"How long?"}],"tools":[` + many(`{"type":"function","function":{"name":"f","description":"How long?"}}`) + `]}`,
		"an enum":    `{"messages":[{"role":"user","content":"How long?"}],"functions":[{"parameters":{"enum":[` + many(`"How long?"`) + `]}}]}`,
		"the format": `{"messages":[{"role":"user","content":"How long?"}],"response_format":{"type":"json_schema","json_schema":{"x":[` + many(`"How long?"`) + `]}}}`,
	} {
		rw := &rewrite.Rewriter{Retriever: answering(manySources(3)), Models: models{model.Model{Encoding: "o200k_base", Counter: e, Window: window}}}
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		p := testPolicy(t, nil)
		p.ReserveOutputTokens = 10
		res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
		w := res.Ledger.Window
		if res.Outcome != rewrite.Untouched || res.Reason != rewrite.ReasonWindow || w.Cost == nil || !w.Cost.Stopped || w.Cost.Exact || w.Request <= window {
			t.Errorf("%s: %s %s, %+v, %+v", name, res.Outcome, res.Reason, w, w.Cost)
		}
		rw.Models = models{model.Model{Encoding: "o200k_base", Counter: e}}
		if c := measured(t, rw, body).Cost; c.Stopped || c.Messages+c.Tools+c.Format < 30_000 {
			t.Errorf("%s: without a window %+v", name, c)
		}
	}
}

// The length of a request does not show that an earlier spoken answer fits.
func TestAudioByIDIsCounted(t *testing.T) {
	const head, tail = `{"messages":[{"role":"user","content":"one two"},{"role":"assistant"`, `}]}`
	p := testPolicy(t, nil)
	p.ReserveOutputTokens = 1
	for audio, want := range map[string]model.WindowCheck{`null`: model.CheckBound, `{"id":"audio_abc"}`: model.CheckCount} {
		req, err := chat.Completions.Parse([]byte(head + `,"audio":` + audio + tail))
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Retriever: answering(manySources(3)), Models: models{model.Model{Counter: words{}, Window: 3000}}}
		if w := rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger.Window; w.Check != want {
			t.Errorf("audio %s: %+v, want %s", audio, w, want)
		}
	}
}
