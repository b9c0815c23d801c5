package proxy

import (
	"bytes"
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
}

// write returns r's line of the log as slog's JSON handler writes Attrs, with the
// end of the answer as its time. It is good until the next one.
func (l *line) write(r *Report) []byte {
	ledger := &r.Rewrite.Ledger
	b := append(l.text[:0], `{"time":"`...)
	b = l.appendTime(b, r.Time.Add(r.Total))
	b = append(b, `","level":"INFO","msg":"request","id":"`...)
	b = append(b, r.ID...)
	b = appendText(append(b, `","tenant":`...), r.Tenant)
	b = appendText(append(b, `,"policy":`...), r.Policy)
	b = append(append(b, `,"policy_hash":"`...), r.PolicyHash...)
	b = appendText(append(b, `","upstream":`...), r.Upstream)
	b = append(append(b, `,"route":"`...), r.Route...)
	b = appendText(append(b, `","model":`...), r.Model())
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
		dst = appendFraction(dst, ns, 100_000_000)
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
		dst = appendFraction(dst, int(us), 100)
	}
	return dst
}

// appendFraction appends a point and the digits of n > 0, of which the first
// stands for unit, without zeros at the end.
func appendFraction(dst []byte, n, unit int) []byte {
	dst = append(dst, '.')
	for ; n > 0; unit /= 10 {
		dst = append(dst, '0'+byte(n/unit))
		n %= unit
	}
	return dst
}

// appendText appends a name that somebody chose as a string of JSON.
func appendText(dst []byte, s string) []byte {
	if printable(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	text := new(bytes.Buffer)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic("BUG: a string did not encode: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

// printable tells the strings that JSON writes as they are; names of ours are.
func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
