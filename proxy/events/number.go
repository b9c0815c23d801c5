package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// promptTokens reads prompt_tokens from a usage object; nil means that there is none. The
// object may be any text between two braces. Of doubled keys the last counts, as for most
// readers of JSON.
func promptTokens(object []byte) (n int, f Finding) {
	var fields map[string]json.RawMessage // not a struct: names of its fields would match in any letter case
	if len(object) == 0 || json.Unmarshal(object, &fields) != nil {
		return 0, Absent
	}
	value := bytes.TrimSpace(fields["prompt_tokens"])
	switch {
	case len(value) == 0, string(value) == "null":
		return 0, Absent
	case value[0] != '-' && (value[0] < '0' || value[0] > '9'):
		return 0, NotNumber
	}
	return count(string(value))
}

// count returns the value of a JSON number, if it can be a count of tokens. It works on
// the digits: 1e400 has no float64, and 1e999999999 as a big integer would fill the
// memory.
func count(number string) (n int, f Finding) {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, power := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		power, _ = strconv.Atoi(number[i+1:])              // an exponent out of range becomes the largest or smallest int
		power = min(max(power, -2*maxObject), 2*maxObject) // further than the digits of any number can compensate
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	power -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	power += len(digits) - len(trimmed)
	switch {
	case trimmed == "":
		return 0, Found // -0 and 0e9 too
	case negative:
		return 0, Negative
	case power < 0:
		return 0, NotNumber
	case len(trimmed)+power > len("100000000"):
		return 0, TooLarge
	}
	n, err := strconv.Atoi(trimmed + strings.Repeat("0", power))
	if err != nil || n > MaxTokens {
		return 0, TooLarge
	}
	return n, Found
}
