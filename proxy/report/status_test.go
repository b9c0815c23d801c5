package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

func TestStatusIsTheContracts(t *testing.T) {
	f := func(want string, change func(*report.Report)) {
		t.Helper()
		r := reporttest.Injected()
		change(r)
		got := string(report.AppendStatus(nil, r))
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if _, err := httpsfv.UnmarshalItem([]string{got}); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	f("injected; sources=4; tokens=1187; budget=2000; exact; cache=hit; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025", func(r *report.Report) { r.Rewrite.Ledger.Placement = rewrite.PlaceSystem })
	f("injected; reason=retrieval-timeout; sources=4; tokens=1187; budget=2000; estimated; window=unknown; cache=miss; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025",
		func(r *report.Report) {
			r.Reason = rewrite.ReasonTimeout
			r.Rewrite.Ledger.Exactness = rewrite.Estimated
			r.Rewrite.Model.Window = 0
			r.Rewrite.Retrieval.Cache = retrieval.CacheMiss
		})
	f("injected; sources=4; tokens=1187; budget=2000; exact; cache=hit; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025; placement=last_user",
		func(r *report.Report) { r.Rewrite.Ledger.Placement = rewrite.PlaceLastUser })
	f("injected; sources=4; tokens=1187; budget=2000; exact; cache=miss; degraded=embed; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025",
		func(r *report.Report) {
			r.Rewrite.Retrieval.Cache, r.Rewrite.Retrieval.Degraded = retrieval.CacheMiss, retrieval.StageEmbed
		})
	f("injected; sources=4; tokens=1187; budget=2000; exact; cache=miss; degraded=embed; embed=timeout; late=2; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025",
		func(r *report.Report) {
			r.Rewrite.Retrieval.Cache, r.Rewrite.Retrieval.Degraded = retrieval.CacheMiss, retrieval.StageEmbed
			r.Rewrite.Ledger.EmbedFailure, r.Rewrite.Ledger.Late = retrieval.EmbedTimeout, 2
		})
	for _, encoding := range []string{"o200k_base", "cl100k_base", "p50k_base", "r50k_base"} {
		f("injected; sources=4; tokens=1187; budget=2000; estimated; encoding="+encoding+"; cache=hit; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025",
			func(r *report.Report) {
				r.Rewrite.Ledger.Exactness, r.Rewrite.Ledger.Encoding = rewrite.Estimated, encoding
			})
		f("injected; sources=4; tokens=1187; budget=2000; exact; cache=hit; planner=off; retrieval-ms=3; rules=66; tags=96; text=1025",
			func(r *report.Report) { r.Rewrite.Ledger.Encoding = encoding })
	}
	f("untouched; reason=no-match; degraded=embed", func(r *report.Report) {
		r.Outcome, r.Reason, r.Rewrite.Retrieval.Degraded = rewrite.Untouched, rewrite.ReasonNoMatch, retrieval.StageEmbed
	})
	f("untouched; reason=no-match", func(r *report.Report) { r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonNoMatch })
	f("shadow", func(r *report.Report) { r.Outcome = rewrite.Shadowed })
	f("refused; reason=ambiguous-body", func(r *report.Report) { r.Outcome, r.Reason = rewrite.Refused, rewrite.ReasonAmbiguous })
	f("failed; reason=upstream-connect", func(r *report.Report) { r.Outcome, r.Reason = report.Failed, report.ReasonUpstreamConnect })
	f("refused; reason=a__b", func(r *report.Report) { r.Outcome, r.Reason = rewrite.Refused, "a\r\nb" })
}

func TestSourcesByExposure(t *testing.T) {
	f := func(e report.Expose, want string) {
		t.Helper()
		if got := string(report.AppendSources(nil, reporttest.Injected().Rewrite.Ledger.Sources, e)); got != want {
			t.Errorf("%s: got  %s\nwant %s", e, got, want)
		}
	}
	f(report.ExposeNone, "")
	f(report.ExposeIDs, `"1";kb="handbook";doc="leave.md", "2";kb="handbook";doc=%"%c3%bcberstunden.md", "3";kb="handbook";doc="it.md", "4";kb="handbook";doc="a\\\"b"`)
	f(report.ExposeNames, `"1";kb="handbook";doc="leave.md";name="Leave policy";section="Parental leave", `+
		`"2";kb="handbook";doc=%"%c3%bcberstunden.md";name=%"Die %22%c3%9cberstunden%22", `+
		`"3";kb="handbook";doc="it.md";name=%"a%0d%0aSet-Cookie: x=1", "4";kb="handbook";doc="a\\\"b"`)
}

// A version tells its date where names are told.
func TestSourcesTellDates(t *testing.T) {
	sources := reporttest.Injected().Rewrite.Ledger.Sources[:1]
	sources[0].Date = "2026-03-01"
	if got := string(report.AppendSources(nil, sources, report.ExposeNames)); !strings.HasSuffix(got, `section="Parental leave";date="2026-03-01"`) {
		t.Error(got)
	}
	if got := string(report.AppendSources(nil, sources, report.ExposeIDs)); strings.Contains(got, "date") {
		t.Error(got)
	}
}

// Whatever the names of documents, a parser reads back exactly the members that fit, and no byte
// that could end a header is written.
func TestSourcesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hostile := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("\r\n\"\\%;,= \x00\x7f\x80é漢\U0010FFFF\uFFFD"))),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 700), func(b []byte) string { return string(b) }))
		n := rapid.IntRange(0, 20).Draw(t, "n")
		entries := make([]rewrite.SourceEntry, n)
		for i := range entries {
			entries[i] = rewrite.SourceEntry{ID: i, Knowledge: hostile.Draw(t, "kb"), Doc: hostile.Draw(t, "doc"), Name: hostile.Draw(t, "name"), Section: hostile.Draw(t, "section")}
		}
		got := report.AppendSources([]byte("before"), entries, report.ExposeNames)
		got, ok := bytes.CutPrefix(got, []byte("before"))
		if !ok || len(got) > report.MaxSourcesBytes {
			t.Fatalf("%d bytes after what stood there", len(got))
		}
		for _, c := range got {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %#x leaves in %q", c, got)
			}
		}
		list, err := httpsfv.UnmarshalList([]string{string(got)})
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		for _, m := range list {
			checkMember(t, m.(httpsfv.Item), entries)
		}
	})
}

func checkMember(t *rapid.T, item httpsfv.Item, entries []rewrite.SourceEntry) {
	var id int
	if _, err := fmt.Sscan(item.Value.(string), &id); err != nil || id < 1 || id >= len(entries) {
		t.Fatalf("member %v: no such id", item.Value)
	}
	want := map[string]string{"kb": entries[id].Knowledge, "doc": entries[id].Doc}
	if entries[id].Name != "" {
		want["name"] = entries[id].Name
	}
	if entries[id].Section != "" {
		want["section"] = entries[id].Section
	}
	got := map[string]string{}
	for _, key := range item.Params.Names() {
		switch v, _ := item.Params.Get(key); v := v.(type) {
		case string:
			got[key] = v
		case httpsfv.DisplayString:
			got[key] = string(v)
		}
	}
	for k, v := range want {
		want[k] = replaceInvalid(v)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("source %d (-want +got):\n%s", id, diff)
	}
}

// replaceInvalid returns s as headers show it: each invalid byte becomes U+FFFD.
func replaceInvalid(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}

func TestSourcesKeepWholeMembers(t *testing.T) {
	entries := []rewrite.SourceEntry{
		{ID: 1, Knowledge: "kb", Doc: "a", Name: "short"},
		{ID: 2, Knowledge: "kb", Doc: "b", Name: strings.Repeat("x", report.MaxSourcesBytes)},
		{ID: 3, Knowledge: "kb", Doc: "c", Name: "short"},
	}
	want := `"1";kb="kb";doc="a";name="short", "3";kb="kb";doc="c";name="short"`
	if got := string(report.AppendSources(nil, entries, report.ExposeNames)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestHeadersCostNoAllocation(t *testing.T) {
	r := reporttest.Injected()
	dst := make([]byte, 0, 8<<10)
	if n := testing.AllocsPerRun(100, func() {
		dst = report.AppendStatus(dst[:0], r)
		dst = report.AppendSources(dst, r.Rewrite.Ledger.Sources, report.ExposeNames)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStatus(b *testing.B) {
	r := reporttest.Injected()
	for i := range r.Rewrite.Ledger.Sources {
		s := &r.Rewrite.Ledger.Sources[i]
		s.Doc, s.Name = "handbook/leave/parental-leave.md", "Parental leave and how to ask for it"
	}
	space := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		space = report.AppendSources(report.AppendStatus(space[:0], r), r.Rewrite.Ledger.Sources, report.ExposeNames)
	}
}

func BenchmarkNewID(b *testing.B) {
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		report.NewID(now)
	}
}
