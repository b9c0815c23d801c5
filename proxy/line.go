package proxy

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"
)

// appendLine appends r's line of the log as slog's JSON handler writes it.
func appendLine(dst []byte, now time.Time, r *Report) []byte {
	dst = append(dst, `{"time":"`...)
	dst = now.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, `","level":"INFO","msg":"request"`...)
	attrs := Attrs(r)
	for i := range attrs {
		dst = append(append(append(dst, `,"`...), attrs[i].Key...), `":`...)
		dst = appendValue(dst, &attrs[i].Value)
	}
	return append(dst, "}\n"...)
}

func appendValue(dst []byte, v *slog.Value) []byte {
	switch v.Kind() {
	case slog.KindInt64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case slog.KindBool:
		return strconv.AppendBool(dst, v.Bool())
	case slog.KindFloat64:
		return strconv.AppendFloat(dst, v.Float64(), 'f', -1, 64)
	case slog.KindString:
		if s := v.String(); printable(s) {
			return append(append(append(dst, '"'), s...), '"')
		}
	}
	text := new(bytes.Buffer)
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v.Any()); err != nil {
		return append(dst, "null"...) // no value of a Report
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
