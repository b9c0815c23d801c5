package report

import (
	"encoding/hex"

	"github.com/prometheus/client_golang/prometheus"
)

// ParseTrace returns the trace id of a traceparent header, and whether the caller records the trace,
// by W3C Trace Context. id is "" if the header is absent or malformed.
func ParseTrace(traceparent []byte) (id string, sampled bool) {
	const whole = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	p := traceparent
	switch {
	case len(p) < whole || p[2] != '-' || p[35] != '-' || p[52] != '-':
		return "", false
	case len(p) > whole && (string(p[:2]) == "00" || p[whole] != '-'): // later versions may have more fields
		return "", false
	}
	version, okVersion := lowerHex(p[:2])
	trace, okTrace := lowerHex(p[3:35])
	parent, okParent := lowerHex(p[36:52])
	flags, okFlags := lowerHex(p[53:55])
	if !okVersion || !okTrace || !okParent || !okFlags || version[0] == 0xff || trace == [16]byte{} || parent == [16]byte{} {
		return "", false
	}
	return string(p[3:35]), flags[0]&1 != 0
}

// lowerHex decodes up to 16 bytes in lower-case hex.
func lowerHex(text []byte) (b [16]byte, ok bool) {
	for _, c := range text {
		if c >= 'A' && c <= 'F' {
			return b, false
		}
	}
	_, err := hex.Decode(b[:], text)
	return b, err == nil
}

// observe adds an observation of a request, with its trace as exemplar if the caller records it.
func (r *Report) observe(o prometheus.Observer, value float64) {
	if r.Sampled && r.TraceID != "" {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": r.TraceID})
			return
		}
	}
	o.Observe(value)
}
