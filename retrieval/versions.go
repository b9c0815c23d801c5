package retrieval

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Versions says which versions of one document become sources.
type Versions string

// The values of Versions.
const (
	VersionsNewest Versions = ""    // the newest, unless the question names another or asks about change
	VersionsAll    Versions = "all" // all, the newest first
	VersionsOff    Versions = "off" // versions are not told from other variants
)

// A moment is what a name or an attribute says about the time of a document: a date, a version, or
// both. The zero moment says nothing.
type moment struct {
	year, month, day int    // month and day are 0 where unknown; month is the last one of a quarter
	version          string // "3", "2.10"
}

func (m *moment) known() bool { return m.year > 0 || m.version != "" }

// date formats the date as YYYY, YYYY-MM or YYYY-MM-DD; "" if unknown.
func (m *moment) date() string {
	if m.year == 0 {
		return ""
	}
	b := strconv.AppendInt(nil, int64(m.year), 10)
	for _, n := range [...]int{m.month, m.day} {
		if n == 0 {
			break
		}
		b = append(b, '-', byte('0'+n/10), byte('0'+n%10))
	}
	return string(b)
}

// compareDate orders dates, older first. A date that is less exact is at the start of its year or
// month.
func (m *moment) compareDate(n *moment) int {
	return cmp.Or(cmp.Compare(m.year, n.year), cmp.Compare(m.month, n.month), cmp.Compare(m.day, n.day))
}

// compareVersions compares the numbers of versions, whatever their length.
func compareVersions(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}

// A date that is set is in these years.
const (
	firstYear = 1900
	lastYear  = 2099
)

// dateOf returns a moment with a date; false if there is no such day.
func dateOf(year, month, day int) (m moment, ok bool) {
	if year < firstYear || year > lastYear || month < 0 || month > 12 || day < 0 || day > 0 && month == 0 {
		return m, false
	}
	if day > 0 && time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return m, false
	}
	return moment{year: year, month: month, day: day}, true
}

// maybeDated reports, quickly, whether a name may hold a date or a version.
func maybeDated(name []byte) bool {
	const digitsOfYear = 4
	run, gap, letter := 0, 0, byte(0) // digits; characters since the last letter, and that letter
	for i, c := range name {
		switch lower := c | 0x20; {
		case c >= '0' && c <= '9':
			if run++; run == 1 && gap <= 1 && strings.IndexByte("vqhrn", letter) >= 0 {
				return true // v2, Q1, rev 2, version-2
			}
			if run >= digitsOfYear && (name[i-3] == '1' && name[i-2] == '9' || name[i-3] == '2' && name[i-2] == '0') {
				return true
			}
			continue
		case lower >= 'a' && lower <= 'z':
			letter, gap = lower, 0
		default:
			gap++
		}
		run = 0
	}
	return false
}

// months are the names of months in English, German, French, Spanish, Italian, Portuguese and
// Dutch, without accents.
const months = "jan january januar janvier ene enero gen gennaio janeiro januari|feb february februar fev fevrier febrero febbraio fevereiro februari|" +
	"mar march marz maerz mrz mars marzo marco mrt maart|apr april avr avril abr abril aprile|may mai mayo mag maggio maio mei|" +
	"jun june juni juin junio giu giugno junho|jul july juli juillet julio lug luglio julho|aug august aout ago agosto augustus|" +
	"sep sept september septembre septiembre set settembre setembro|oct okt october oktober octobre octubre ott ottobre out outubro|" +
	"nov november novembre noviembre novembro|dec dez dic december dezember decembre diciembre dicembre dezembro"

// monthNumbers are the numbers of months by their names.
var monthNumbers = sync.OnceValue(func() map[string]int {
	numbers := map[string]int{}
	for i, list := range strings.Split(months, "|") {
		for name := range strings.FieldsSeq(list) {
			numbers[name] = i + 1
		}
	}
	return numbers
})

// monthOf returns the number of a month by its name; 0 if it is none.
func monthOf(word string) int { return monthNumbers()[word] }

// momentIn finds dates and versions in a name: years, quarters, months, days, "v2", "version 2.1",
// "rev 3". The stem is the name without them, in lower case and with single spaces between words;
// names with the same stem are those of versions of one document.
func momentIn(name string) (m moment, stem string) {
	return momentOf(pieces(plainText(name)))
}

// momentOf is momentIn of the pieces of a name.
func momentOf(words []string) (m moment, stem string) {
	rest := make([]string, 0, len(words))
	for i := 0; i < len(words); {
		n := m.take(words[i:])
		if n == 0 {
			rest = append(rest, words[i])
			n = 1
		}
		i += n
	}
	return m, strings.Join(rest, " ")
}

// plainText returns a text in lower case and without accents.
func plainText(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Mn, r) {
					return -1
				}
				return unicode.ToLower(r)
			}, norm.NFKD.String(text))
		}
	}
	return strings.ToLower(text)
}

// pieces divides a name into words and numbers: "leave-v2.10_2026Q1" into leave, v, 2, 10, 2026, q
// and 1.
func pieces(name string) (list []string) {
	const bytesPerPiece = 5
	list = make([]string, 0, len(name)/bytesPerPiece+1)
	kind := func(r rune) int {
		switch {
		case r >= '0' && r <= '9' || r >= utf8.RuneSelf && unicode.IsDigit(r):
			return 1
		case r|0x20 >= 'a' && r|0x20 <= 'z' || r >= utf8.RuneSelf && unicode.IsLetter(r):
			return 2
		}
		return 0
	}
	start, before := 0, 0
	for i, r := range name {
		if k := kind(r); k != before {
			if before > 0 {
				list = append(list, name[start:i])
			}
			start, before = i, k
		}
	}
	if before > 0 {
		list = append(list, name[start:])
	}
	return list
}

// take reads a date or a version at the start of words and returns how many of them it takes; 0 if
// there is none. Only the first date and the first version count.
func (m *moment) take(words []string) int {
	r := momentReader{m, words}
	if n := r.versionWord(); n > 0 {
		return n
	}
	if n := r.byName(); n > 0 {
		return n
	}
	if n := r.dayFirst(); n > 0 {
		return n
	}
	return r.yearFirst()
}

// A momentReader reads a moment at the start of words.
type momentReader struct {
	*moment
	words []string
}

// number returns words[i], 0 if it is no number of so many digits.
func (r *momentReader) number(i, least, most int) int {
	if w := r.word(i); len(w) < least || len(w) > most || !isDigit(w[0]) {
		return 0
	}
	n, err := strconv.Atoi(r.words[i])
	if err != nil {
		return 0
	}
	return n
}

// word returns words[i], "" if there are fewer.
func (r *momentReader) word(i int) string {
	if i < len(r.words) {
		return r.words[i]
	}
	return ""
}

// set sets the date and returns taken; 0 if there is no such day, or a date already.
func (r *momentReader) set(taken, year, month, day int) int {
	d, ok := dateOf(year, month, day)
	if !ok || r.year > 0 {
		return 0
	}
	r.year, r.month, r.day = d.year, d.month, d.day
	return taken
}

// versionWord reads "v2", "version 2.1" or "rev 3".
func (r *momentReader) versionWord() int {
	switch r.word(0) {
	case "v", "ver", "version", "rev", "revision", "versie", "versao":
	default:
		return 0
	}
	if r.version != "" || r.number(1, 1, 5) == 0 && r.word(1) != "0" {
		return 0
	}
	n := 2
	r.version = r.words[1]
	for n < 4 && r.number(n, 1, 3) > 0 || n < 4 && r.word(n) == "0" {
		r.version += "." + r.words[n]
		n++
	}
	return n
}

// byName reads a date that begins with the name of a month or of a part of a year.
func (r *momentReader) byName() int {
	switch w := r.word(0); {
	case (w == "q" || w == "h" || w == "t" || w == "s") && r.number(1, 1, 1) > 0 && r.number(2, 4, 4) > 0: // Q1 2026
		return r.set(3, r.number(2, 4, 4), lastMonth(w, r.number(1, 1, 1)), 0)
	case monthOf(w) > 0 && r.number(1, 4, 4) > 0: // March 2026
		return r.set(2, r.number(1, 4, 4), monthOf(w), 0)
	case monthOf(w) > 0 && r.number(1, 1, 2) > 0 && r.number(2, 4, 4) > 0: // March 1, 2026
		return r.set(3, r.number(2, 4, 4), monthOf(w), r.number(1, 1, 2))
	}
	return 0
}

// dayFirst reads a date whose year is not first.
func (r *momentReader) dayFirst() int {
	if d := r.number(0, 1, 2); d > 0 { // 1.3.2026, 1 March 2026
		if year := r.number(2, 4, 4); year > 0 && r.number(1, 1, 2) > 0 {
			return cmp.Or(r.set(3, year, r.number(1, 1, 2), d), r.set(3, year, d, r.number(1, 1, 2)))
		} else if month := monthOf(r.word(1)); year > 0 && month > 0 {
			return r.set(3, year, month, d)
		}
		if year := r.number(1, 4, 4); year > 0 && r.number(2, 1, 2) == 0 { // 03-2026
			return r.set(2, year, d, 0)
		}
	}
	return 0
}

// yearFirst reads a date that begins with its year.
func (r *momentReader) yearFirst() int {
	if all := r.number(0, 8, 8); all > 0 {
		return r.set(1, all/10000, all/100%100, all%100)
	}
	if all := r.number(0, 6, 6); all > 0 && all%100 > 0 { // 202603
		return r.set(1, all/100, all%100, 0)
	}
	year := r.number(0, 4, 4)
	if year < firstYear || year > lastYear {
		return 0
	}
	if w := r.word(1); (w == "q" || w == "h" || w == "t" || w == "s") && r.number(2, 1, 1) > 0 {
		if n := r.set(3, year, lastMonth(w, r.number(2, 1, 1)), 0); n > 0 {
			return n
		}
	}
	if r.word(1) == "年" {
		if r.number(2, 1, 2) > 0 && strings.HasPrefix(r.word(3), "月") {
			if day := r.number(4, 1, 2); day > 0 && r.word(3) == "月" && r.word(5) == "日" {
				return r.set(6, year, r.number(2, 1, 2), day)
			}
			return r.set(4, year, r.number(2, 1, 2), 0)
		}
		return r.set(2, year, 0, 0)
	}
	month, digits := r.number(1, 2, 2), true
	if month == 0 {
		month, digits = monthOf(r.word(1)), false
	}
	if month > 0 {
		if day := r.number(2, 2, 2); day > 0 {
			if n := r.set(3, year, month, day); n > 0 {
				return n
			}
		}
		if n := r.set(2, year, month, 0); n > 0 {
			return n
		}
		if digits && r.year == 0 { // 2026-13: no date, and no year followed by a number
			return 0
		}
	}
	return r.set(1, year, 0, 0)
}

// lastMonth returns the last month of quarter or half n; 13 if there is none.
func lastMonth(kind string, n int) int {
	const quarter, half, none = 3, 6, 13
	switch {
	case (kind == "q" || kind == "t") && n <= 4:
		return quarter * n
	case kind != "q" && kind != "t" && n <= 2:
		return half * n
	}
	return none
}

// VersionAttributes begins the names of the attributes date, version and supersedes that a document
// has from its own front matter, whatever attributes its base is configured to have.
const VersionAttributes = "sidenote_"

// attributeMoment returns the moment that the attributes of a document say.
func attributeMoment(attributes map[string]any) (m moment) {
	text := func(key string) string {
		switch v := cmp.Or(attributes[VersionAttributes+key], attributes[key]).(type) {
		case string:
			return v
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return ""
	}
	if date := text("date"); date != "" {
		date, _, _ = strings.Cut(strings.TrimSpace(date), "T") // 2026-03-01T10:00:00Z
		if d, rest := momentIn(date); digitsOf(rest) == "" {   // 2026-02-31 is no date
			m.year, m.month, m.day = d.year, d.month, d.day
		}
	}
	if version := text("version"); version != "" && len(version) <= 40 {
		if d, _ := momentIn("v" + strings.TrimLeft(version, "vV ")); d.version != "" {
			m.version = d.version
		}
		if d, _ := momentIn(version); m.year == 0 && d.year > 0 {
			m = moment{year: d.year, month: d.month, day: d.day}
		}
	}
	return m
}

// stemOf returns the path of a document without the suffixes of its file name.
func stemOf(doc string) string {
	const longest = 6
	for {
		ext := path.Ext(doc)
		if len(ext) < 2 || len(ext) > longest || strings.ContainsAny(ext, " 0123456789") && ext != ".mp3" && ext != ".mp4" {
			return doc
		}
		doc = strings.TrimSuffix(doc, ext)
	}
}

// digitsOf returns the words of a stem that hold digits.
func digitsOf(stem string) (list string) {
	for w := range strings.FieldsSeq(stem) {
		if w[0] >= '0' && w[0] <= '9' {
			list += w + " "
		}
	}
	return list
}

// changeWords are the beginnings of words that ask about change or history, without accents, in
// English, German, French, Spanish, Italian, Portuguese, Dutch, Danish, Swedish, Norwegian, Polish,
// Russian and Turkish. A word that ends in a dot matches only as a whole.
const changeWords = "chang histor previous former earlier. compar differ evol versions. outdated. older. revis. used_to over_time the_old " +
	"andern. anderung andert. anderte geander verander fruher frueher vorher vorig ehemal verlauf vergleich unterschied entwick damals. bisher versionen. alte. alten. altere " +
	"modif precedent ancien. ancienne auparavant " +
	"cambi anterior antes. antigu diferen version_anterior versiones. " +
	"storic storia. preceden confront modific vecchi evoluzione versioni. " +
	"mudou. mudanca mudar alterac alterou antig versoes. " +
	"wijzig gewijzigd geschiedenis vroeger eerder. verschil vergelijk oude. versies. " +
	"aendr endring tidligere tidigare forskel forskjell skillnad jamfor sammenlign " +
	"zmian zmieni poprzedni roznic porown " +
	"измен истори раньше предыдущ сравн разниц отлич прежн " +
	"degis gecmis onceki fark."

// changeParts ask the same in languages that do not put spaces between words, and in Korean.
const changeParts = "变化 变更 变动 修改 修订 历史 以前 之前 过去 旧版 比较 区别 不同 差异 更改 變化 變更 修訂 歷史 過去 舊版 比較 區別 差異 " +
	"変更 変化 変わ 履歴 歴史 以前 旧版 違い 推移 改定 改訂 변경 변화 바뀌 이력 역사 이전 비교 차이"

// changeTexts are changeWords: those of one word by the word, true if a whole word; those of several;
// and changeParts.
var changeTexts = sync.OnceValue(func() (c struct {
	words          map[string]bool
	phrases, parts []string
}) {
	c.words, c.parts = map[string]bool{}, strings.Fields(norm.NFKD.String(changeParts))
	for start := range strings.FieldsSeq(changeWords) {
		start = strings.ReplaceAll(plainText(start), "_", " ")
		whole, only := strings.CutSuffix(start, ".")
		if strings.Contains(start, " ") {
			c.phrases = append(c.phrases, " "+start)
		} else {
			c.words[whole] = only
		}
	}
	return c
})

// asksAboutChange reports whether a question, as plainText returns it, is about change or history.
// words are its pieces.
func asksAboutChange(question string, words []string) bool {
	c, ascii := changeTexts(), true
	for _, word := range words {
		ascii = ascii && word[0] < utf8.RuneSelf
		for i := range word {
			if only, ok := c.words[word[:i]]; ok && !only {
				return true
			}
		}
		if _, ok := c.words[word]; ok {
			return true
		}
	}
	padded := " " + strings.Join(words, " ") + " "
	return slices.ContainsFunc(c.phrases, func(phrase string) bool { return strings.Contains(padded, phrase) }) ||
		!ascii && slices.ContainsFunc(c.parts, func(part string) bool { return strings.Contains(question, part) })
}

// periodsIn returns the dates and versions in the pieces of a question; at most 16.
func periodsIn(words []string) (list []moment) {
	const most = 16
	for i := 0; i < len(words) && len(list) < most; {
		var m moment
		n := m.take(words[i:])
		if n == 0 {
			i++
			continue
		}
		list = append(list, m)
		i += n
	}
	return list
}

// names reports whether a question that names m means a document of time n.
func (m *moment) names(n *moment) bool {
	if m.version != "" {
		return n.version != "" && compareVersions(m.version, n.version) == 0
	}
	return m.year > 0 && m.year == n.year && (m.month == 0 || n.month == 0 || m.month == n.month) && (m.day == 0 || n.day == 0 || m.day == n.day)
}
