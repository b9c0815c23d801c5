package budget

import "os"

// SmallSegments makes the journal begin a new segment after so many bytes.
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
	bad, err := os.Open(good.Name()) // for reading only
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

// Accounts returns how many accounts are kept.
func (m *Memory) Accounts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.accounts)
}

// FailWrites is that of the Memory, which the folder must have.
func (f *File) FailWrites() (end func(), err error) { return f.memory.Load().FailWrites() }
