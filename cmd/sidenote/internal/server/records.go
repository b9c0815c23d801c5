package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/record"
)

// openRecords returns the recorder of a process that serves. It makes no files before a policy
// records; without a state folder it returns nil.
func openRecords(cfg *config.Config, m Monitor) *record.Recorder {
	if cfg.State.Path == config.StateMemory {
		if len(config.Records(cfg)) > 0 {
			m.Log(slog.LevelWarn, "records: nothing is recorded, as there is no state folder; name one by --state")
		}
		return nil
	}
	r := record.New(cfg.RecordsFolder(), record.Options{Count: m.Metrics.Recorded, Log: m.Changed, Panicked: m.Panicked})
	r.Configure(config.Records(cfg))
	return r
}

// recordsWait is how long the end of a process waits for a slow disk to take the last records.
const recordsWait = 5 * time.Second

func (e *Engine) closeRecords() error {
	ctx, cancel := context.WithTimeout(context.Background(), recordsWait)
	defer cancel()
	return e.records.Close(ctx)
}

// OpenRecords opens what was recorded, for reading.
func OpenRecords(cfg *config.Config) (*record.Reader, error) {
	if cfg.State.Path == config.StateMemory {
		return nil, errors.New("records: there is no state folder; name one by --state")
	}
	return record.Open(cfg.RecordsFolder(), config.RecordKeys(cfg))
}

// forgetRecords removes the records with one of the documents of a base.
func (m *manager) forgetRecords(base string, ids []string) (record.Forgotten, error) {
	if m.records != nil {
		return m.records.Forget(base, ids)
	}
	return record.Forget(m.cfg.RecordsFolder(), config.Records(m.cfg), base, ids)
}
