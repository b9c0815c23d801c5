package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
)

// A line is the space in which lines of the log are written, one at a time, and
// what of the time they share.
type line struct {
	text []byte

	second int64  // Unix time of the two below
	clock  []byte // "2006-01-02T15:04:05"; nil at first
	zone   []byte // "Z" or "+07:00"

	about subject // of the line before
	named []byte  // its members
}

// A subject is what the configuration calls who and what a request is about. Most
// lines have that of the one before.
type subject struct {
	tenant, policy, policyHash, upstream string
	route                                Route
}

func (s *subject) append(dst []byte) []byte {
	dst = appendText(append(dst, `,"tenant":`...), s.tenant)
	dst = appendText(append(dst, `,"policy":`...), s.policy)
	dst = append(append(dst, `,"policy_hash":"`...), s.policyHash...)
	dst = appendText(append(dst, `","upstream":`...), s.upstream)
	return append(append(append(dst, `,"route":"`...), s.route...), '"')
}

// write returns r's line of the log as slog's JSON handler writes Attrs, with the
// end of the answer as its time. It is good until the next one.
func (l *line) write(r *Report) []byte {
	ledger := &r.Rewrite.Ledger
	b := append(l.text[:0], `{"time":"`...)
	b = l.appendTime(b, r.Time.Add(r.Total))
	b = append(b, `","level":"INFO","msg":"request","id":"`...)
	b = append(append(b, r.ID...), '"')
	if about := (subject{r.Tenant, r.Policy, r.PolicyHash, r.Upstream, r.Route}); about != l.about || l.named == nil {
		l.about, l.named = about, about.append(l.named[:0])
	}
	b = append(b, l.named...)
	b = appendText(append(b, `,"model":`...), r.Model())
	b = strconv.AppendBool(append(b, `,"stream":`...), r.Stream)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(r.Status), 10)
	b = append(append(b, `,"outcome":"`...), r.Outcome...)
	b = append(append(b, `","reason":"`...), r.Reason...)
	b = strconv.AppendInt(append(b, `","sources":`...), int64(r.Sources()), 10)
	b = strconv.AppendInt(append(b, `,"context_tokens":`...), int64(ledger.Used), 10)
	b = strconv.AppendInt(append(b, `,"context_budget":`...), int64(ledger.Budget), 10)
	b = append(append(b, `,"exact":"`...), ledger.Exactness...)
	b = append(append(b, `","cache":"`...), r.Rewrite.Retrieval.Cache...)
	b = append(b, `","planner":"`+plannerOff...)
	b = appendMilliseconds(append(b, `","overhead_ms":`...), r.Overhead)
	b = appendMilliseconds(append(b, `,"retrieval_ms":`...), r.Rewrite.RetrieveTook)
	b = appendMilliseconds(append(b, `,"ttfb_ms":`...), r.TTFB)
	b = appendMilliseconds(append(b, `,"duration_ms":`...), r.Total)
	b = strconv.AppendBool(append(b, `,"truncated":`...), r.Truncated)
	b = strconv.AppendBool(append(b, `,"retried":`...), r.Retried)
	b = append(append(b, `,"client":"`...), r.Client...)
	l.text = append(b, "\"}\n"...)
	return l.text
}

// appendTime appends t as time.RFC3339Nano has it. What does not change within a
// second is formatted once in it: the zone neither, as all times of a process are
// in the same.
func (l *line) appendTime(dst []byte, t time.Time) []byte {
	if second := t.Unix(); second != l.second || l.clock == nil {
		l.second = second
		l.clock = t.AppendFormat(l.clock[:0], "2006-01-02T15:04:05")
		l.zone = t.AppendFormat(l.zone[:0], "Z07:00")
	}
	dst = append(dst, l.clock...)
	if ns := t.Nanosecond(); ns > 0 {
		dst = appendFraction(dst, ns, 9)
	}
	return append(dst, l.zone...)
}

// appendMilliseconds appends what JSON makes of milliseconds(d).
func appendMilliseconds(dst []byte, d time.Duration) []byte {
	us := d.Microseconds()
	if us < 0 { // no duration of ours
		return strconv.AppendFloat(dst, milliseconds(d), 'f', -1, 64)
	}
	dst = strconv.AppendInt(dst, us/1000, 10)
	if us %= 1000; us > 0 {
		dst = appendFraction(dst, int(us), 3)
	}
	return dst
}

// appendFraction appends a point and the digits of n > 0, which has as many as places
// and zeros before them, without zeros at the end.
func appendFraction(dst []byte, n, places int) []byte {
	var digits [9]byte
	for i := places - 1; i >= 0; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	for digits[places-1] == '0' {
		places--
	}
	return append(append(dst, '.'), digits[:places]...)
}

// appendText appends a name that somebody chose as a string of JSON.
func appendText(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(append(dst, '"'), s...)
	if printable(dst[start+1:]) {
		return append(dst, '"')
	}
	text := new(bytes.Buffer)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("BUG: a string did not encode: " + err.Error())
	}
	return append(dst[:start], bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

// printable tells the texts that both JSON and RFC 9651 write as they are, between
// quotes; names of ours are. It looks at eight bytes at once.
func printable(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		eight := binary.LittleEndian.Uint64(b)
		quote, slash := eight^'"'*ones, eight^'\\'*ones
		below, beyond := (eight-' '*ones)&^eight, eight|(eight+ones) // ' ' and '~'
		if (below|beyond|(quote-ones)&^quote|(slash-ones)&^slash)&tops != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
