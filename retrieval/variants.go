package retrieval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Two texts whose terms are nearly the same are duplicates if nothing distinguishes them, see
// distinguished; otherwise they are variants of one family. Versions are variants of one document
// in time: their names or titles differ only in a date or a version, or one supersedes the other.
// selection.arrange finds the families and orders each of them: what the question names first, then
// the newest. selection.add excludes what the settings do not allow.

// A dossier holds what tells a candidate from others like it.
type dossier struct {
	family  int        // 1 + the index in ranked of the first of its family; 0 if it has no other
	named   int        // how many of the words that distinguish it are in the question
	meant   bool       // the question names its date or version
	newer   *candidate // the version that replaces it, if that becomes a source
	version bool       // there are several versions of its document

	doc        string // id of the document if anything may say its time, else ""
	key        string // equal for versions of one document; "" if it has none
	time, sort moment // of the document; sort is also not before what the document supersedes
	supersedes []string
	level      int // length of the chain of documents that it supersedes

	marks *marks // nil until needed
}

// date returns the date of a candidate that is a version, "" for others.
func (d *dossier) date() string {
	if !d.version {
		return ""
	}
	return d.time.date()
}

// compareTime compares the times of two versions; 0 if nothing is known.
func (d *dossier) compareTime(e *dossier) int {
	if d.sort.year > 0 && e.sort.year > 0 || d.sort.year == 0 && e.sort.year == 0 {
		if c := d.sort.compare(&e.sort); c != 0 {
			return c
		}
	}
	return cmp.Compare(d.level, e.level)
}

// newerThan reports whether a candidate is newer than other, which may be nil. What has a date is
// newer than what has none, so that it can replace others with a date.
func (c *candidate) newerThan(other *candidate) bool {
	if other == nil || (c.sort.year > 0) != (other.sort.year > 0) {
		return other == nil || c.sort.year > 0
	}
	return c.compareTime(&other.dossier) > 0
}

// compareOrder orders versions, older first. A document without a date, as leave.md, stands before
// those of dated names, as leave-2019.md, but does not replace them.
func (d *dossier) compareOrder(e *dossier) int {
	return cmp.Or(cmp.Compare(oneIf(d.sort.year == 0), oneIf(e.sort.year == 0)), d.compareTime(e))
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// marks are the words by which a text is told from another one.
type marks struct {
	whole     string          // all words
	numbers   []string        // in order, number words included
	negations int             // how many
	names     []string        // words with a capital letter inside a sentence
	words     map[string]bool // all, in lower case
	signs     map[rune]bool   // characters of scripts without spaces between words
	label     map[string]bool // words with digits in the names of document and section, and in the document id
	title     map[string]bool // those that are not in the id
	stem      string          // document id without suffixes
}

// A question is what is compared with variants and versions.
type question struct {
	asked   string // the question and what joins it
	known   bool   // the following are set
	words   map[string]bool
	periods []moment
	change  bool // it asks about change or history
}

func (q *question) parse() {
	if q.known {
		return
	}
	text := plainText(q.asked)
	q.known, q.words, q.periods, q.change = true, map[string]bool{}, periodsIn(text), asksAboutChange(text)
	for _, w := range wordsOf(q.asked) {
		q.words[w.text] = true
	}
	for _, w := range pieces(text) {
		if isDigit(w[0]) {
			q.words[w] = true
		}
	}
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
	dated := false
	for from := range s.answers {
		s.labelled, s.hits = s.labelled[:0], s.hits[:0]
		for _, c := range s.ranked {
			switch {
			case c.from != from:
			case c.hit != nil:
				s.labelled, s.hits = append(s.labelled, c), append(s.hits, c.hit)
			default:
				dated = c.dateBy(Label{Doc: []byte(c.source.Doc), Name: []byte(c.source.Name), Attributes: []byte(c.source.Attributes)}) || dated
			}
		}
		if len(s.hits) == 0 {
			continue
		}
		rest := s.labelled
		err := s.answers[from].res.Texts.Label(s.hits, func(label Label) {
			dated = rest[0].dateBy(label) || dated
			rest = rest[1:]
		})
		if err != nil {
			return unreadable(from, err)
		}
	}
	if !dated {
		return nil
	}
	s.joinUndated()
	s.supersede()
	first := map[string]string{} // a document by key
	several := map[string]bool{}
	for _, c := range s.ranked {
		if doc, ok := first[c.key]; ok && doc != c.doc {
			several[c.key] = true
		}
		first[c.key] = c.doc
	}
	for _, c := range s.ranked {
		if c.version = c.key != "" && several[c.key]; !c.version {
			c.key = ""
		}
	}
	return nil
}

// dateBy sets time and key by the label of the document, and reports whether there is one.
func (c *candidate) dateBy(label Label) bool {
	told := bytes.Contains(label.Attributes, []byte(`date":`)) || bytes.Contains(label.Attributes, []byte(`version":`)) || bytes.Contains(label.Attributes, []byte(`supersedes":`))
	if !told && !maybeDated(label.Doc) && !maybeDated(label.Name) {
		return false
	}
	c.doc = string(label.Doc)
	at, stem := momentIn(stemOf(c.doc))
	titled, title := momentIn(string(label.Name))
	switch {
	case at.known() && strings.ContainsFunc(stem, unicode.IsLetter):
		c.key = c.knowledge + "\x00" + stem
	case strings.ContainsFunc(title, unicode.IsLetter):
		folder := c.doc[:strings.LastIndexByte(c.doc, '/')+1]
		c.key = c.knowledge + "\x00" + folder + "\x00" + digitsOf(stem) + "\x00" + title
	}
	c.time.setDate(at, titled)
	c.time.version = cmp.Or(at.version, titled.version)
	var attributes map[string]any
	if told && json.Unmarshal(label.Attributes, &attributes) == nil {
		said := attributeMoment(attributes)
		c.time.setDate(said, c.time)
		c.time.version = cmp.Or(said.version, c.time.version)
		c.supersedes = supersededBy(attributes)
	}
	c.sort = c.time
	if !c.time.known() && len(c.supersedes) == 0 {
		c.key = ""
	}
	return c.key != "" || len(c.supersedes) > 0
}

// setDate sets the date to that of the first moment that has one.
func (m *moment) setDate(from ...moment) {
	for _, n := range from {
		if n.year > 0 {
			m.year, m.month, m.day = n.year, n.month, n.day
			return
		}
	}
}

// supersededBy returns the documents that the attributes of a document name as superseded.
func supersededBy(attributes map[string]any) []string {
	switch v := cmp.Or(attributes[VersionAttributes+"supersedes"], attributes["supersedes"]).(type) {
	case string:
		return []string{v}
	case []any:
		const most = 16
		var list []string
		for _, of := range v[:min(len(v), most)] {
			if doc, ok := of.(string); ok {
				list = append(list, doc)
			}
		}
		return list
	}
	return nil
}

// joinUndated gives a document without a date or version in its name, as report.md, the key of those
// that have one, as report-v2.md.
func (s *selection) joinUndated() {
	keys := map[string]bool{}
	for _, c := range s.ranked {
		if c.key != "" {
			keys[c.key] = true
		}
	}
	for _, c := range s.ranked {
		doc, _ := s.answers.identity(c)
		at, stem := momentIn(stemOf(doc))
		if key := c.knowledge + "\x00" + stem; !at.known() && keys[key] {
			c.doc, c.key = doc, key
		}
	}
}

// supersede joins documents that supersede one another. A cycle says nothing about the order.
func (s *selection) supersede() {
	type link struct{ newer, older *candidate }
	var links []link
	byName := map[string][]*candidate{}
	if !slices.ContainsFunc(s.ranked, func(c *candidate) bool { return len(c.supersedes) > 0 }) {
		return
	}
	for _, c := range s.ranked {
		if c.doc == "" {
			c.doc, _ = s.answers.identity(c)
		}
		names := []string{c.doc, stemOf(c.doc)}
		if at := strings.LastIndexByte(c.doc, '/') + 1; at > 0 {
			names = append(names, c.doc[at:], stemOf(c.doc[at:]))
		}
		for _, name := range names {
			byName[name] = append(byName[name], c)
		}
	}
	const most = 4096 // links
	for _, c := range s.ranked {
		for _, of := range c.supersedes {
			for _, old := range byName[strings.TrimPrefix(of, "./")] {
				if old.knowledge == c.knowledge && old.doc != c.doc && len(links) < most {
					links = append(links, link{c, old})
				}
			}
		}
	}
	for _, l := range links { // one key for both
		key, gone := cmp.Or(l.newer.key, l.newer.knowledge+"\x00\x00"+l.newer.doc), l.older.key
		for _, c := range s.ranked {
			if c.doc == l.newer.doc && c.knowledge == l.newer.knowledge || c == l.older || gone != "" && c.key == gone {
				c.key = key
			}
		}
	}
	for range len(s.ranked) + 1 {
		changed := false
		for _, l := range links {
			if l.newer.level <= l.older.level {
				l.newer.level, changed = l.older.level+1, true
			}
			if old := l.older.sort; old.year > 0 && (l.newer.sort.year == 0 || l.newer.sort.compare(&old) < 0) {
				l.newer.sort.setDate(old)
			}
		}
		if !changed {
			return
		}
	}
	for _, c := range s.ranked { // a cycle
		c.level, c.sort = 0, c.time
	}
}

// findFamilies sets the families, and reports whether there is one.
func (s *selection) findFamilies() (found bool) {
	byKey := map[string][]int{}
	for i, c := range s.ranked {
		glance, head := s.glanceOf(c), -1
		for _, at := range s.heads {
			if first := s.ranked[at]; !s.glanceOf(first).RulesOut(glance) && s.similar(first, c) {
				head = at
				break
			}
		}
		if c.key != "" {
			if head < 0 {
				for _, at := range byKey[c.key] {
					if s.sketchOf(s.ranked[at]).agrees(s.sketchOf(c), looseAgreement) {
						head = at
						break
					}
				}
			}
			if head < 0 {
				byKey[c.key] = append(byKey[c.key], i)
			}
		}
		if head < 0 {
			s.heads = append(s.heads, i)
			continue
		}
		c.family, s.ranked[head].family, found = head+1, head+1, true
	}
	return found
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
	sets, of := map[string]*set{}, map[*candidate]*set{}
	s.name(family)
	for i, c := range family {
		key := c.key
		if key == "" {
			key = fmt.Sprint(i)
			if c.time.year > 0 { // of copies, the newest stays
				key = "\x00" + s.marksOf(c).whole
			}
		}
		in := sets[key]
		if in == nil {
			in = &set{place: i}
			sets[key] = in
		}
		of[c] = in
		c.meant = c.version && s.question.means(&c.time)
		in.named, in.passes, in.meant = max(in.named, c.named), in.passes || c.passes(), in.meant || c.meant
		if c.newerThan(in.newest) {
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
		return cmp.Or(cmp.Compare(oneIf(b.meant), oneIf(a.meant)), b.compareOrder(&a.dossier), cmp.Compare(place[a], place[b]))
	})
	for _, c := range family {
		in := of[c]
		if c.version {
			c.named = oneIf(c.meant)
			if !(in.meant && c.meant) && (in.meant || !s.question.change) && s.settings.Versions == VersionsNewest && c.compareTime(&in.newest.dossier) < 0 {
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
		return c.time.known() || c.key != "" || k.from < 0 || k.from != first.from || k.differs(&first)
	})
}

// name counts the words of the question that some candidates of a family have and others do not.
func (s *selection) name(family []*candidate) {
	for word := range s.question.words {
		n := 0
		for _, c := range family {
			if s.marksOf(c).has(word) {
				n++
			}
		}
		if n == 0 || n == len(family) {
			continue
		}
		for _, c := range family {
			if s.marksOf(c).has(word) {
				c.named++
			}
		}
	}
}

func (m *marks) has(word string) bool { return m.words[word] || m.label[word] }

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
	lacks := func(words map[string]bool) func(string) bool {
		return func(word string) bool { return !words[word] }
	}
	if slices.ContainsFunc(x.names, lacks(y.words)) || slices.ContainsFunc(y.names, lacks(x.words)) {
		return true
	}
	s.question.parse()
	for word := range s.question.words {
		if x.words[word] != y.words[word] {
			return true
		}
	}
	return false
}

// both reports whether each of two sets has an element that the other lacks.
func both[K comparable](a, b map[K]bool) bool {
	only := func(a, b map[K]bool) bool {
		for k := range a {
			if !b[k] {
				return true
			}
		}
		return false
	}
	return only(a, b) && only(b, a)
}

// within reports whether list contains part, in order and without gaps.
func within(part, list []string) bool {
	for i := 0; i+len(part) <= len(list); i++ {
		if slices.Equal(part, list[i:i+len(part)]) {
			return true
		}
	}
	return false
}

// marksOf reads the marks of a candidate.
func (s *selection) marksOf(c *candidate) *marks {
	if c.marks != nil {
		return c.marks
	}
	m := &marks{words: map[string]bool{}, signs: map[rune]bool{}, label: map[string]bool{}, title: map[string]bool{}}
	c.marks = m
	src, ok := s.answers.whole(c)
	if !ok { // reported when the candidate is selected
		return m
	}
	m.stem = stemOf(src.Doc)
	var whole strings.Builder
	for _, w := range wordsOf(src.Text) {
		whole.WriteString(w.text)
		whole.WriteByte(' ')
		m.words[w.text] = true
		r, _ := utf8.DecodeRuneInString(w.text)
		switch {
		case w.digits || isNumberWord(w.text):
			m.numbers = append(m.numbers, w.text)
		case isNegation(w.text):
			m.negations++
		case unspaced(r):
			m.signs[r] = true
		}
		if w.capital && !w.first {
			m.names = append(m.names, w.text)
		}
	}
	m.whole = whole.String()
	for i, text := range [...]string{m.stem[strings.LastIndexByte(m.stem, '/')+1:], src.Name, src.Section} {
		for _, w := range wordsOf(text) {
			if !w.digits {
				continue
			}
			if i > 0 && !m.label[w.text] {
				m.title[w.text] = true
			}
			m.label[w.text] = true
		}
		for _, w := range pieces(text) {
			if isDigit(w[0]) {
				m.label[w] = true
			}
		}
	}
	return m
}

// A word is a word, a number or an identifier of a text.
type word struct {
	text           string // in lower case; without hyphens and the like if it has digits
	digits         bool   // it has a digit
	capital, first bool   // it begins with a capital letter; it begins a sentence
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// unspaced reports whether r is of a script without spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// wordsOf divides a text into words. A character of a script without spaces is a word. A number
// has no separators of thousands, and a point before decimals.
func wordsOf(text string) (list []word) {
	var b []byte
	var w word
	first := true
	end := func() {
		if len(b) > 0 {
			w.text = string(b)
			list = append(list, w)
			first = false
		}
		b, w = b[:0], word{}
	}
	for i, r := range text {
		switch {
		case unspaced(r):
			end()
			b = utf8.AppendRune(b, r)
			end()
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r):
			if len(b) == 0 {
				w.capital, w.first = unicode.IsUpper(r), first
			}
			w.digits = w.digits || unicode.IsDigit(r)
			b = utf8.AppendRune(b, unicode.ToLower(r))
		case len(b) > 0 && joins(text, i, r, w.digits):
			if next := text[i+utf8.RuneLen(r):]; (r == '.' || r == ',') && !thousands(next) {
				b = append(b, '.')
			}
		default:
			end()
			if strings.ContainsRune(".!?:;|\n。！？：#*", r) {
				first = true
			}
		}
	}
	end()
	return list
}

// joins reports whether r, at text[i:] after a word, is inside a number or identifier.
func joins(text string, i int, r rune, digits bool) bool {
	next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
	before := text[i-1]
	switch r {
	case '.', ',', ':':
		return isDigit(before) && unicode.IsDigit(next) && r != ':'
	case '-', '_', '/', '‐', '‑':
		return unicode.IsDigit(next) || digits && unicode.IsLetter(next)
	case '\'', '’':
		return unicode.IsLetter(next) || unicode.IsDigit(next)
	}
	return false
}

// thousands reports whether text begins with three digits and no further one.
func thousands(text string) bool {
	const group = 3
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n == group
}

// numberWords are the words for numbers from two, in English, German, French, Spanish, Italian,
// Portuguese and Dutch. Words for one are also articles.
const numberWords = " two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half twice double quarter " +
	"zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert tausend " +
	"deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante cent mille " +
	"dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce dieciséis dieciocho veinte treinta cuarenta cincuenta cien mil " +
	"due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciotto venti trenta quaranta cinquanta cento " +
	"dois três quatro sete oito dez doze treze quinze dezesseis dezoito vinte trinta quarenta cinquenta cem " +
	"twee drie vijf zes zeven negen tien twaalf zestien achttien twintig dertig veertig vijftig honderd duizend " +
	"monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi mercredi jeudi vendredi samedi dimanche "

// negationWords are words that negate, in the languages of numberWords and a few more.
const negationWords = " no not never none nor without cannot nothing neither nicht kein keine keinen keiner keinem nie niemals ohne weder ne pas jamais sans aucun aucune non ni nunca jamás sin ningún ninguna " +
	"mai senza nessun nessuna né não nem sem nenhum nenhuma niet geen nooit zonder ikke inte ingen aldrig uten utan uden nie bez не нет без никогда değil yok "

var (
	numberSet   = sync.OnceValue(func() map[string]bool { return setOf(numberWords) })
	negationSet = sync.OnceValue(func() map[string]bool { return setOf(negationWords) })
)

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

func isNumberWord(word string) bool { return numberSet()[word] }

func isNegation(word string) bool {
	return negationSet()[word] || strings.HasSuffix(word, "nt") && (word == "dont" || word == "isnt" || word == "cant" || word == "wont" || word == "doesnt" || word == "arent") ||
		word == "不" || word == "没" || word == "未" || word == "无" || word == "沒" || word == "無"
}
