package retrieval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Two texts whose terms are nearly the same are duplicates if nothing distinguishes them, see
// distinguished; otherwise they are variants of one family, and so are texts of one template, whose
// words are nearly the same and whose numbers need not be. Versions are variants of one document
// in time: their names or titles differ only in a date or a version, or one supersedes the other.
// selection.arrange finds the families and orders each of them: what the question names first, then
// the newest. selection.add excludes what the settings do not allow.

// A dossier holds what tells a candidate from others like it.
type dossier struct {
	family  int        // 1 + the index in ranked of the first of its family; 0 if it has no other
	named   int        // how many of the words that distinguish it are in the question
	singled bool       // one of those is in no more variants than may become sources
	meant   bool       // the question names its date or version
	newer   *candidate // the version that replaces it, if that becomes a source
	version bool       // there are several versions of its document

	key     documentKey // zero if it has none
	edition *edition    // of its document; nil if unknown
	place   placeInTime
	read    *labelled // nil until needed
}

// A documentKey is equal for versions of one document.
type documentKey struct{ knowledge, name string }

// date returns the date of a candidate that is a version, "" for others.
func (d *dossier) date() string {
	if !d.version {
		return ""
	}
	return d.edition.date
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A question is what is compared with variants and versions.
type question struct {
	asked   string // the question and what joins it
	known   bool   // periods and change are set
	periods []moment
	change  bool     // it asks about change or history
	words   []uint64 // nil until needed
}

// parse sets periods and change.
func (q *question) parse() {
	if !q.known {
		text := plainText(q.asked)
		parts := pieces(text)
		q.known, q.periods, q.change = true, periodsIn(parts), asksAboutChange(text, parts)
	}
}

// terms returns the words of the question, sorted.
func (q *question) terms() []uint64 {
	if q.words == nil {
		for w := range wordsOf(q.asked) {
			q.words = append(q.words, w.hash)
		}
		q.words = sortedSet(appendDigits(q.words, pieces(q.asked)))
	}
	return q.words
}

// appendDigits appends the hashes of the numbers among the pieces of a text.
func appendDigits(list []uint64, parts []string) []uint64 {
	for _, w := range parts {
		if isDigit(w[0]) {
			list = append(list, hashOfWord(w))
		}
	}
	return list
}

// means reports whether the question names the time of a document.
func (q *question) means(m *moment) bool {
	return slices.ContainsFunc(q.periods, func(p moment) bool { return p.names(m) })
}

// looseAgreement is the share of bins in which the sketches of versions agree. Their names say
// already that they belong together.
const looseAgreement = 0.5

// arrange finds variants and versions among the ranked candidates, and orders each family.
func (s *selection) arrange() error {
	if s.whole || len(s.ranked) < 2 {
		return nil
	}
	if err := s.date(); err != nil || !s.findFamilies() {
		return err
	}
	s.question.parse()
	families := map[int][]*candidate{}
	for _, c := range s.ranked {
		if c.family > 0 {
			families[c.family] = append(families[c.family], c)
		}
	}
	for _, family := range families {
		s.order(family)
	}
	for i, c := range s.ranked { // each family keeps its places
		if of := c.family; of > 0 {
			s.ranked[i], families[of] = families[of][0], families[of][1:]
		}
	}
	return nil
}

// date finds the versions among the candidates.
func (s *selection) date() error {
	if s.settings.Versions == VersionsOff || s.given {
		return nil
	}
	any, err := s.readEditions()
	if err != nil || !any {
		return err
	}
	if err := s.setKeys(); err != nil {
		return err
	}
	if slices.ContainsFunc(s.ranked, func(c *candidate) bool { return c.edition != nil && len(c.edition.supersedes) > 0 }) {
		s.supersede()
	}
	first := map[documentKey]string{} // a document
	several := map[documentKey]bool{}
	for _, c := range s.ranked {
		if c.key.name == "" {
			continue
		}
		if doc, ok := first[c.key]; ok && doc != c.edition.doc {
			several[c.key] = true
		}
		first[c.key] = c.edition.doc
	}
	for _, c := range s.ranked {
		if c.version = several[c.key]; !c.version {
			c.key = documentKey{}
		}
	}
	return nil
}

// readEditions sets the editions of the candidates, and reports whether there is one.
func (s *selection) readEditions() (found bool, err error) {
	for from := range s.answers {
		s.labelled, s.hits = s.labelled[:0], s.hits[:0]
		for _, c := range s.ranked {
			switch {
			case c.from != from:
			case c.hit == nil:
				if label := c.source.label(); MaybeEdition(label) {
					found = c.setEdition(s.editionBy(label)) || found
				}
			case !c.hit.Undated:
				s.labelled, s.hits = append(s.labelled, c), append(s.hits, c.hit)
			}
		}
		rest := s.labelled
		err := s.readLabels(from, func(label Label) {
			found, rest = rest[0].setEdition(s.editionBy(label)) || found, rest[1:]
		})
		if err != nil {
			return false, err
		}
	}
	return found, nil
}

// setEdition sets an edition that says something, and reports whether it does.
func (c *candidate) setEdition(e *edition) bool {
	if e.says {
		c.edition = e
	}
	return e.says
}

// readLabels calls add with the labels of s.hits, which are of one answer.
func (s *selection) readLabels(from int, add func(Label)) error {
	if len(s.hits) == 0 {
		return nil
	}
	if err := s.answers[from].res.Texts.Label(s.hits, add); err != nil {
		return unreadable(from, err)
	}
	return nil
}

// setKeys sets keys and places in time by the editions. A document whose labels say nothing, as
// report.md, gets the key of report-v2.md if their texts are alike.
func (s *selection) setKeys() error {
	stems := map[documentKey]bool{}
	for _, c := range s.ranked {
		if e := c.edition; e != nil && e.named && e.stem != "" {
			stems[documentKey{c.knowledge, e.stem}] = true
			s.named = append(s.named, s.glanceOf(c))
		}
	}
	if err := s.readPlain(stems); err != nil {
		return err
	}
	sets := map[documentKey][]*dossier{}
	for _, c := range s.ranked {
		e := c.edition
		if e == nil {
			continue
		}
		if key := (documentKey{c.knowledge, e.stem}); e.stem != "" && stems[key] {
			c.key = key
		} else if e.title != "" {
			c.key = documentKey{c.knowledge, e.title}
		}
		if c.place = (placeInTime{moment: e.time, state: e.state, modified: e.modified}); c.key.name != "" {
			sets[c.key] = append(sets[c.key], &c.dossier)
		}
	}
	for _, set := range sets {
		setCurrent(set)
	}
	return nil
}

// readPlain sets the editions of candidates whose labels say nothing, but have a stem of others.
func (s *selection) readPlain(stems map[documentKey]bool) error {
	join := func(c *candidate, label Label) {
		if e := s.editionBy(label); stems[documentKey{c.knowledge, e.stem}] {
			c.edition = e
		}
	}
	for from := range s.answers {
		s.labelled, s.hits = s.labelled[:0], s.hits[:0]
		for _, c := range s.ranked {
			switch {
			case c.from != from || c.edition != nil || len(stems) == 0:
			case c.hit == nil:
				join(c, c.source.label())
			case slices.ContainsFunc(s.named, c.hit.Glance.near):
				s.labelled, s.hits = append(s.labelled, c), append(s.hits, c.hit)
			}
		}
		rest := s.labelled
		err := s.readLabels(from, func(label Label) {
			join(rest[0], label)
			rest = rest[1:]
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// setCurrent finds the present version among the documents of one name.
func setCurrent(set []*dossier) {
	var newest moment
	numbered, first := false, false
	for _, c := range set {
		at := &c.edition.time
		if newest.compareDate(at) < 0 {
			newest = *at
		}
		numbered = numbered || at.version != ""
		first = first || at.version != "" && compareVersions(at.version, "2") < 0
	}
	for _, c := range set {
		p := &c.place
		if p.state == stateOld || p.year > 0 || p.version != "" {
			continue
		}
		if at, err := time.Parse(fileTime, p.modified); err == nil && newest.year > 0 {
			day := moment{year: at.Year(), month: int(at.Month()), day: at.Day()}
			if day.compareDate(&newest) < 0 {
				p.setDate(day)
				continue
			}
		}
		p.current = newest.year > 0 || numbered && first
	}
}

// supersede joins documents that supersede one another. A cycle says nothing about the order.
func (s *selection) supersede() {
	type link struct{ newer, older *candidate }
	var links []link
	byName := map[string][]*candidate{}
	for _, c := range s.ranked {
		if c.edition == nil {
			doc, _ := s.answers.identity(c)
			c.edition = &edition{doc: doc}
		}
		doc := c.edition.doc
		names := []string{doc, stemOf(doc)}
		if at := strings.LastIndexByte(doc, '/') + 1; at > 0 {
			names = append(names, doc[at:], stemOf(doc[at:]))
		}
		for _, name := range slices.Compact(names) {
			byName[name] = append(byName[name], c)
		}
	}
	const most = 4096 // links
	for _, c := range s.ranked {
		for _, of := range c.edition.supersedes {
			for _, old := range byName[strings.TrimPrefix(of, "./")] {
				if old.knowledge == c.knowledge && old.edition.doc != c.edition.doc && len(links) < most {
					links = append(links, link{c, old})
				}
			}
		}
	}
	for _, l := range links { // one key for both
		key, gone := cmp.Or(l.newer.key, documentKey{l.newer.knowledge, "\x00" + l.newer.edition.doc}), l.older.key
		for _, c := range s.ranked {
			if c.edition.doc == l.newer.edition.doc && c.knowledge == l.newer.knowledge || c == l.older || gone.name != "" && c.key == gone {
				c.key = key
			}
		}
	}
	before := make(map[*candidate]placeInTime, len(s.ranked))
	for _, c := range s.ranked {
		before[c] = c.place
	}
	for range len(s.ranked) + 1 {
		changed := false
		for _, l := range links {
			changed = l.newer.place.follow(&l.older.place) || changed
		}
		if !changed {
			return
		}
	}
	for _, c := range s.ranked { // a cycle
		c.place = before[c]
	}
}

// follow makes p not older than q, which it supersedes, and reports whether that changes it.
func (p *placeInTime) follow(q *placeInTime) bool {
	before := *p
	p.level, p.state, p.current = max(p.level, q.level+1), max(p.state, q.state), p.current || q.current
	if q.year > 0 && (p.year == 0 || p.compareDate(&q.moment) < 0) {
		p.setDate(q.moment)
	}
	if compareVersions(p.version, q.version) < 0 {
		p.version = q.version
	}
	return *p != before
}

// findFamilies sets the families, and reports whether there is one.
func (s *selection) findFamilies() (found bool) {
	var byKey map[documentKey][]int
	s.glances = s.glances[:0] // of the heads
	for i, c := range s.ranked {
		glance, head := s.glanceOf(c), -1
		for n := range s.glances {
			if of := s.ranked[s.heads[n]]; !s.glances[n].RulesOut(glance) && (s.near(of, c) || s.sameTemplate(of, c)) {
				head = s.heads[n]
				break
			}
		}
		if c.key.name != "" {
			if head < 0 {
				head = s.olderOrNewer(c, glance, byKey[c.key])
			}
			if head < 0 {
				if byKey == nil {
					byKey = map[documentKey][]int{}
				}
				byKey[c.key] = append(byKey[c.key], i)
			}
		}
		if head < 0 {
			s.heads, s.glances = append(s.heads, i), append(s.glances, glance)
			continue
		}
		c.family, s.ranked[head].family, found = head+1, head+1, true
	}
	s.apart = !found
	s.glances = s.glances[:0]
	return found
}

// near reports whether two texts are equal or have nearly the same terms.
func (s *selection) near(a, b *candidate) bool {
	k, l := keyOf(a), keyOf(b)
	return s.similar(a, b) || !k.differs(&l) && (k.from >= 0 && k.from == l.from || s.answers.same(a, b))
}

// sameTemplate reports whether two texts have nearly the same words apart from numbers and
// identifiers, of which data sheets and price lists have so many that their terms differ.
func (s *selection) sameTemplate(a, b *candidate) bool {
	const (
		least = 1. / 3 // of the bins: half of the terms may be figures
		fewer = 8      // words are no template
	)
	if !s.sketchOf(a).agrees(s.sketchOf(b), least) {
		return false
	}
	x, y := s.marksOf(a).plainWords(), s.marksOf(b).plainWords()
	return min(len(x), len(y)) >= fewer && similarSets(x, y)
}

// olderOrNewer returns that of some candidates which has a version of the same text as c; -1 if
// none has.
func (s *selection) olderOrNewer(c *candidate, seen glance, among []int) int {
	for _, at := range among {
		if other := s.ranked[at]; other.edition != c.edition && seen.near(s.glanceOf(other)) && s.sketchOf(other).agrees(s.sketchOf(c), looseAgreement) {
			return at
		}
	}
	return -1
}

// order sorts a family, and finds the versions that others replace.
func (s *selection) order(family []*candidate) {
	type set struct { // the versions of one document, or one other candidate
		named, place int
		passes       bool
		newest       *candidate
		meant        bool // the question names the time of one
	}
	if s.copies(family) {
		return
	}
	sets, of := map[documentKey]*set{}, map[*candidate]*set{}
	if slices.ContainsFunc(family, func(c *candidate) bool { return c.key.name == "" || c.key != family[0].key }) {
		s.name(family)
	}
	for i, c := range family {
		key := c.key
		if key.name == "" {
			key.knowledge = fmt.Sprint(i)
			if c.edition != nil && c.edition.time.year > 0 { // of copies, the newest stays
				key.knowledge = fmt.Sprint("\x00", s.marksOf(c).whole)
			}
		}
		in := sets[key]
		if in == nil {
			in = &set{place: i}
			sets[key] = in
		}
		of[c] = in
		c.meant = c.version && s.question.means(&c.edition.time)
		in.named, in.passes, in.meant = max(in.named, c.named), in.passes || c.passes(), in.meant || c.meant
		if in.newest == nil || c.place.order(&in.newest.place) > 0 {
			in.newest = c
		}
	}
	place := map[*candidate]int{}
	for i, c := range family {
		place[c] = i
	}
	slices.SortStableFunc(family, func(a, b *candidate) int {
		x, y := of[a], of[b]
		if x != y {
			return cmp.Or(cmp.Compare(y.named, x.named), cmp.Compare(x.place, y.place))
		}
		return cmp.Or(cmp.Compare(oneIf(b.meant), oneIf(a.meant)), b.place.order(&a.place), cmp.Compare(place[a], place[b]))
	})
	for _, c := range family {
		in := of[c]
		if c.version {
			c.named, c.singled = oneIf(c.meant), c.meant
			if !(in.meant && c.meant) && (in.meant || !s.question.change) && s.settings.Versions == VersionsNewest && c.place.compare(&in.newest.place) < 0 {
				c.newer = in.newest
			}
		}
		if c == in.newest && in.passes && !math.IsNaN(c.own) { // it passes as the others do
			c.threshold = min(c.threshold, c.own)
		}
	}
}

// copies reports whether a family is one text of undated documents, as far as is known without
// reading it.
func (s *selection) copies(family []*candidate) bool {
	first := keyOf(family[0])
	return !slices.ContainsFunc(family, func(c *candidate) bool {
		k := keyOf(c)
		return c.edition != nil || c.key.name != "" || k.from < 0 || k.from != first.from || k.differs(&first)
	})
}

// name counts the words of the question that some candidates of a family have and others do not.
func (s *selection) name(family []*candidate) {
	having := make([]*candidate, 0, len(family))
	for _, word := range s.question.terms() {
		having = having[:0]
		for _, c := range family {
			if s.marksOf(c).has(word) {
				having = append(having, c)
			}
		}
		if len(having) == len(family) {
			continue
		}
		for _, c := range having {
			c.named++
			c.singled = c.singled || len(having) <= s.settings.MaxVariants
		}
	}
}

// distinguished reports whether two texts with nearly the same terms differ in numbers, negations,
// names, or in what the question asks for.
func (s *selection) distinguished(a, b *candidate) bool {
	x, y := s.marksOf(a), s.marksOf(b)
	if x.whole == y.whole {
		return false
	}
	if x.stem != "" && x.stem == y.stem && a.knowledge == b.knowledge { // one document in two formats, cut elsewhere
		return !within(x.numbers, y.numbers) && !within(y.numbers, x.numbers)
	}
	if !slices.Equal(x.numbers, y.numbers) || x.negations != y.negations || both(x.title, y.title) || both(x.signs, y.signs) {
		return true
	}
	lacked := func(of *marks) func(uint64) bool {
		return func(word uint64) bool { return !has(of.words, word) }
	}
	if slices.ContainsFunc(x.names, lacked(y.marks)) || slices.ContainsFunc(y.names, lacked(x.marks)) {
		return true
	}
	return slices.ContainsFunc(s.question.terms(), func(word uint64) bool { return has(x.words, word) != has(y.words, word) })
}

// labelled are the marks of a text and of its labels.
type labelled struct {
	*marks
	label []uint64 // words with digits in the names of document and section, and in the document id
	title []uint64 // those that are not in the id
	stem  string   // document id without suffixes
	plain []uint64 // words that are no numbers or identifiers, sorted; nil until needed
}

// plainWords returns the words that are no numbers or identifiers, sorted.
func (l *labelled) plainWords() []uint64 {
	if l.plain == nil {
		numbers := sortedSet(slices.Clone(l.numbers))
		l.plain = make([]uint64, 0, len(l.words))
		for _, word := range l.words {
			if !has(numbers, word) {
				l.plain = append(l.plain, word)
			}
		}
	}
	return l.plain
}

func (l *labelled) has(word uint64) bool { return has(l.words, word) || slices.Contains(l.label, word) }

// A readText is the marks of a text that an engine keeps.
type readText struct {
	textID
	marks *marks
}

// textID identifies a text that an engine keeps. Another text may be at the same place after a
// merge, but not with the same sum.
type textID struct {
	knowledge, generation string
	at                    Place
	bytes                 int
	sum                   uint32
}

// marksOf reads the marks of a candidate.
func (s *selection) marksOf(c *candidate) *labelled {
	if c.read != nil {
		return c.read
	}
	c.read = &labelled{marks: new(marks)}
	if src, ok := s.readMarks(c); ok { // else reported when the candidate is selected
		c.read.stem = stemOf(src.Doc)
		file := c.read.stem[strings.LastIndexByte(c.read.stem, '/')+1:]
		id := appendLabel(nil, file)
		title := appendLabel(appendLabel(nil, src.Name), src.Section)
		c.read.title = sortedSet(slices.DeleteFunc(title, func(word uint64) bool { return slices.Contains(id, word) }))
		c.read.label = append(id, c.read.title...)
		for _, text := range [...]string{file, src.Name, src.Section} {
			c.read.label = appendDigits(c.read.label, pieces(text))
		}
	}
	return c.read
}

// appendLabel appends the words with digits in a label.
func appendLabel(list []uint64, text string) []uint64 {
	for w := range wordsOf(text) {
		if w.digits {
			list = append(list, w.hash)
		}
	}
	return list
}

// readMarks sets the marks of a candidate's text and returns the candidate's labels; false if it
// cannot be read.
func (s *selection) readMarks(c *candidate) (src Source, ok bool) {
	id := textID{knowledge: c.knowledge}
	if c.hit != nil {
		bases := s.answers[c.from].res.Bases
		if base := slices.IndexFunc(bases, func(ref Ref) bool { return ref.Knowledge == c.knowledge }); base >= 0 {
			id.generation, id.at, id.bytes, id.sum = bases[base].Generation, c.hit.At, c.hit.Bytes, c.hit.Sum
		}
	}
	const most = 16 << 10 // of a text whose marks are kept
	if id.generation == "" || s.recent == nil || id.bytes > most {
		if src, ok = s.answers.whole(c); ok {
			c.read.marks = marksIn(src.Text)
		}
		return src, ok
	}
	hash := Hash(id)
	if known := s.recent.At(hash); known != nil && known.textID == id {
		c.read.marks = known.marks
		err := s.answers.texts(c).Label([]*Hit{c.hit}, func(label Label) {
			src.Doc, src.Name, src.Section = string(label.Doc), string(label.Name), string(label.Section)
		})
		return src, err == nil
	}
	if src, ok = s.answers.whole(c); ok {
		c.read.marks = marksIn(src.Text)
		s.recent.Put(hash, &readText{id, c.read.marks})
	}
	return src, ok
}
