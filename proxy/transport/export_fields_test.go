package transport

// Field returns what nextField reads of the first line of block.
func Field(block []byte) (name, value string, next int, ok bool) {
	f, ok := nextField(block)
	if !ok {
		return "", "", 0, false
	}
	return string(f.name(block)), string(f.value(block)), f.next, true
}

// PlainField is Field step by step, checking each byte on its own.
func PlainField(block []byte) (name, value string, next int, ok bool) {
	line, rest, whole := cutLine(block)
	n, v, ok := cutField(line)
	if !whole || !ok || !validToken(n) {
		return "", "", 0, false
	}
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", "", 0, false
		}
	}
	return string(n), string(v), len(block) - len(rest), true
}

// PassesAny reports whether a header of that name may be relayed at all, and whether it is
// one of Sidenote's.
func PassesAny(name string) (passes, own bool) {
	kind := kindOf([]byte(name))
	return !kind.hopByHop(), kind == ownName
}
