// Package value has scalar values of a configuration that say how good something is. Each
// reads the text that stands in the file, and says in its error what it wants instead.
package value

import (
	"fmt"
	"math"
	"strconv"

	"sidenote/retrieval"
	"sidenote/rewrite"
)

// Priority is 0 (least) to 100, or a word for the common ones.
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

// Threshold is the least score of a source, of any base, or "auto" for each base's own.
type Threshold float64

// UnmarshalText reads a positive number or "auto".
func (t *Threshold) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*t = retrieval.AutoThreshold
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f <= 0 {
		return fmt.Errorf("%q is not a threshold; use auto or a number above 0", text)
	}
	*t = Threshold(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (t Threshold) MarshalText() ([]byte, error) {
	if t == retrieval.AutoThreshold {
		return []byte("auto"), nil
	}
	return strconv.AppendFloat(nil, float64(t), 'g', -1, 64), nil
}

// Relevance is the least relevance of a base's sources, 0 for "auto": its own floor.
type Relevance float64

// UnmarshalText reads a number between 0 and 1, or "auto".
func (r *Relevance) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = 0
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f > 0 && f < 1) {
		return fmt.Errorf("%q is not a relevance; use auto or a number between 0 and 1, such as 0.6", text)
	}
	*r = Relevance(f)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (r Relevance) MarshalText() ([]byte, error) {
	if r == 0 {
		return []byte("auto"), nil
	}
	return strconv.AppendFloat(nil, float64(r), 'g', -1, 64), nil
}
