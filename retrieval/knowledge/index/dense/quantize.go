package dense

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrVector is in the error of numbers that have no direction: none, all zero, or one that is
// not finite.
var ErrVector = errors.New("not a vector")

// scaleBytes is the length of the scale before the components of a kept vector.
const scaleBytes = 4

// mostComponent is the greatest component of a kept vector: -128 is not used, so that the
// opposite of a vector is its negative.
const mostComponent = math.MaxInt8

// Quantize returns a vector of length 1 in the direction of v as it is kept: a float32,
// little-endian, and a signed byte for each component, which is to be multiplied by it. The
// greatest component is ±127: what is lost moves a cosine by less than .001 in some hundred
// dimensions.
func Quantize(v []float32) ([]byte, error) {
	unit, err := normal(v)
	if err != nil {
		return nil, err
	}
	most := 0.0
	for _, c := range unit {
		most = max(most, math.Abs(c))
	}
	kept, square := make([]byte, scaleBytes, scaleBytes+len(unit)), 0.0
	for _, c := range unit {
		n := math.Round(c / most * mostComponent)
		kept, square = append(kept, byte(int8(n))), square+n*n
	}
	binary.LittleEndian.PutUint32(kept, math.Float32bits(float32(1/math.Sqrt(square))))
	return kept, nil
}

// Valid tells whether kept is what Quantize returns of a vector of so many dimensions.
func Valid(kept []byte, dimensions int) bool {
	if dimensions <= 0 || len(kept) != scaleBytes+dimensions {
		return false
	}
	s := float64(scaleOf(kept))
	return s > 0 && s <= 1 // one component at least is 127; not NaN
}

// Dimensions returns the number of components of a kept vector.
func Dimensions(kept []byte) int { return len(kept) - scaleBytes }

// Components returns the vector that was kept.
func Components(kept []byte) []float32 {
	v, scale := make([]float32, Dimensions(kept)), scaleOf(kept)
	for i, c := range kept[scaleBytes:] {
		v[i] = scale * float32(int8(c))
	}
	return v
}

func scaleOf(kept []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(kept)) }

// normal returns v at length 1.
func normal(v []float32) ([]float64, error) {
	most := 0.0
	for i, c := range v {
		if math.IsNaN(float64(c)) || math.IsInf(float64(c), 0) {
			return nil, fmt.Errorf("%w: component %d is %v", ErrVector, i, c)
		}
		most = max(most, math.Abs(float64(c)))
	}
	if most == 0 {
		return nil, fmt.Errorf("%w: %d components, all zero", ErrVector, len(v))
	}
	square := 0.0
	for _, c := range v {
		square += float64(c) / most * (float64(c) / most) // neither too large nor too small for a float64
	}
	length := most * math.Sqrt(square)
	unit := make([]float64, len(v))
	for i, c := range v {
		unit[i] = float64(c) / length
	}
	return unit, nil
}
