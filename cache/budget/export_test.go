package budget

import "os"

// SmallSegments makes the journal start a new segment after n bytes.
func (m *Memory) SmallSegments(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal.enough = n
}

// FailWrites makes all writes to the file fail until the returned function is called.
func (m *Memory) FailWrites() (end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	good := m.journal.file
	bad, err := os.Open(good.Name()) // read-only
	if err != nil {
		return nil, err
	}
	m.journal.file = bad
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.journal.file = good
		_ = bad.Close()
	}, nil
}

// Accounts returns the number of accounts.
func (m *Memory) Accounts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.accounts)
}

// FailWrites calls FailWrites of the Memory; the folder must be open.
func (f *File) FailWrites() (end func(), err error) { return f.memory.Load().FailWrites() }
