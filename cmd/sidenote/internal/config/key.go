package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// A Digest is the SHA-256 of an API key, in hex.
type Digest [32]byte

// UnmarshalText reads 64 hex digits. Its error does not repeat the value, which may be the key
// itself by mistake.
func (d *Digest) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(d[:], text[:min(len(text), 64)]); err != nil || n != len(d) || len(text) != 64 {
		return errors.New("is not a SHA-256 in 64 hex digits; `sidenote key hash` makes one of a key")
	}
	return nil
}

// Shown returns the first hex digits of the digest, enough to tell keys apart; "" if it is not set.
func (d Digest) Shown() string {
	if d == (Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:4])
}

// A Date is the first or last day (UTC) on which something is valid.
type Date struct{ time.Time }

// UnmarshalText parses a date such as 2027-01-31.
func (d *Date) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil || t.Year() < 2000 {
		return fmt.Errorf("%q is not a date; write it as in 2027-01-31", text)
	}
	d.Time = t
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Date) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return d.AppendFormat(nil, time.DateOnly), nil
}

// End returns the time at which the last day is over; zero without a date.
func (d Date) End() time.Time {
	if d.IsZero() {
		return time.Time{}
	}
	return d.AddDate(0, 0, 1)
}
