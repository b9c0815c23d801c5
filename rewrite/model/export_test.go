package model

// ValueOf returns the Value of samples given as counted and billed tokens.
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

// Near tells whether v may stay in force if the samples say now.
func Near(v, now CalibrationValue) bool { return v.closeTo(now) }
