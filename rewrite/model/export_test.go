package model

// ValueOf returns the value for samples given as counted and billed tokens.
func ValueOf(counted int, billed ...int) CalibrationValue {
	samples := make([]sample, len(billed))
	for i, b := range billed {
		samples[i] = sample{counted, b}
	}
	return valueOf(samples)
}

// Encode encodes samples given as counted, billed, counted, billed…
func Encode(v CalibrationValue, numbers ...int) []byte {
	var samples []sample
	for i := 0; i < len(numbers); i += 2 {
		samples = append(samples, sample{numbers[i], numbers[i+1]})
	}
	return encode(v, samples)
}

// Near reports whether v may stay current if the samples now yield the value now.
func Near(v, now CalibrationValue) bool { return v.closeTo(now) }
