package requestlog

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"sidenote/proxy/report"
	"sidenote/proxy/route"
)

// A lineWriter formats lines of the log, one at a time. It keeps the parts that the
// next line will most likely share with this one: the second and the subject.
type lineWriter struct {
	text []byte

	second int64  // the Unix time that clock and zone are of
	clock  []byte // "2006-01-02T15:04:05"; nil at first
	zone   []byte // "Z" or "+07:00"

	subject     subject // of the last line
	subjectText []byte  // subject as members of the JSON object
}

// A subject holds the configured names that a line repeats. Most lines have the same
// subject as the line before.
type subject struct {
	tenant, policy, policyHash, upstream string
	route                                route.Kind
}

func (s *subject) append(dst []byte) []byte {
	dst = appendText(append(dst, `,"tenant":`...), s.tenant)
	dst = appendText(append(dst, `,"policy":`...), s.policy)
	dst = append(append(dst, `,"policy_hash":"`...), s.policyHash...)
	dst = appendText(append(dst, `","upstream":`...), s.upstream)
	return append(append(append(dst, `,"route":"`...), s.route...), '"')
}

// write returns r's line of the log in the form of slog's JSON handler, with the
// end of the answer as its time. The result is valid until the next call.
func (l *lineWriter) write(r *report.Report) []byte {
	ledger := &r.Rewrite.Ledger
	b := append(l.text[:0], `{"time":"`...)
	b = l.appendTime(b, r.Time.Add(r.Total))
	b = append(b, `","level":"INFO","msg":"request","id":"`...)
	b = append(append(b, r.ID...), '"')
	if about := (subject{r.Tenant, r.Policy, r.PolicyHash, r.Upstream, r.Route}); about != l.subject || l.subjectText == nil {
		l.subject, l.subjectText = about, about.append(l.subjectText[:0])
	}
	b = append(b, l.subjectText...)
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
	b = append(b, `","planner":"`+report.PlannerOff...)
	b = appendMilliseconds(append(b, `","overhead_ms":`...), r.Overhead)
	b = appendMilliseconds(append(b, `,"retrieval_ms":`...), r.Rewrite.RetrieveTook)
	b = appendMilliseconds(append(b, `,"ttfb_ms":`...), r.TTFB)
	b = appendMilliseconds(append(b, `,"duration_ms":`...), r.Total)
	b = strconv.AppendBool(append(b, `,"truncated":`...), r.Truncated)
	b = strconv.AppendBool(append(b, `,"retried":`...), r.Retried())
	b = append(append(b, `,"client":"`...), r.Client...)
	l.text = append(b, "\"}\n"...)
	return l.text
}

// appendTime appends t in the form of time.RFC3339Nano. All but the fraction is
// formatted once a second. That holds for the zone, too, as all times of a process are
// in the same zone.
func (l *lineWriter) appendTime(dst []byte, t time.Time) []byte {
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

// appendMilliseconds appends d in milliseconds as encoding/json writes it.
func appendMilliseconds(dst []byte, d time.Duration) []byte {
	us := d.Microseconds()
	if us < 0 { // never so for our own durations
		return strconv.AppendFloat(dst, float64(us)/1e3, 'f', -1, 64)
	}
	dst = strconv.AppendInt(dst, us/1000, 10)
	if us %= 1000; us > 0 {
		dst = appendFraction(dst, int(us), 3)
	}
	return dst
}

// appendFraction appends a decimal point and n, which is above 0, as a fraction of
// that many places, without trailing zeros.
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

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	start := len(dst)
	dst = append(append(dst, '"'), s...)
	if report.Printable(dst[start+1:]) {
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
