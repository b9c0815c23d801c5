package bm25

import (
	"cmp"
	"context"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A Hit is a matching text.
type Hit struct {
	Ref
	Score float64
}

// Search appends at most k live texts to into, best first; equal scores are in the order of the
// Index. It returns the error of ctx, or an error if a mapped file cannot be read.
//
// allow, unless nil, restricts the result, per segment, to these texts; it changes no score. A
// question with many postings is searched by several goroutines.
func (x *Index) Search(ctx context.Context, terms []Term, k int, allow []Bitmap, into []Hit) ([]Hit, error) {
	defer runtime.KeepAlive(x)
	sc := borrow(x)
	sc.terms = x.weigh(terms, nil, sc.terms)
	var err error
	if n := searchers(x, sc.terms); n > 1 && k > 0 {
		into, err = findParallel(ctx, x, sc.terms, k, allow, n, into)
	} else {
		into, err = sc.find(ctx, x, sc.terms, k, allow, into)
	}
	if err != nil {
		return nil, err
	}
	giveBack(x, sc)
	return into, nil
}

// find is Search for weighted terms, with one goroutine.
func (x *Index) find(ctx context.Context, q question, k int, allow []Bitmap) ([]Hit, error) {
	sc := borrow(x)
	hits, err := sc.find(ctx, x, q, k, allow, nil)
	if err == nil {
		giveBack(x, sc)
	}
	return hits, err
}

func (sc *scratch) find(ctx context.Context, x *Index, q question, k int, allow []Bitmap, into []Hit) ([]Hit, error) {
	if len(q) == 0 || k <= 0 {
		return into, ctx.Err()
	}
	best := newTop(sc.heap, min(k, x.texts), x)
	for i := range x.views {
		if err := sc.searchIn(ctx, x, i, q, allow, best); err != nil {
			return nil, err
		}
	}
	sc.heap = best.heap
	return best.sorted(into), nil
}

// borrow returns an unused scratch.
func borrow(x *Index) *scratch {
	if sc, ok := x.scratch.Get().(*scratch); ok {
		return sc
	}
	return new(scratch)
}

// giveBack keeps a scratch for another search. It must not be called after a panic or an error,
// which leave scores in it.
func giveBack(x *Index, sc *scratch) { x.scratch.Put(sc) }

// searchIn offers the texts of a segment to best.
func (sc *scratch) searchIn(ctx context.Context, x *Index, segment int, q question, allow []Bitmap, best *top) error {
	sc.allow = nil
	if allow != nil {
		if segment >= len(allow) || len(allow[segment]) == 0 {
			return nil
		}
		sc.allow = allow[segment]
	}
	sc.open(x, segment, q)
	if len(sc.lists) == 0 {
		return nil
	}
	return sc.search(ctx, best)
}

// window is how many texts are scored at a time: their scores fit into the processor's first-level
// cache.
const window = 2048

// A scratch is the working memory of one search in one segment.
//
// Terms are ordered by their maximum contribution, least first, unless there are few texts. The
// first ones are optional if all of them together cannot lift a text above the threshold: texts
// are found by the other terms only, and the optional ones are looked up for texts that can still
// exceed it.
type scratch struct {
	*view
	number int    // of the segment
	allow  Bitmap // nil for all
	lists  []list
	bounds []int64 // bounds[i] is the most that lists[:i] can add together
	scores [window]int64
	found  [window / 64]uint64 // texts of the window that can still exceed the bar
	words  int                 // number of words of found in use: the last window of a segment is shorter
	heap   []key               // of the best texts
	terms  question            // the searched terms
}

// A list is the rest of one term's postings.
type list struct {
	left   []posting
	factor float32
	most   int64
}

func (l *list) score(p posting, norms []float32) int64 {
	return int64(l.factor * impact(p.freq(), norms[p.text()]))
}

// fewTexts is the number of texts up to which a segment's lists are added up in any order: sorting
// them, to make more of them optional, would take longer than it saves.
const fewTexts = 256

// open prepares the scratch for a segment, with the lists of the terms that it contains.
func (sc *scratch) open(x *Index, segment int, q question) {
	sc.view, sc.number = &x.views[segment], segment
	sc.lists = sc.lists[:0]
	for _, t := range q {
		if in := t.in[segment]; in.texts > 0 {
			sc.lists = append(sc.lists, list{t.postings(x, segment), t.factor, int64(t.factor*in.most*slack) + 1})
		}
	}
	if len(sc.norms) > fewTexts {
		slices.SortStableFunc(sc.lists, func(a, b list) int { return cmp.Compare(a.most, b.most) })
	}
	sc.bounds = append(sc.bounds[:0], 0)
	for i, l := range sc.lists {
		sc.bounds = append(sc.bounds, sc.bounds[i]+l.most)
	}
}

// slack is more than rounding can reduce a bound by: the rounded quotient in impact is not
// monotonic if a text repeats a term tens of thousands of times.
const slack = 1 + 1.0/(1<<20)

// search offers the texts of the segment to best.
func (sc *scratch) search(ctx context.Context, best *top) error {
	best.enter()
	optional := 0
	for next := uint32(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		best.confer()
		for optional < len(sc.lists) && sc.bounds[optional+1] <= best.bar() {
			optional++
		}
		first, ok := sc.first(optional)
		if !ok {
			return nil
		}
		start := first &^ 63 // windows are whole words of a bitmap
		sc.words = min(window, len(sc.norms)-int(start)+63) / 64
		sc.fill(optional, start, best.bar()-sc.bounds[optional])
		sc.mask(start)
		sc.drain(optional, start, best)
		next = start + window
		if int(next) >= len(sc.norms) {
			return nil
		}
	}
}

// first returns the first remaining text with a required term.
func (sc *scratch) first(optional int) (text uint32, ok bool) {
	for _, l := range sc.lists[optional:] {
		if len(l.left) > 0 && (!ok || l.left[0].text() < text) {
			text, ok = l.left[0].text(), true
		}
	}
	return text, ok
}

// fill adds up the required terms for the window of texts from start on, and finds the texts whose
// score exceeds least: those that can still exceed the bar.
func (sc *scratch) fill(optional int, start uint32, least int64) {
	// Local variables: the compiler would load fields again after each store.
	norms, scores, found := sc.norms, &sc.scores, &sc.found
	for i := optional; i < len(sc.lists); i++ {
		l := sc.lists[i]
		n := 0
		for _, p := range l.left {
			at := p.text() - start
			if at >= window {
				break
			}
			score := scores[at] + l.score(p, norms)
			scores[at] = score
			found[at/64] |= passes(score, least) & (1 << (at % 64))
			n++
		}
		sc.lists[i].left = l.left[n:]
	}
}

// mask removes the texts of the window that are dead or not allowed.
func (sc *scratch) mask(start uint32) {
	at := int(start / 64)
	if sc.dead != nil {
		for w := range sc.words {
			sc.found[w] &^= sc.dead.word(at + w)
		}
	}
	if sc.allow != nil {
		for w := range sc.words {
			sc.found[w] &= sc.allow.word(at + w)
		}
	}
}

// drain adds the optional terms, greatest first, for the texts of the window that can still exceed
// the bar, offers those that do, and clears the window.
func (sc *scratch) drain(optional int, start uint32, best *top) {
	left, rest := 0, len(sc.norms)-int(start)
	for _, set := range sc.found[:sc.words] {
		left += bits.OnesCount64(set)
	}
	for i := optional - 1; i >= 0 && left > 0; i-- {
		l := &sc.lists[i]
		l.left = l.left[seek(l.left, start):]
		least := best.bar() - sc.bounds[i]
		// Looking up one text costs about as much as adding up eight in sequence.
		if inWindow := len(l.left) * min(window, rest) / rest; inWindow < 8*left {
			l.sweep(sc.norms, start, &sc.scores)
			left = sc.prune(least)
		} else {
			left = sc.lookUp(l, start, least)
		}
	}
	for w, set := range sc.found[:sc.words] {
		for ; set != 0; set &= set - 1 {
			at := w*64 + bits.TrailingZeros64(set)
			if score := sc.scores[at]; score > best.bar() {
				best.offer(Ref{sc.number, int(start) + at}, score)
			}
		}
	}
	clear(sc.found[:sc.words])
	clear(sc.scores[:64*sc.words])
}

// sweep adds the term to all its texts in the window.
func (l *list) sweep(norms []float32, start uint32, scores *[window]int64) {
	own := *l // see fill
	for _, p := range own.left {
		at := p.text() - start
		if at >= window {
			return
		}
		scores[at] += own.score(p, norms)
	}
}

// prune removes the texts whose score does not exceed least and returns how many remain.
func (sc *scratch) prune(least int64) (left int) {
	for w, set := range sc.found[:sc.words] {
		kept := uint64(0)
		for ; set != 0; set &= set - 1 {
			kept |= set & -set & passes(sc.scores[w*64+bits.TrailingZeros64(set)], least)
		}
		sc.found[w] = kept
		left += bits.OnesCount64(kept)
	}
	return left
}

// passes returns all ones if score > least, else 0: a branch here would be mispredicted half of
// the time.
func passes(score, least int64) uint64 { return uint64((least - score) >> 63) }

// lookUp adds the term to those found texts that contain it, and prunes.
func (sc *scratch) lookUp(l *list, start uint32, least int64) (left int) {
	rest := l.left
	for w, set := range sc.found[:sc.words] {
		kept := uint64(0)
		for ; set != 0; set &= set - 1 {
			at := w*64 + bits.TrailingZeros64(set)
			rest = rest[seek(rest, start+uint32(at)):]
			if len(rest) > 0 && rest[0].text() == start+uint32(at) {
				sc.scores[at] += l.score(rest[0], sc.norms)
			}
			kept |= set & -set & passes(sc.scores[at], least)
		}
		sc.found[w] = kept
		left += bits.OnesCount64(kept)
	}
	l.left = rest
	return left
}

// seek returns how many postings come before text. It doubles steps, then bisects, because most
// targets are near.
func seek(postings []posting, text uint32) int {
	step := 1
	for step < len(postings) && postings[step-1].text() < text {
		step *= 2
	}
	lo, hi := step/2, min(step, len(postings))
	for lo < hi {
		mid := (lo + hi) / 2
		if postings[mid].text() < text {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

const (
	// keptTexts is how many of the best texts of a question a Best keeps, since one may be deleted
	// or have the same score as the next.
	keptTexts = 3
	// fewPlaces is the most texts that are scored one by one because they contain a new term of a
	// question.
	fewPlaces = 256
)

// A Best is the greatest score of a text for a question, with what is needed to find it again
// after a small change of the Index.
type Best struct {
	Score float64  // 0 if no text matches
	terms question // with their weights
	texts []keptText
	rest  float64 // upper bound of the scores of all other texts
}

// A keptText is a text, identified independently of the number of its segment.
type keptText struct {
	segment *Segment
	text    int
	score   int64
}

// Best returns the greatest score of the live texts for a question, which is that of the first Hit
// of Search. before, unless nil, is the Best of about the same question in an earlier Index, and
// change is what has changed since.
//
// After a small change it scores only a few texts: those that were best, new ones, and those with
// a term that was not in the question before. No other text scored more than before.rest, and none
// scores much more now, because the factors of the terms are about the same. If one of the scored
// texts exceeds that bound, it is the best of all. Otherwise all texts are searched.
func (x *Index) Best(ctx context.Context, terms []Term, before *Best, change *Change) (Best, error) {
	defer runtime.KeepAlive(x)
	q := x.weigh(terms, change, nil)
	if before != nil && change != nil {
		best, ok, err := x.again(ctx, q, before, change)
		if ok || err != nil {
			return best, err
		}
	}
	hits, err := x.find(ctx, q, keptTexts, nil)
	return x.best(q, hits, 0), err
}

// best makes a Best of hits, of which there are keptTexts unless fewer texts match. No other text
// scores more than rest or the last hit.
func (x *Index) best(q question, hits []Hit, rest float64) Best {
	b := Best{rest: rest, terms: q, texts: make([]keptText, len(hits))}
	for i, h := range hits {
		b.texts[i] = keptText{x.views[h.Segment].segment, h.Text, int64(h.Score * unit)}
	}
	if len(hits) > 0 {
		b.Score = hits[0].Score
	}
	if len(hits) == keptTexts {
		b.rest = max(rest, hits[keptTexts-1].Score)
	}
	return b
}

// again finds the best text without searching all texts, if possible.
func (x *Index) again(ctx context.Context, q question, before *Best, change *Change) (_ Best, ok bool, err error) {
	growth, others := before.growth(q)
	if count(others) > fewPlaces {
		return Best{}, false, nil
	}
	found, err := x.find(ctx, q, keptTexts, change.fresh)
	if err != nil {
		return Best{}, false, err
	}
	best := newTop(nil, keptTexts, x)
	offered := map[Ref]bool{}
	offer := func(ref Ref, score int64) {
		if !offered[ref] { // a heap would keep it twice
			offered[ref] = true
			best.offer(ref, score)
		}
	}
	for _, h := range found {
		offer(h.Ref, int64(h.Score*unit))
	}
	for _, k := range before.texts {
		if i, here := change.number[k.segment]; here && !x.views[i].dead.Has(k.text) {
			ref := Ref{i, k.text}
			offer(ref, x.views[ref.Segment].score(q, ref))
		}
	}
	for _, t := range others {
		for i, in := range t.in {
			if in.texts == 0 {
				continue
			}
			for _, p := range x.views[i].segment.of(in.id) {
				if ref := (Ref{i, int(p.text())}); !x.views[i].dead.Has(ref.Text) {
					offer(ref, x.views[ref.Segment].score(q, ref))
				}
			}
		}
	}
	// Each term's part of a score is truncated to a whole number of units.
	rest := (before.rest + float64(maxTerms)/unit) * growth * change.growth * (slack + 1.0/(1<<16))
	b := x.best(q, best.sorted(nil), rest)
	return b, b.Score >= rest, nil
}

// growth returns an upper bound for the factor by which scores may have grown because of the
// factors of the terms, and the terms that the question did not have before.
func (b *Best) growth(q question) (growth float64, others []weightedTerm) {
	growth = 1
	for _, t := range q {
		i := 0
		for i < len(b.terms) && b.terms[i].term != t.term {
			i++
		}
		if i == len(b.terms) {
			others = append(others, t)
			continue
		}
		growth = max(growth, float64(t.factor)/float64(b.terms[i].factor))
	}
	return growth, others
}

// count returns the sum of the document frequencies of terms.
func count(terms []weightedTerm) (n int) {
	for _, t := range terms {
		n += t.texts
	}
	return n
}

// score returns the score of one text of this segment.
func (v *view) score(q question, ref Ref) (score int64) {
	for _, t := range q {
		in := t.in[ref.Segment]
		if in.texts == 0 {
			continue
		}
		postings := v.segment.of(in.id)
		if at := seek(postings, uint32(ref.Text)); at < len(postings) && postings[at].text() == uint32(ref.Text) {
			l := list{factor: t.factor}
			score += l.score(postings[at], v.norms)
		}
	}
	return score
}

const (
	// parallelPostings is the number of postings from which a question is searched by several
	// goroutines. One goroutine takes about 0.3 ms for that many; starting another takes some 10
	// µs.
	parallelPostings = 1 << 17
	// maxSearchers is the most goroutines per question: the more there are, the more texts are
	// scored before the threshold is high.
	maxSearchers = 4
)

// A parallel is a search by several goroutines, each of which takes segments while there are any.
// The caller takes them, too, so no search waits for a busy processor.
type parallel struct {
	index *Index
	terms question
	k     int
	allow []Bitmap

	next      atomic.Int64 // next segment to search
	threshold atomic.Int64 // at least k texts have this score; 0 if not known

	mu       sync.Mutex
	ended    bool           // the caller found no more segments: no helper may begin
	helpers  sync.WaitGroup // those that have begun
	found    []key
	err      error
	panicked any
}

// searchers returns how many goroutines should search for a question.
func searchers(x *Index, q question) int {
	if count(q) < parallelPostings {
		return 1
	}
	return min(maxSearchers, len(x.views), runtime.GOMAXPROCS(0))
}

// findParallel is find with at most n goroutines.
func findParallel(ctx context.Context, x *Index, q question, k int, allow []Bitmap, n int, into []Hit) ([]Hit, error) {
	p := &parallel{index: x, terms: q, k: min(k, x.texts), allow: allow}
	for range n - 1 {
		go p.help(ctx)
	}
	err := p.work(ctx)
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.helpers.Wait()
	if p.panicked != nil {
		panic(p.panicked)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	best := top{index: x, heap: p.found}
	hits := best.sorted(into)
	return hits[:min(len(hits), len(into)+p.k)], nil
}

// help runs work beside the caller, which gets its error or panic.
func (p *parallel) help(ctx context.Context) {
	if !p.begin() {
		return
	}
	defer p.helpers.Done()
	defer func() {
		if value := recover(); value != nil {
			p.mu.Lock()
			p.panicked = value
			p.mu.Unlock()
		}
	}()
	if err := GuardMapped(func() error { return p.work(ctx) }); err != nil {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

func (p *parallel) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.helpers.Add(1)
	}
	return !p.ended
}

// work searches segments until none is left.
func (p *parallel) work(ctx context.Context) error {
	sc := borrow(p.index)
	best := newTop(sc.heap, p.k, p.index)
	best.shared = &p.threshold
	for i := int(p.next.Add(1)) - 1; i < len(p.index.views); i = int(p.next.Add(1)) - 1 {
		if err := sc.searchIn(ctx, p.index, i, p.terms, p.allow, best); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.found = append(p.found, best.heap...)
	p.mu.Unlock()
	sc.heap = best.heap
	giveBack(p.index, sc)
	return nil
}
