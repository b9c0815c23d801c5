package cacheguard_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/cacheguard"
)

// A clocked guard is given the turns of one conversation after another, one a second.
type clocked struct {
	*cacheguard.Guard
	now  time.Time
	last int // conversation
}

func newClocked() *clocked {
	return &clocked{Guard: cacheguard.New(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// repeat observes a first turn and, later, a second one, of which a share was cached.
func (c *clocked) repeat(share float64, later time.Duration, change func(*cacheguard.Observation)) (cacheguard.Finding, bool) {
	c.last++
	first := cacheguard.Observation{Time: c.now, Input: 5000, Told: true, Caches: true}
	c.Extend(&first.Prompt, fmt.Append(nil, "question ", c.last))
	c.Observe(upstream, &first)
	c.now = c.now.Add(later)
	second := cacheguard.Observation{Time: c.now, Prompt: first.Prompt, Placement: "system", Mend: "split", Input: 5000 + 1000, Added: 1000, Cached: int64(share * 5000), Told: true, Caches: true}
	c.Extend(&second.Prompt, []byte("answer"))
	c.Extend(&second.Prompt, []byte("another question"))
	if change != nil {
		change(&second)
	}
	return c.Observe(upstream, &second)
}

// repeats calls repeat n times and returns the findings.
func (c *clocked) repeats(n int, share float64, later time.Duration, change func(*cacheguard.Observation)) (all []cacheguard.Finding) {
	for range n {
		if f, ok := c.repeat(share, later, change); ok {
			all = append(all, f)
		}
	}
	return all
}

func maySwitch(o *cacheguard.Observation) { o.MaySwitch = true }

func wantFindings(t *testing.T, got []cacheguard.Finding, want int) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("got %d findings %+v, want %d", len(got), got, want)
	}
}

func TestWarningIsRepeatedOnlyAfterRecovery(t *testing.T) {
	c := newClocked()
	wantFindings(t, c.repeats(1000, 0, time.Second, nil), 1)
	if !c.Broken(upstream) {
		t.Error("not broken after a finding")
	}
	for range 20 { // well for less than Recovery, again and again
		wantFindings(t, c.repeats(300, 1, time.Second, nil), 0)
		wantFindings(t, c.repeats(200, 0, time.Second, nil), 0)
	}
	if got := c.Status(); len(got) != 1 || got[0].State != cacheguard.Warned {
		t.Errorf("got %+v, want a warned model", got)
	}
	wantFindings(t, c.repeats(300+int(cacheguard.Recovery/time.Second), 1, time.Second, nil), 0)
	if got := c.Status(); c.Broken(upstream) || got[0].State != cacheguard.Fine {
		t.Errorf("got %+v after the recovery", got)
	}
	wantFindings(t, c.repeats(1000, 0, time.Second, nil), 1)
}

// A share between half of the margin and the margin neither warns nor ends a warning.
func TestNothingChangesWithinTheMargin(t *testing.T) {
	within := cacheguard.AssumedHit - cacheguard.Margin*0.8
	c := newClocked()
	wantFindings(t, c.repeats(5000, within, time.Second, nil), 0)
	wantFindings(t, c.repeats(1000, 0, time.Second, nil), 1)
	wantFindings(t, c.repeats(5000, within, time.Second, nil), 0)
	if got := c.Status(); got[0].State != cacheguard.Warned {
		t.Errorf("got %+v, want a warned model", got)
	}
}

func TestSwitchIsForGood(t *testing.T) {
	c := newClocked()
	found := c.repeats(1000, 0, time.Second, maySwitch)
	wantFindings(t, found, 1)
	if f := found[0]; !f.Switched || f.Mend != "split" || f.Placement != "system" || f.Key != upstream || f.Share != 0 || f.Requests < cacheguard.MinRequests {
		t.Errorf("got %+v", f)
	}
	wantFindings(t, c.repeats(3*int(cacheguard.Recovery/time.Second), 1, time.Second, maySwitch), 0)
	wantFindings(t, c.repeats(1000, 0, time.Second, maySwitch), 0)
	if got := c.Status(); !c.Broken(upstream) || got[0].State != cacheguard.Switched {
		t.Errorf("got %+v, want a switched model", got)
	}
	if other := (cacheguard.Key{Upstream: "openai", Model: "other"}); c.Broken(other) {
		t.Error("another model is broken, too")
	}
}

// A policy that may switch does so although another one's requests were the evidence.
func TestWarnedModelIsSwitchedWhereAPolicySaysSo(t *testing.T) {
	c := newClocked()
	wantFindings(t, c.repeats(1000, 0, time.Second, nil), 1)
	found := c.repeats(10, 0, time.Second, maySwitch)
	wantFindings(t, found, 1)
	if !found[0].Switched {
		t.Errorf("got %+v", found[0])
	}
}

// Where no placement would mend it there is a warning, and nothing is switched.
func TestNothingToSwitchTo(t *testing.T) {
	c := newClocked()
	found := c.repeats(1000, 0, time.Second, func(o *cacheguard.Observation) { o.Placement, o.Mend, o.MaySwitch = "split", "", true })
	wantFindings(t, found, 1)
	if found[0].Switched || c.Broken(upstream) {
		t.Errorf("got %+v", found[0])
	}
}

// Old evidence is lost: some requests, a day without any, and some more are no finding.
func TestOldEvidenceIsLost(t *testing.T) {
	const some = cacheguard.MinRequests * 9 / 10
	c := newClocked()
	wantFindings(t, c.repeats(2*some, 0, time.Second, nil), 1)
	c = newClocked()
	wantFindings(t, c.repeats(some, 0, time.Second, nil), 0)
	c.now = c.now.Add(5 * 24 * time.Hour)
	wantFindings(t, c.repeats(some, 0, time.Second, nil), 0)
}

// Strong evidence before a pause does not make a finding of weak evidence after it.
func TestOldEvidenceAddsLittle(t *testing.T) {
	const some, weak = cacheguard.MinRequests * 9 / 10, cacheguard.AssumedHit - cacheguard.Margin - 0.05
	c := newClocked()
	c.repeats(some, 0, time.Second, nil)
	wantFindings(t, c.repeats(2*some, weak, time.Second, nil), 1)
	c = newClocked()
	c.repeats(some, 0, time.Second, nil)
	c.now = c.now.Add(5 * 24 * time.Hour)
	wantFindings(t, c.repeats(2*some, weak, time.Second, nil), 0)
}

// A request without sources says nothing of the cache if an earlier turn had some.
func TestTurnAfterSourcesIsNoControl(t *testing.T) {
	for _, placement := range []string{"", "system"} {
		c := newClocked()
		for range 2 * cacheguard.MinControls {
			c.last++
			o := cacheguard.Observation{Time: c.now, Input: 5000, Told: true, Caches: true, Placement: placement}
			c.Extend(&o.Prompt, fmt.Append(nil, "question ", c.last))
			c.Observe(upstream, &o)
			c.Extend(&o.Prompt, []byte("answer"))
			o.Placement = ""
			c.Observe(upstream, &o)
		}
		c.repeat(0, time.Second, nil)
		if got := c.Status(); (got[0].Controls > 0) != (placement == "") {
			t.Errorf("after a turn with the placement %q: %+v", placement, got)
		}
	}
}

// What requests without sources hit is expected, and no longer once they are old.
func TestControlsExpire(t *testing.T) {
	off := func(o *cacheguard.Observation) { o.Placement, o.Mend, o.Input, o.Added = "", "", 5000, 0 }
	c := newClocked()
	c.repeats(100, 0.3, time.Second, off)
	wantFindings(t, c.repeats(500, 0.3, time.Second, nil), 0)
	if got := c.Status(); got[0].Controls < cacheguard.MinControls || got[0].Expected > 0.31 {
		t.Errorf("got %+v", got)
	}
	c.now = c.now.Add(5 * 24 * time.Hour)
	wantFindings(t, c.repeats(500, 0.3, time.Second, nil), 1)
	if got := c.Status(); got[0].Controls != 0 {
		t.Errorf("got %+v", got)
	}
}

// Only a soon and whole repetition of a long prompt is evidence, and only if the cached tokens are
// told.
func TestWhatIsNoEvidence(t *testing.T) {
	for name, change := range map[string]func(*cacheguard.Observation){
		"cached tokens are not told": func(o *cacheguard.Observation) { o.Told = false },
		"more cached than sent":      func(o *cacheguard.Observation) { o.Cached = o.Input + 1 },
		"negative":                   func(o *cacheguard.Observation) { o.Cached = -1 },
		"more added than sent":       func(o *cacheguard.Observation) { o.Added = o.Input },
		"no prompt":                  func(o *cacheguard.Observation) { o.Prompt = cacheguard.Prompt{} },
		"shorter than what it repeats": func(o *cacheguard.Observation) {
			o.Input, o.Added = 3000, 1000
		},
		"the lifetime is over": func(o *cacheguard.Observation) { o.Time = o.Time.Add(cacheguard.Lifetime) },
	} {
		c := newClocked()
		wantFindings(t, c.repeats(500, 0, time.Second, change), 0)
		if got := c.Status(); len(got) > 0 {
			t.Errorf("%s: got %+v, want no evidence", name, got)
		}
	}
	c := newClocked()
	c.repeats(500, 0, cacheguard.Lifetime+time.Second, nil)
	if got := c.Status(); len(got) > 0 {
		t.Errorf("after the lifetime: got %+v, want no evidence", got)
	}
}

// An upstream that is not known to cache anything, and never did, breaks nothing.
func TestUpstreamWithoutCache(t *testing.T) {
	unknown := func(o *cacheguard.Observation) { o.Caches = false }
	c := newClocked()
	wantFindings(t, c.repeats(1000, 0, time.Second, unknown), 0)
	c.repeat(0.5, time.Second, unknown)
	found := c.repeats(1000, 0, time.Second, unknown)
	wantFindings(t, found, 1)
	if found[0].Requests > 2*cacheguard.MinRequests {
		t.Errorf("got %+v: earlier requests count", found[0])
	}
}

// Where only what is marked is cached, no more can be read again than was read or written.
func TestMarkedPrompts(t *testing.T) {
	c := newClocked()
	second := func(cached, written int64) {
		c.last++
		o := cacheguard.Observation{Time: c.now, Input: 6000, Told: true, Caches: true, Marked: true, Cached: cached, Written: written}
		c.Extend(&o.Prompt, fmt.Append(nil, "question ", c.last))
		c.Observe(upstream, &o)
		o.Placement, o.Added, o.Cached, o.Written = "system", 1000, 2000, 0
		c.Extend(&o.Prompt, []byte("answer"))
		c.Observe(upstream, &o)
	}
	second(0, 0)
	second(500, 500)
	if got := c.Status(); len(got) > 0 {
		t.Errorf("nothing was cached: got %+v", got)
	}
	second(1000, 1048)
	if got := c.Status(); len(got) != 1 || got[0].Expected != cacheguard.AssumedHit*2048/5000 {
		t.Errorf("got %+v", got)
	}
}

// A prompt repeats the last of its beginnings that was sent, of the last sixteen.
func TestBeginningsOfPrompts(t *testing.T) {
	for _, parts := range []int{1, 2, 15, 16, 40} {
		g := cacheguard.New()
		o := cacheguard.Observation{Time: time.Unix(1e9, 0), Input: 2048, Told: true, Caches: true}
		for n := range 20 {
			g.Extend(&o.Prompt, fmt.Append(nil, "before ", n))
		}
		g.Observe(upstream, &o)
		for n := range parts {
			g.Extend(&o.Prompt, fmt.Append(nil, "after ", n))
		}
		o.Placement = "split"
		g.Observe(upstream, &o)
		if found := len(g.Status()) == 1; found != (parts < 16) {
			t.Errorf("%d parts later: repeats = %v", parts, found)
		}
	}
}

// Shares are shares whatever upstreams tell.
func TestSharesOfAnyUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := cacheguard.New()
		at := time.Unix(1e9, 0)
		tokens := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 5000))
		for range rapid.IntRange(1, 100).Draw(t, "conversations") {
			var p cacheguard.Prompt
			for range 4 {
				at = at.Add(time.Duration(rapid.Int64Range(-1e9, 400e9).Draw(t, "wait")))
				g.Extend(&p, []byte(rapid.StringN(0, 3, -1).Draw(t, "part")))
				o := cacheguard.Observation{
					Time: at, Prompt: p, Placement: rapid.StringMatching("[a-l]?").Draw(t, "placement"), Told: true, Caches: true, Marked: rapid.Bool().Draw(t, "marked"),
					Input: tokens.Draw(t, "input"), Cached: tokens.Draw(t, "cached"), Written: tokens.Draw(t, "written"), Added: tokens.Draw(t, "added"),
				}
				g.Observe(upstream, &o)
			}
		}
		for _, s := range g.Status() {
			if !(s.Share >= 0 && s.Share <= 1 && s.Expected >= 0 && s.Expected <= 1) {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	g := cacheguard.New()
	var all sync.WaitGroup
	var findings sync.Map
	for n := range 8 {
		all.Go(func() {
			c := &clocked{Guard: g, now: time.Unix(1e9, 0), last: n * 1e6}
			for range 500 {
				if f, ok := c.repeat(0, time.Millisecond, maySwitch); ok {
					findings.Store(n, f)
				}
				g.Broken(upstream)
				g.Status()
			}
		})
	}
	all.Wait()
	count := 0
	findings.Range(func(_, _ any) bool { count++; return true })
	if count != 1 || !g.Broken(upstream) {
		t.Errorf("got %d findings, want 1", count)
	}
}

func BenchmarkBroken(b *testing.B) {
	c := newClocked()
	c.repeats(1000, 0, time.Second, nil)
	for b.Loop() {
		c.Broken(upstream)
	}
}

func BenchmarkObserve(b *testing.B) {
	c := newClocked()
	for b.Loop() {
		c.repeat(0.9, time.Second, nil)
	}
}
