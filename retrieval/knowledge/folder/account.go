package folder

import "sync"

// Progress says how far the reading of a base has come.
type Progress struct {
	Knowledge string
	Files     int // to read
	Done      int // of them
	Chunks    int // cut so far
}

// An Account keeps the report and the progress of a reading in which several goroutines
// take part. Report is the caller's again when they have ended.
type Account struct {
	Report Report

	mu       sync.Mutex // guards Report and what follows
	progress Progress
	tell     func(Progress) // nil for nobody
}

// NewAccount returns the account of reading some files for a base.
func NewAccount(base string, files int, tell func(Progress)) *Account {
	return &Account{progress: Progress{Knowledge: base, Files: files}, tell: tell}
}

// Skip adds something that was not read to the report.
func (a *Account) Skip(s Skip) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Report.Skipped = append(a.Report.Skipped, s)
}

// Note adds what was left out of a document.
func (a *Account) Note(notes ...Note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Report.Notes = append(a.Report.Notes, notes...)
}

// File counts one file as done. skip, unless nil, says what of it was not read; read tells
// whether anything was.
func (a *Account) File(chunks, bytes int, skip *Skip, read bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if skip != nil {
		a.Report.Skipped = append(a.Report.Skipped, *skip)
	}
	if read {
		a.Report.Files++
		a.Report.Bytes += bytes
	}
	a.progress.Done++
	a.progress.Chunks += chunks
	if a.tell != nil {
		a.tell(a.progress)
	}
}
