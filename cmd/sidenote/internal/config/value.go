package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Bytes is an amount of memory: 64MiB, 10MB, 4096.
type Bytes int64

// UnmarshalText reads a whole number and a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, ok := quantity(string(text), map[string]int64{
		"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9,
	})
	if !ok {
		return fmt.Errorf("%q is not a size; %s", text, strictyaml.SpellingHint(string(text), "64MiB or 10MB"))
	}
	*b = Bytes(n)
	return nil
}

// MarshalText writes the size with the largest unit that divides it.
func (b Bytes) MarshalText() ([]byte, error) {
	for shift, unit := range map[uint]string{30: "GiB", 20: "MiB", 10: "KiB"} {
		if n := int64(b) >> shift; n > 0 && n<<shift == int64(b) && n%1024 != 0 {
			return []byte(strconv.FormatInt(n, 10) + unit), nil
		}
	}
	return strconv.AppendInt(nil, int64(b), 10), nil
}

// Count is a number of things, mostly tokens: 2000, 200k, 20M.
type Count int64

// UnmarshalText reads a whole number and a unit.
func (c *Count) UnmarshalText(text []byte) error {
	n, ok := quantity(string(text), map[string]int64{"": 1, "k": 1e3, "M": 1e6})
	if !ok {
		return fmt.Errorf("%q is not a whole number; %s", text, strictyaml.SpellingHint(string(text), "2000 or 200k"))
	}
	*c = Count(n)
	return nil
}

// quantity reads digits and a unit. It refuses values that overflow, so that no limit wraps around
// to a small or negative number.
func quantity(s string, units map[string]int64) (int64, bool) {
	digits := strings.TrimLeft(s, "-")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(digits)
	}
	at := len(s) - len(digits) + end
	n, err := strconv.ParseInt(s[:at], 10, 64)
	unit, known := units[strings.TrimSpace(s[at:])]
	if err != nil || !known || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// Priority is 0 (lowest) to 100, or a word for the common ones.
type Priority int

// UnmarshalText reads a number or a word.
func (p *Priority) UnmarshalText(text []byte) error {
	if v, ok := rewrite.NamedPriority(string(text)); ok {
		*p = Priority(v)
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 || n > 100 {
		return fmt.Errorf("%q is not a priority; use 0 to 100, or critical, high, medium, low, optional", text)
	}
	*p = Priority(n)
	return nil
}

// threshold is the minimum score of sources from any base, or "auto" for each base's own.
type threshold float64

// UnmarshalText reads a positive number or "auto".
func (t *threshold) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*t = retrieval.AutoThreshold
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
		return fmt.Errorf("%q is not a threshold; use auto or a number above 0", text)
	}
	*t = threshold(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (t threshold) MarshalText() ([]byte, error) {
	if t == retrieval.AutoThreshold {
		return []byte("auto"), nil
	}
	return strconv.AppendFloat(nil, float64(t), 'g', -1, 64), nil
}

// weight is the share of one of two terms of a sum; 0 stands for "auto", the measured weight.
type weight float64

// UnmarshalText reads a number above 0, up to 1, or "auto".
func (w *weight) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*w = 0
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f > 0 && f <= 1) {
		return fmt.Errorf("%q is not a weight; use auto or a number above 0, up to 1, such as 0.5", text)
	}
	*w = weight(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (w weight) MarshalText() ([]byte, error) {
	if w == 0 {
		return []byte("auto"), nil
	}
	return strconv.AppendFloat(nil, float64(w), 'g', -1, 64), nil
}

// A percentage is a share from 0 to 1, written as 1% or 0.5%.
type percentage float64

// UnmarshalText reads a number from 0 to 100 with a percent sign, or 0.
func (p *percentage) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !(f >= 0 && f <= 100) || !ok && f != 0 {
		return fmt.Errorf("%q is not a share; use a percentage from 0%% to 100%%, such as 1%%", text)
	}
	*p = percentage(f / 100)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p percentage) MarshalText() ([]byte, error) {
	return append(strconv.AppendFloat(nil, 100*float64(p), 'g', 15, 64), '%'), nil
}

// relevance is the minimum relevance of a base's sources; 0 stands for "auto", the base's own
// floor.
type relevance float64

// UnmarshalText reads a number between 0 and 1, or "auto".
func (r *relevance) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = 0
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f > 0 && f < 1) {
		return fmt.Errorf("%q is not a relevance; use auto or a number between 0 and 1, such as 0.6", text)
	}
	*r = relevance(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (r relevance) MarshalText() ([]byte, error) {
	if r == 0 {
		return []byte("auto"), nil
	}
	return strconv.AppendFloat(nil, float64(r), 'g', -1, 64), nil
}
