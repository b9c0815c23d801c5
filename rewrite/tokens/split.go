package tokens

// The encodings split a text into pieces, which are encoded one by one, by these
// patterns (openai_public.py of OpenAI's tiktoken); the first alternative that matches
// wins:
//
//	o200k   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	        [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	        \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	cl100k  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//	        | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// The functions below match them by hand. Each looks at a rune a few times at most and
// reads no further than the next piece, so the whole takes linear time.

// A splitter returns the end of the piece that begins at i < len(text).
type splitter func(k *kinds, text string, i int) int

// splitO200k is the splitter of o200k_base.
func splitO200k(k *kinds, text string, i int) int {
	first, size := k.at(text, i)
	next := i + size
	switch first {
	case upper, lower, caseless:
		end, _ := k.word(text, i)
		return afterContraction(text, end)
	case number:
		return k.digits(text, next)
	case lineBreak:
		return k.whiteSpace(text, i, true)
	}
	end, cased := k.word(text, next)
	switch {
	case first == combining && !cased:
		// Of marks followed by capitals the first alternative takes the marks alone.
		return afterContraction(text, next)
	case end > next:
		return afterContraction(text, end)
	case first == symbol:
		return slashes(text, k.run(text, next, signs))
	case text[i] == ' ':
		if end = k.run(text, next, signs); end > next {
			return slashes(text, end)
		}
	}
	return k.whiteSpace(text, i, true)
}

// word returns the end of the word of o200k_base that begins at i, i if there is none. cased
// reports whether it ends with what may be a small letter, as the first alternative requires.
// Capitals without anything small after them are left to the second alternative or, if something
// caseless is before or among them, to the next piece.
func (k *kinds) word(text string, i int) (end int, cased bool) {
	if k.ascii[byteAt(text, i)] == lower {
		return k.run(text, i+1, small), true
	}
	folded := i // offset after the last rune that may be a small letter
	for end = i; ; {
		found, size := k.at(text, end)
		if found == lower {
			return k.run(text, end+size, small), true
		}
		if found&large == 0 {
			break
		}
		end += size
		if found != upper {
			folded = end
		}
	}
	if folded > i {
		return folded, true
	}
	return end, false
}

// splitCL100k is the splitter of cl100k_base.
func splitCL100k(k *kinds, text string, i int) int {
	first, size := k.at(text, i)
	next := i + size
	switch first {
	case upper, lower, caseless:
		return k.run(text, next, letters)
	case number:
		return k.digits(text, next)
	case lineBreak:
		return k.whiteSpace(text, i, true)
	}
	if end := afterContraction(text, i); end > i {
		return end
	}
	if end := k.run(text, next, letters); end > next {
		return end
	}
	end := next
	if first&signs != 0 || text[i] == ' ' {
		end = k.run(text, next, signs)
	}
	if first&signs != 0 || end > next {
		return k.run(text, end, lineBreak)
	}
	return k.whiteSpace(text, i, true)
}

// splitGPT2 is the splitter of p50k_base and r50k_base.
func splitGPT2(k *kinds, text string, i int) int {
	if end := afterContraction(text, i); end > i && text[i+1] >= 'a' && text[end-1] >= 'a' {
		return end
	}
	start := i
	if text[i] == ' ' {
		start++
	}
	first, size := k.at(text, start)
	for _, of := range [...]kind{letters, number, signs} {
		if first&of != 0 {
			return k.run(text, start+size, of)
		}
	}
	return k.whiteSpace(text, i, false)
}

// digits returns the end of a group of up to three digits; i is after the first.
func (k *kinds) digits(text string, i int) int {
	for range 2 {
		found, size := k.at(text, i)
		if found != number {
			break
		}
		i += size
	}
	return i
}

// whiteSpace returns the end of the piece of white space at i. If breaks is set and there is a
// line break, that is after the last line break. Otherwise it is before the last rune, which goes
// with the text that follows; at the end of the text, or if there is only one rune, it is after
// the last rune.
func (k *kinds) whiteSpace(text string, i int, breaks bool) int {
	broken, last, end := i, i, i
	for {
		found, size := k.at(text, end)
		if found&spaces == 0 {
			break
		}
		last, end = end, end+size
		if found == lineBreak {
			broken = end
		}
	}
	switch {
	case breaks && broken > i:
		return broken
	case end == len(text) || last == i:
		return end
	}
	return last
}

// slashes returns the end of the run of slashes and line breaks that begins at i.
func slashes(text string, i int) int {
	for i < len(text) && (text[i] == '/' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

// afterContraction returns the end of the contraction ('s 't 're 've 'm 'll 'd in any letter
// case) that begins at i; i if there is none.
func afterContraction(text string, i int) int {
	if byteAt(text, i) != '\'' {
		return i
	}
	switch byteAt(text, i+1) | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if byteAt(text, i+2)|0x20 == 'e' {
			return i + 3
		}
	case 'l':
		if byteAt(text, i+2)|0x20 == 'l' {
			return i + 3
		}
	}
	return i
}

// byteAt returns the byte of text at i, 0 after its end.
func byteAt(text string, i int) byte {
	if i < len(text) {
		return text[i]
	}
	return 0
}
