package http1

import (
	"bytes"
	"slices"
)

// forbiddenTrailer reports whether a line of that name is allowed in a head but not in a trailer
// (RFC 9110 §6.5.1).
func forbiddenTrailer(name []byte) bool { return Is(name, "date") || Is(name, "set-cookie") }

// RelayedTrailer returns the lines of the upstream's trailer that are relayed: those allowed in a
// trailer and not replaced. Lines with the same name are joined.
func (b *Body) RelayedTrailer(replace []Header) (lines []byte) {
	type field struct{ name, values []byte }
	var fields []field
	for line, rest, ok := CutLine(b.trailer); ok; line, rest, ok = CutLine(rest) {
		name, value, ok := CutField(line)
		if !ok || !ValidToken(name) || !ValidText(value) || KindOf(name).HopByHop() || KindOf(name) == LengthName ||
			Replaced(replace, name) >= 0 || forbiddenTrailer(name) {
			continue
		}
		same := slices.IndexFunc(fields, func(f field) bool { return bytes.EqualFold(f.name, name) })
		if same >= 0 {
			fields[same].values = slices.Concat(fields[same].values, []byte(", "), value)
		} else {
			fields = append(fields, field{name, value})
		}
	}
	for _, f := range fields {
		lines = AppendLine(lines, string(f.name), string(f.values))
	}
	return lines
}
