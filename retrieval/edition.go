package retrieval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// An edition is what the labels of a document say of its versions. Documents are versions of one
// another if their names differ only in a date, a version or a word such as "old" or "copy", or if
// one says that it supersedes the other. The front matter of a document is stronger than its name,
// its name stronger than its title.
//
//   - Of two dates or two versions the greater is newer. A file without either beside dated ones,
//     leave.md beside leave-2019.md, is the present one. Beside files with a version, report.md is
//     older than report-v2.md; but beside report-v1.md it is the present one.
//   - Names with "old", "draft" or "backup" and files in folders such as archive/ are older than the
//     rest; those with "final" or "new" are newer than the plain name.
//   - Copies, such as "report (1).md" and "report copy.md", are told by the time of their files, see
//     FileTimes, which says nothing elsewhere: files that were copied have the time of that. Only a
//     file that is older than the dates in the names of others is not the present one.
type edition struct {
	doc, name  string
	attributes string // JSON
	says       bool   // there is more than the stem and the title
	stem       string // path without suffixes, dates, versions and such words; "" if no letter is left
	title      string // folder, numbers of the path and title, likewise
	named      bool   // the path has a date, a version or such a word
	time       moment
	date       string // of time
	state      state
	supersedes []string
	modified   string // time of the file, as fileTime formats it; "" unless it matters
}

// fileTime is the layout of the time of a file, in UTC.
const fileTime = time.RFC3339

// A state is what a word in the path of a document says of its time.
type state int8

const (
	stateOld state = iota - 1
	statePlain
	stateNew
	stateCopy // says nothing of the time
)

// Words at the end of a file name; oldWords are also at its beginning, and name folders.
const (
	oldWords = "old alt altes outdated obsolete superseded deprecated archive archived archiv previous prev bak backup backups draft drafts entwurf entwurfe veraltet " +
		"ancien brouillon viejo antiguo borrador vecchio bozza antigo rascunho oud kladde gammel gammal utkast 旧 旧版 舊版 草稿 备份 備份 下書き"
	newWords  = "final new neu neue latest current aktuell nouveau nuevo nuovo novo nieuw endgultig definitief 最新 最新版 新版 终稿 最终 最終 最終版"
	copyWords = "copy kopie copie copia kopia kopi 副本 コピー"
)

// A stateWord is a word and what it says.
type stateWord struct {
	text string
	says state
}

// stateWords are the words above, without accents: in ASCII by the word, and the others.
var stateWords = sync.OnceValues(func() (ascii map[string]state, others []stateWord) {
	ascii = map[string]state{}
	for i, list := range [...]string{oldWords, newWords, copyWords} {
		says := [...]state{stateOld, stateNew, stateCopy}[i]
		for word := range strings.FieldsSeq(list) {
			if word = plainText(word); word[0] < utf8.RuneSelf {
				ascii[word] = says
			} else {
				others = append(others, stateWord{word, says})
			}
		}
	}
	slices.SortFunc(others, func(a, b stateWord) int { return cmp.Compare(len(b.text), len(a.text)) })
	return ascii, others
})

// A pathReader reads the words of a path, in lower case and without accents.
type pathReader struct {
	words   []string
	state   state
	worded  bool   // there is a word that says a state, or a number of a copy
	version string // "2" of "final2"
}

// readPath reads the path of a document.
func readPath(doc string) pathReader {
	name := plainText(stemOf(doc))
	var r pathReader
	var folders []string
	if at := strings.LastIndexByte(name, '/'); at >= 0 {
		ascii, _ := stateWords()
		for folder := range strings.SplitSeq(name[:at], "/") {
			if ascii[folder] == stateOld {
				r.say(stateOld)
				continue
			}
			folders = append(folders, pieces(folder)...)
		}
		name = name[at+1:]
	}
	const longest = len("(999)")
	if at := strings.LastIndexByte(name, '('); at > 0 && len(name)-at <= longest && numbered(name[at:]) { // policy (1)
		name, r.worded = name[:at], true
	}
	r.words = pieces(name)
	for r.last() {
	}
	r.first()
	r.words = append(folders, r.words...)
	return r
}

// numbered reports whether text is a number in parentheses.
func numbered(text string) bool {
	inside, ok := strings.CutSuffix(text, ")")
	return ok && len(inside) > 1 && strings.Trim(inside[1:], "0123456789") == ""
}

func (r *pathReader) say(what state) {
	if r.worded = true; what != stateCopy && r.state == statePlain {
		r.state = what
	}
}

// last removes a word at the end that says a state, and its number, if others are left.
func (r *pathReader) last() bool {
	ascii, others := stateWords()
	n, number := len(r.words), ""
	if n > 2 && len(r.words[n-1]) <= 2 && isDigit(r.words[n-1][0]) {
		n, number = n-1, r.words[n-1]
	}
	if n < 1 {
		return false
	}
	word := r.words[n-1]
	if says, ok := ascii[word]; ok && n > 1 {
		if r.words = r.words[:n-1]; number != "" && says != stateCopy {
			r.version = number
		}
		r.say(says)
		return true
	}
	for _, w := range others {
		if rest, ok := strings.CutSuffix(word, w.text); ok && number == "" && (rest != "" || n > 1) {
			if r.words = r.words[:n-1]; rest != "" {
				r.words = append(r.words, rest)
			}
			r.say(w.says)
			return true
		}
	}
	return false
}

// first removes "copy of" and words such as "old" at the beginning, if others are left.
func (r *pathReader) first() {
	ascii, _ := stateWords()
	if len(r.words) < 2 {
		return
	}
	switch says, ok := ascii[r.words[0]]; {
	case !ok || says == stateNew:
		return
	case says == stateCopy:
		if len(r.words) > 2 && strings.Contains(" of von de di van av af ", " "+r.words[1]+" ") {
			r.words = r.words[1:]
		}
	}
	r.say(ascii[r.words[0]])
	r.words = r.words[1:]
}

// maybeWorded reports, quickly, whether a path may have a word that says a state.
func maybeWorded(doc []byte) bool {
	ascii, others := stateWords()
	is := func(word []byte) bool {
		const longest = 16
		if len(word) > longest {
			return false
		}
		var room [longest]byte
		lower := append(room[:0], word...)
		for i, c := range lower {
			if c >= 'A' && c <= 'Z' {
				lower[i] |= 0x20
			}
		}
		_, ok := ascii[string(lower)]
		return ok
	}
	for {
		at := bytes.IndexByte(doc, '/')
		if at < 0 {
			break
		}
		if is(doc[:at]) {
			return true
		}
		doc = doc[at+1:]
	}
	if at := bytes.IndexByte(doc, '.'); at > 0 { // all suffixes, and perhaps more
		for rest := doc; ; {
			cut := bytes.LastIndexByte(rest, '.')
			if cut <= 0 {
				break
			}
			if rest = rest[:cut]; endsInState(rest, is, others) {
				return true
			}
		}
	} else if endsInState(doc, is, others) {
		return true
	}
	return is(doc[:letters(doc)])
}

// endsInState reports whether a name may end in a word that says a state.
func endsInState(name []byte, is func([]byte) bool, others []stateWord) bool {
	end := len(name)
	for end > 0 && (name[end-1] < 'A' || name[end-1] > 'Z' && name[end-1] < 'a' || name[end-1] > 'z' && name[end-1] < utf8.RuneSelf) {
		if end--; name[end] == ')' {
			return true
		}
	}
	start := end
	for start > 0 && (name[start-1]|0x20 >= 'a' && name[start-1]|0x20 <= 'z') {
		start--
	}
	if start > 0 && name[start-1] >= utf8.RuneSelf { // of another script, or with accents
		return true
	}
	return is(name[start:end])
}

// letters returns the number of ASCII letters at the start of a name.
func letters(name []byte) (n int) {
	for n < len(name) && name[n]|0x20 >= 'a' && name[n]|0x20 <= 'z' {
		n++
	}
	return n
}

// MaybeEdition reports, quickly, whether the label of a document may say something of its versions.
func MaybeEdition(label Label) bool {
	return tellsEdition(label.Attributes) || maybeDated(label.Doc) || maybeDated(label.Name) || maybeWorded(label.Doc)
}

// tellsEdition reports, quickly, whether attributes may say a date or a version.
func tellsEdition(attributes []byte) bool {
	const shortest = len(`{"date":1}`)
	return len(attributes) >= shortest &&
		(bytes.Contains(attributes, []byte(`date":`)) || bytes.Contains(attributes, []byte(`version":`)) || bytes.Contains(attributes, []byte(`supersedes":`)) ||
			bytes.Contains(attributes, []byte(`"`+FileTimeAttribute+`":`)))
}

// editionOf returns what a label says.
func editionOf(label Label) *edition {
	e := &edition{doc: string(label.Doc), name: string(label.Name), attributes: string(label.Attributes)}
	path := readPath(e.doc)
	at, stem := momentOf(path.words)
	titled, title := momentIn(e.name)
	if e.state, e.named = path.state, at.known() || path.worded; strings.ContainsFunc(stem, unicode.IsLetter) {
		e.stem = stem
	}
	if strings.ContainsFunc(title, unicode.IsLetter) {
		folder := e.doc[:strings.LastIndexByte(e.doc, '/')+1]
		e.title = folder + "\x00" + digitsOf(stem) + "\x00" + title
	}
	e.time.setDate(at, titled)
	e.time.version = cmp.Or(at.version, path.version, titled.version)
	var attributes map[string]any
	if tellsEdition(label.Attributes) && json.Unmarshal(label.Attributes, &attributes) == nil {
		said := attributeMoment(attributes)
		e.time.setDate(said, e.time)
		e.time.version = cmp.Or(said.version, e.time.version)
		e.supersedes = supersededBy(attributes)
		if modified, ok := attributes[FileTimeAttribute].(string); ok {
			if at, err := time.Parse(fileTime, modified); err == nil {
				e.modified = at.UTC().Format(fileTime)
			}
		}
	}
	e.date = e.time.date()
	e.says = e.modified != "" || e.time.known() || path.worded || len(e.supersedes) > 0
	return e
}

// label returns the label of a source whose text is here.
func (s *Source) label() Label {
	return Label{Doc: []byte(s.Doc), Chunk: s.Chunk, Name: []byte(s.Name), Section: []byte(s.Section), Attributes: []byte(s.Attributes)}
}

// editionBy is editionOf with a cache.
func (s *selection) editionBy(label Label) *edition {
	if s.editions == nil {
		return editionOf(label)
	}
	hash := HashBytes(label.Doc)
	if e := s.editions.At(hash); e != nil && e.doc == string(label.Doc) && e.name == string(label.Name) && e.attributes == string(label.Attributes) {
		return e
	}
	e := editionOf(label)
	const most = 1 << 10 // of attributes that are kept
	if len(e.attributes) <= most {
		s.editions.Put(hash, e)
	}
	return e
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

// A placeInTime orders the versions of one document.
type placeInTime struct {
	moment        // not before that of what the document supersedes
	state   state // likewise
	current bool  // it has no date or version where others have
	level   int   // length of the chain of documents that it supersedes

	modified string // as in edition
}

// compare returns 1 if p is newer than q, -1 if it is older, 0 if that is not known.
func (p *placeInTime) compare(q *placeInTime) int {
	dates := 0
	if p.year > 0 && q.year > 0 {
		dates = p.compareDate(&q.moment)
	}
	old := func(p *placeInTime) int { return oneIf(p.state != stateOld) }
	if c := cmp.Or(cmp.Compare(old(p), old(q)), cmp.Compare(oneIf(p.current), oneIf(q.current)), dates); c != 0 || (p.year > 0) != (q.year > 0) {
		return cmp.Or(c, cmp.Compare(p.level, q.level))
	}
	numbers := 0
	if p.version != "" && q.version != "" {
		numbers = compareVersions(p.version, q.version)
	}
	return cmp.Or(numbers, cmp.Compare(p.level, q.level), cmp.Compare(p.state, q.state), cmp.Compare(oneIf(p.version != ""), oneIf(q.version != "")), p.compareFiles(q))
}

// compareFiles compares the times of files, if both are known.
func (p *placeInTime) compareFiles(q *placeInTime) int {
	if p.modified == "" || q.modified == "" {
		return 0
	}
	return cmp.Compare(p.modified, q.modified)
}

// order is compare, except that a document without a date is before those with dates.
func (p *placeInTime) order(q *placeInTime) int {
	return cmp.Or(p.compare(q), cmp.Compare(oneIf(p.year == 0), oneIf(q.year == 0)))
}

// FileTimeAttribute is the attribute that holds the time of a document's file, where FileTimes says
// that it matters.
const FileTimeAttribute = VersionAttributes + "modified"

// FileTimes returns the times of those files that tell which version of a document is newer, as
// values of FileTimeAttribute: a file and its copies, and a file without a date that is older than
// the dates in the names of others. modified returns the time of a file, zero if it is unknown.
func FileTimes(files []string, modified func(file string) time.Time) map[string]string {
	sets := map[string]*fileSet{}
	letters := map[uint64]bool{} // of stems
	for _, file := range files {
		if name := []byte(file); !maybeDated(name) && !maybeWorded(name) {
			continue
		}
		path := readPath(file)
		at, stem := momentOf(path.words)
		if stem == "" || !at.known() && !path.worded {
			continue
		}
		set := sets[stem]
		if set == nil {
			set = &fileSet{}
			sets[stem] = set
			letters[hashOfLetters(stem)] = true
		}
		switch {
		case at.year > 0:
			if set.newest.compareDate(&at) < 0 {
				set.newest = at
			}
		case path.state == statePlain && !at.known():
			set.undated, set.copied = append(set.undated, file), true
		}
	}
	if len(sets) == 0 {
		return nil
	}
	for _, file := range files {
		if !letters[hashOfLetters(stemOf(file))] {
			continue // nearly always
		}
		path := readPath(file)
		at, stem := momentOf(path.words)
		if set := sets[stem]; set != nil && !at.known() && !path.worded {
			set.undated = append(set.undated, file)
		}
	}
	times := map[string]string{}
	for _, set := range sets {
		for _, file := range set.undated {
			at := modified(file).UTC()
			day := moment{year: at.Year(), month: int(at.Month()), day: at.Day()}
			if at.Year() > firstYear && (set.copied && len(set.undated) > 1 || day.compareDate(&set.newest) < 0) {
				times[file] = at.Format(fileTime)
			}
		}
	}
	return times
}

// A fileSet is the files whose names have one stem.
type fileSet struct {
	newest  moment   // date in the names
	undated []string // without a date, a version or a word that says a state
	copied  bool     // one of them is a copy
}

// hashOfLetters returns a hash of the letters and digits of a path: that of a stem is that of a path
// that has no more words.
func hashOfLetters(path string) uint64 {
	h := uint64(fnvStart)
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			path = plainText(path)
			break
		}
	}
	for _, r := range path {
		if r >= 'A' && r <= 'Z' {
			r |= 0x20
		}
		if r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			h = (h ^ uint64(r)) * fnvPrime
		}
	}
	return h
}
