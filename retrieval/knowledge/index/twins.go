package index

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/index/bm25"
)

// Two documents are twins, one page in two formats, if their file names differ only in suffixes,
// they have the same attributes, one contains nearly all shingles of the other (A. Broder, On the
// resemblance and containment of documents, 1997), and no number and no negation differs where the
// words around it are the same. Folders are not compared: manuals keep the sources of pages apart.
//
// The twin that contains the other is searched; if each contains the other, that in the better
// format. The other one stays in its segment and is hidden, so that it comes back when the first
// one changes or disappears.

const (
	// shingle is the number of words of a shingle.
	shingle = 4
	// leastContained is the share of the shingles of a twin that the other one contains. Markup that
	// is text in one format takes some of them.
	leastContained = 0.7
	// leastOfFew is that share for documents with fewShingles or less.
	leastOfFew  = 0.95
	fewShingles = 60
	// mostShingles limits the shingles that are kept of a document: of a longer one, those with
	// the least hashes.
	mostShingles = 8192
	// mostTwins limits the comparisons of documents of one name in different folders.
	mostTwins = 512
)

// A Twin is a document that is not searched because another one says the same.
type Twin struct{ Document, Same string }

// rank returns the place of a document's format among those of pages, better ones first: rendered
// pages come before sources other than Markdown, because they include what sources only name. ok is
// false for other formats.
func rank(id string) (place int, ok bool) {
	const shortest, longest = len(".md"), len(".markdown")
	if at := strings.LastIndexByte(id, '.'); at < 0 || len(id)-at < shortest || len(id)-at > longest || strings.Contains(id, "#") { // no suffix, or a part of a file
		return 0, false
	}
	place = slices.Index([]extract.Format{extract.MarkdownText, extract.HTML, extract.RST, extract.DOCX, extract.ODT, extract.PPTX, extract.ODP, extract.Text, extract.PDF}, extract.Of(id))
	return place, place >= 0
}

// nameOf returns the file name of a document without suffixes, in lower case.
func nameOf(id string) string {
	const longest = 6
	name := strings.ToLower(path.Base(id))
	for {
		ext := path.Ext(name)
		if len(ext) < 2 || len(ext) > longest || len(ext) == len(name) || strings.ContainsAny(ext, " 0123456789") {
			return name
		}
		name = strings.TrimSuffix(name, ext)
	}
}

// TwinName returns the name that twins of a file share, and the place of its format, which twins do not
// share; ok is false if it can have no twin.
func TwinName(file string) (name string, format int, ok bool) {
	format, ok = rank(file)
	return nameOf(file), format, ok
}

// A namedDocument is a document and the hash of its name.
type namedDocument struct {
	name     uint64
	segment  int // in Segments
	document int
}

// TwinsVersion changes whenever other documents become twins.
const TwinsVersion = "twins 2"

// A twinning is the list of the documents of a segment that may be twins.
type twinning struct {
	mu    sync.Mutex
	named []namedDocument // by name
	read  bool
}

// Verdicts are the results of comparing the documents of a base. A document is identified by its
// content, so that a result outlives segments and processes and never applies to a changed document.
type Verdicts struct {
	Compared int // how many pairs were compared because there was no verdict
	of       map[pair]verdict
	used     map[pair]verdict // by the present call of WithoutTwins
}

// A pair is the content keys of two documents.
type pair [2]uint64

// A verdict says whether the documents of a pair are twins, and which one has more.
type verdict byte

const (
	noTwins    verdict = iota
	within             // all of the first is in the other
	containing         // there is more in the first
)

// savedVerdicts is the serialized form of Verdicts.
type savedVerdicts struct {
	Version string
	Pairs   [][3]uint64 // the content keys and the verdict
}

// OpenVerdicts reverses Verdicts.Save. If saved is damaged or of another version, there are none.
func OpenVerdicts(saved []byte) *Verdicts {
	var from savedVerdicts
	v := &Verdicts{of: map[pair]verdict{}}
	if len(saved) == 0 || json.Unmarshal(saved, &from) != nil || from.Version != TwinsVersion {
		return v
	}
	for _, p := range from.Pairs {
		v.of[pair{p[0], p[1]}] = verdict(p[2])
	}
	return v
}

// Save returns the verdicts for OpenVerdicts.
func (v *Verdicts) Save() ([]byte, error) {
	to := savedVerdicts{Version: TwinsVersion, Pairs: [][3]uint64{}}
	for p, is := range v.of {
		to.Pairs = append(to.Pairs, [3]uint64{p[0], p[1], uint64(is)})
	}
	slices.SortFunc(to.Pairs, func(a, b [3]uint64) int { return slices.Compare(a[:], b[:]) })
	return json.Marshal(to)
}

// mayBeTwins returns the documents of a segment that may be twins, by name.
func (s *Segment) mayBeTwins() []namedDocument {
	t := s.twinning
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.read {
		for d := range s.texts.documents {
			id := string(s.texts.id(d))
			if _, ok := rank(id); ok {
				t.named = append(t.named, namedDocument{name: retrieval.HashText(nameOf(id)), document: d})
			}
		}
		slices.SortFunc(t.named, func(a, b namedDocument) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.document, b.document))
		})
		t.read = true
	}
	return t.named
}

// WithoutTwins returns the segments with twins hidden. It compares the documents for which known
// has no verdict, and removes verdicts that it did not need.
func (s Segments) WithoutTwins(known *Verdicts) Segments {
	defer runtime.KeepAlive(s)
	known.used = map[pair]verdict{}
	var all []namedDocument
	for i := range s {
		for _, n := range s[i].mayBeTwins() {
			if !s[i].Deleted.Has(n.document) {
				n.segment = i
				all = append(all, n)
			}
		}
	}
	if len(s) > 1 {
		slices.SortStableFunc(all, func(a, b namedDocument) int { return cmp.Compare(a.name, b.name) })
	}
	same := make([]map[int]string, len(s))
	for from, to := 0, 0; from < len(all); from = to {
		for to = from + 1; to < len(all) && all[to].name == all[from].name; to++ {
		}
		if to-from > 1 {
			s.findTwins(all[from:to], same, known)
		}
	}
	known.of, known.used = known.used, nil
	out := slices.Clone(s)
	for i := range out {
		out[i] = out[i].hiding(same[i])
	}
	return out
}

// withTwins returns the segments with nothing hidden. Their vectors are incomplete.
func (s Segments) withTwins() Segments {
	out := slices.Clone(s)
	for i := range out {
		out[i] = out[i].hiding(nil)
	}
	return out
}

// Twins returns the hidden documents, by id.
func (s Segments) Twins() (list []Twin) {
	for i := range s {
		for d, of := range s[i].same {
			list = append(list, Twin{Document: string(s[i].texts.id(d)), Same: of})
		}
	}
	runtime.KeepAlive(s)
	slices.SortFunc(list, func(a, b Twin) int { return cmp.Compare(a.Document, b.Document) })
	return list
}

// hiding returns the segment with the given documents hidden, by number; the values are the ids of
// their twins.
func (l Live) hiding(same map[int]string) Live {
	if maps.Equal(same, l.same) {
		return l
	}
	var hidden bm25.Bitmap
	for d := range same {
		hidden.Add(d)
	}
	out := l.Segment.without(l.Deleted, hidden)
	out.same = same
	if out.Vectors = l.Vectors; l.Vectors != nil {
		out.Dense = l.Vectors.segment.Live(l.deadTexts(out.gone()))
	}
	return out
}

// A twin is a document that may be one.
type twin struct {
	namedDocument
	id         string
	rank       int
	key        uint64 // see contentKey; 0 until needed
	attributes string
	signature  *signature
	same       *twin // nil if it is searched
}

// findTwins finds twins among documents of one name, and adds them to same, by segment.
func (s Segments) findTwins(named []namedDocument, same []map[int]string, known *Verdicts) {
	list := make([]*twin, len(named))
	formats := map[int]bool{}
	for i, n := range named {
		t := &twin{namedDocument: n, id: string(s[n.segment].texts.id(n.document))}
		t.rank, _ = rank(t.id)
		formats[t.rank] = true
		list[i] = t
	}
	if len(formats) < 2 {
		return
	}
	slices.SortFunc(list, func(a, b *twin) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) })
	better := betterTwins{near: map[string][]*twin{}, known: known}
	for from, to := 0, 0; from < len(list); from = to { // those of one format
		for to = from; to < len(list) && list[to].rank == list[from].rank; to++ {
			t := list[to]
			of, is := s.twinOf(t, &better)
			switch is {
			case within:
				t.same = of
			case containing:
				of.same = t
			}
		}
		for _, t := range list[from:to] {
			better.add(t)
		}
	}
	for _, t := range list {
		of := t.same
		if of == nil {
			continue
		}
		for of.same != nil {
			of = of.same
		}
		if same[t.segment] == nil {
			same[t.segment] = map[int]string{}
		}
		same[t.segment][t.document] = of.id
	}
}

// betterTwins are the documents of one name in better formats than others.
type betterTwins struct {
	near     map[string][]*twin // by folder, and by its name after a slash
	all      []*twin
	compared int // how many documents were compared although they are in other folders
	known    *Verdicts
}

func (b *betterTwins) add(t *twin) {
	dir := path.Dir(t.id)
	b.near[dir] = append(b.near[dir], t)
	b.near["/"+path.Base(dir)] = append(b.near["/"+path.Base(dir)], t)
	b.all = append(b.all, t)
}

// twinOf returns a twin of t among others: first in its folder, then in folders of the same name,
// then elsewhere.
func (s Segments) twinOf(t *twin, among *betterTwins) (*twin, verdict) {
	dir := path.Dir(t.id)
	for i, others := range [...][]*twin{among.near[dir], among.near["/"+path.Base(dir)], among.all} {
		for _, other := range others {
			if other.same != nil {
				continue
			}
			if among.compared++; i > 0 && among.compared > mostTwins {
				return nil, noTwins
			}
			if v := s.judge(t, other, among.known); v != noTwins {
				return other, v
			}
		}
	}
	return nil, noTwins
}

// judge compares two documents unless there is a verdict.
func (s Segments) judge(t, other *twin, known *Verdicts) verdict {
	is := pair{s.contentKey(t), s.contentKey(other)}
	v, ok := known.used[is]
	if !ok {
		v, ok = known.of[is]
	}
	if !ok {
		v = s.compareTwins(t, other)
		known.Compared++
	}
	known.used[is] = v
	return v
}

// contentKey returns a hash of the id, the attributes and the checksums of the texts of a document.
func (s Segments) contentKey(t *twin) uint64 {
	if t.key == 0 {
		of, hash := &s[t.segment].texts, fnv.New64a()
		_, _ = hash.Write([]byte(t.id))
		_, _ = hash.Write([]byte{0})
		_, _ = hash.Write(of.set(number(of.setOf, t.document)))
		first, end := of.first(t.document), of.first(t.document+1)
		_, _ = hash.Write([]byte{0})
		_, _ = hash.Write(of.sums[4*first : 4*end])
		t.key = hash.Sum64()
	}
	return t.key
}

// compareTwins compares two documents by their texts.
func (s Segments) compareTwins(t, other *twin) (v verdict) {
	s.sign(t)
	s.sign(other)
	if t.attributes == other.attributes && t.signature.agrees(other.signature) {
		switch {
		case t.signature.containedIn(other.signature):
			v = within
		case other.signature.containedIn(t.signature):
			v = containing
		}
	}
	return v
}

// sign reads the signature and the attributes of a document.
func (s Segments) sign(t *twin) {
	if t.signature != nil {
		return
	}
	of := s[t.segment].Segment
	if attributes, err := chunk.DecodeAttributes(string(of.texts.set(number(of.texts.setOf, t.document)))); err == nil {
		attributes = maps.Clone(attributes)
		maps.DeleteFunc(attributes, func(key string, _ any) bool { return strings.HasPrefix(key, retrieval.VersionAttributes) })
		t.attributes, _ = chunk.EncodeAttributes(attributes)
	}
	var r signatureReader
	for text := of.texts.first(t.document); text < of.texts.first(t.document+1); text++ {
		r.read(of.texts.body(text))
	}
	t.signature = r.signature()
}

// A signature is what is compared of a document.
type signature struct {
	shingles []uint64                  // the least mostShingles hashes, sorted
	numbers  map[uint64]numbersBetween // by the words around them
	negated  []uint64                  // shingles of words around a negation, without it, sorted
}

// numbersBetween are the numbers between the same words: how many there are, and the sum of their
// hashes.
type numbersBetween struct {
	count int
	sum   uint64
}

// containedIn reports whether nearly all shingles of a are in b.
func (a *signature) containedIn(b *signature) bool {
	limit := ^uint64(0) // beyond it, shingles of a longer document are unknown
	for _, s := range []*signature{a, b} {
		if len(s.shingles) == mostShingles {
			limit = min(limit, s.shingles[mostShingles-1])
		}
	}
	common, of, rest := 0, 0, b.shingles
	for _, hash := range a.shingles {
		if hash > limit {
			break
		}
		of++
		for len(rest) > 0 && rest[0] < hash {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0] == hash {
			common++
		}
	}
	least := leastContained
	if of <= fewShingles {
		least = leastOfFew
	}
	return of > 0 && float64(common) >= least*float64(of)
}

// agrees reports whether no number and no negation differs between the same words.
func (a *signature) agrees(b *signature) bool {
	for around, n := range a.numbers {
		if m, ok := b.numbers[around]; ok && n.count == m.count && n.sum != m.sum {
			return false
		}
	}
	for _, pair := range [][2]*signature{{a, b}, {b, a}} {
		for _, around := range pair[0].negated {
			_, there := slices.BinarySearch(pair[1].shingles, around)
			_, negated := slices.BinarySearch(pair[1].negated, around)
			if there && !negated {
				return false
			}
		}
	}
	return true
}

// A signatureReader makes a signature of texts.
type signatureReader struct {
	words    []uint64 // hashes of the words of a text; masked for numbers
	numbers  []uint64 // by word: the hash of a number, 0 for others
	negated  []bool   // by word: it is a negation
	shingles []uint64
	made     signature
}

// FNV-1a hashes.
const (
	fnvStart = 14695981039346656037
	fnvPrime = 1099511628211
)

// read adds a text.
func (r *signatureReader) read(text []byte) {
	r.words, r.numbers, r.negated = r.words[:0], r.numbers[:0], r.negated[:0]
	for i := 0; i < len(text); {
		end, number := wordAt(text, i)
		if end == i {
			_, size := utf8.DecodeRune(text[i:])
			i += size
			continue
		}
		word, start := text[i:end], i
		i = end
		if number && itemNumber(text, start, end) {
			continue
		}
		hash := uint64(fnvStart)
		for _, c := range bytes.ToLower(word) {
			hash = (hash ^ uint64(c)) * fnvPrime
		}
		if number {
			r.words, r.numbers, r.negated = append(r.words, fnvStart), append(r.numbers, hash), append(r.negated, false)
		} else {
			r.words, r.numbers, r.negated = append(r.words, hash), append(r.numbers, 0), append(r.negated, retrieval.IsNegation(word))
		}
	}
	r.take()
}

// itemNumber reports whether a number at the start of a line numbers an item of a list, as formats
// do in different ways.
func itemNumber(text []byte, start, end int) bool {
	before := bytes.TrimRight(text[:start], " \t")
	return (len(before) == 0 || before[len(before)-1] == '\n') && end+1 < len(text) && (text[end] == '.' || text[end] == ')') && text[end+1] == ' '
}

// wordAt returns the end of the word at text[i:], i if there is none, and whether it is a number
// such as 18, 1,200.50 or 2026-03-01.
func wordAt(text []byte, i int) (end int, number bool) {
	number = true
	for end = i; end < len(text); {
		c, size := rune(text[end]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRune(text[end:])
		}
		switch {
		case c >= 0x2E80 && unicode.IsLetter(c): // each a word
			if end == i {
				return end + size, false
			}
			return end, number
		case unicode.IsDigit(c):
		case unicode.IsLetter(c) || unicode.Is(unicode.Mn, c):
			number = false
		case end > i && number && strings.ContainsRune(".,:/-", c) && end+1 < len(text) && text[end+1] >= '0' && text[end+1] <= '9':
		default:
			return end, number
		}
		end += size
	}
	return end, number
}

// take adds the words of a text to the signature.
func (r *signatureReader) take() {
	const around = 2 // words on each side of a number or negation
	hash := func(words ...uint64) uint64 {
		h := uint64(fnvStart)
		for _, w := range words {
			h = (h ^ w) * fnvPrime
			h ^= h >> 29
		}
		return h
	}
	for i := range len(r.words) - shingle + 1 {
		r.shingles = append(r.shingles, hash(r.words[i:i+shingle]...))
	}
	if r.made.numbers == nil {
		r.made.numbers = map[uint64]numbersBetween{}
	}
	for i := around; i+around < len(r.words); i++ {
		before, after := r.words[i-around:i], r.words[i+1:i+1+around]
		switch {
		case r.numbers[i] != 0:
			key := hash(before[0], before[1], fnvStart, after[0], after[1])
			n := r.made.numbers[key]
			r.made.numbers[key] = numbersBetween{n.count + 1, n.sum + r.numbers[i]}
		case r.negated[i]:
			r.made.negated = append(r.made.negated, hash(before[0], before[1], after[0], after[1]))
		}
	}
}

// signature returns the signature of the texts read.
func (r *signatureReader) signature() *signature {
	slices.Sort(r.shingles)
	all := slices.Compact(r.shingles)
	r.made.shingles = slices.Clone(all[:min(len(all), mostShingles)])
	slices.Sort(r.made.negated)
	return &r.made
}
