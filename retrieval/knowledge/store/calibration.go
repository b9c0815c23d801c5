package store

import (
	"context"
	"database/sql"
)

const (
	selectCalibration = "SELECT state, crc FROM calibration WHERE base = ?"
	upsertCalibration = "INSERT INTO calibration VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, crc = excluded.crc"
	selectVerdicts    = "SELECT state, crc FROM verdicts WHERE base = ?"
	upsertVerdicts    = "INSERT INTO verdicts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, crc = excluded.crc"
)

// Calibration returns what SetCalibration stored for a base; nil if there is nothing or it is
// damaged. The store does not interpret it; losing it costs only time.
func (s *Store) Calibration(ctx context.Context, base string) (state []byte, err error) {
	return s.measured(ctx, "read the calibration of", base, selectCalibration)
}

// SetCalibration stores a calibration for a base; it is deleted with the base. The version does
// not change, because nothing that a follower shows has changed.
func (s *Store) SetCalibration(ctx context.Context, base string, state []byte) error {
	return s.setMeasured(ctx, "keep the calibration of", base, upsertCalibration, "keep calibration", state)
}

// Verdicts is Calibration for what SetVerdicts stored.
func (s *Store) Verdicts(ctx context.Context, base string) (state []byte, err error) {
	return s.measured(ctx, "read the verdicts on twins of", base, selectVerdicts)
}

// SetVerdicts is SetCalibration for the verdicts on pages in two formats.
func (s *Store) SetVerdicts(ctx context.Context, base string, state []byte) error {
	return s.setMeasured(ctx, "keep the verdicts on twins of", base, upsertVerdicts, "keep verdicts", state)
}

func (s *Store) measured(ctx context.Context, doing, base, statement string) (state []byte, err error) {
	err = s.readBase(ctx, doing, base, func(tx *sql.Tx, b baseRow) error {
		list, err := query(ctx, tx, func(r *sql.Rows) (state []byte, err error) {
			var crc int64
			if err := r.Scan(&state, &crc); err != nil || blockChecksum(b.row, 0, state) != crc {
				return nil, err
			}
			return state, nil
		}, statement, b.row)
		if len(list) > 0 {
			state = list[0]
		}
		return err
	})
	return state, err
}

func (s *Store) setMeasured(ctx context.Context, doing, base, statement, step string, state []byte) error {
	return s.writeBase(ctx, doing, base, func(c *change, b *baseRow) error {
		c.s.step(step)
		_, err := c.tx.ExecContext(c.ctx, statement, b.row, state, blockChecksum(b.row, 0, state))
		return err
	})
}
