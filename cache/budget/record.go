package budget

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The first byte of a record of the journal. A record holds a call and its time; replaying the
// calls restores the state, because an account is deterministic. Later versions read these
// records, so never change the meaning of a letter.
const (
	recordReserve  = 'r'
	recordSettle   = 's'
	recordRenew    = 'n'
	recordUsage    = 'u'
	recordSnapshot = 'a' // a complete account, replacing what was known about it
)

func reserveRecord(b []byte, now int64, r Reservation) []byte {
	b = appendText(append(b, recordReserve), r.Tenant, r.ID, string(r.Kind))
	b = appendInts(b, now, r.Lease.Milliseconds())
	b = appendInts(b, r.Estimate.Requests, r.Estimate.Tokens, r.Estimate.Injected, r.Estimate.Money)
	return appendInts(b, r.Limits[:]...)
}

func settleRecord(b []byte, s Settlement) []byte {
	b = appendText(append(b, recordSettle), s.Tenant, s.ID)
	return appendInts(b, s.Actual.Requests, s.Actual.Tokens, s.Actual.Injected, s.Actual.Money)
}

func renewRecord(b []byte, now int64, t Ticket, lease time.Duration) []byte {
	return appendInts(appendText(append(b, recordRenew), t.Tenant, t.ID), now, lease.Milliseconds())
}

func usageRecord(b []byte, now int64, tenant string) []byte {
	return appendInts(appendText(append(b, recordUsage), tenant), now)
}

func snapshotRecord(b []byte, tenant string, a *account) ([]byte, error) {
	state, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	return append(appendText(append(b, recordSnapshot), tenant), state...), nil
}

func appendText(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

func appendInts(b []byte, ints ...int64) []byte {
	for _, n := range ints {
		b = binary.AppendVarint(b, n)
	}
	return b
}

var errRecord = errors.New("not a record")

// replay applies a record to accounts.
func replay(accounts map[string]*account, record []byte) error {
	if len(record) == 0 {
		return errRecord
	}
	d := decoder{b: record[1:]}
	tenant := d.text()
	a := accounts[tenant]
	if a == nil {
		a = &account{}
		accounts[tenant] = a
	}
	switch record[0] {
	case recordReserve:
		a.replayReserve(&d, tenant)
	case recordSettle:
		id, actual := d.text(), d.amount()
		a.settleID(id, actual)
	case recordRenew:
		id, now, lease := d.text(), d.int(), d.int()
		a.renew(now, id, now+lease)
	case recordUsage:
		a.usage(d.int(), Limits{})
	case recordSnapshot:
		*a = account{}
		if err := json.Unmarshal(d.b, a); err != nil {
			return fmt.Errorf("%w: %w", errRecord, err)
		}
		a.restore()
		d.b = nil
	default:
		return errRecord
	}
	if d.bad || len(d.b) > 0 {
		return errRecord
	}
	return nil
}

func (a *account) replayReserve(d *decoder, tenant string) {
	r := Reservation{Tenant: tenant, ID: d.text(), Kind: Kind(d.text())}
	now := d.int()
	r.Lease = milliseconds(d.int())
	r.Estimate = d.amount()
	for w := range r.Limits {
		r.Limits[w] = d.int()
	}
	if d.bad || r.Check() != nil {
		d.bad = true
		return
	}
	_, _, _ = a.reserve(now, r) // it may be a refusal that expired leases
}

// A decoder reads the fields of a record. After an error it returns only zero values.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > uint64(len(d.b)-size) {
		d.bad, d.b = true, nil
		return ""
	}
	text := string(d.b[size : size+int(n)])
	d.b = d.b[size+int(n):]
	return text
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) amount() Amount {
	return Amount{Requests: d.int(), Tokens: d.int(), Injected: d.int(), Money: d.int()}
}
