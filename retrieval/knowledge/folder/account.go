package folder

import "sync"

// Progress is the progress of reading a base.
type Progress struct {
	Knowledge string
	Files     int // total number of files
	Done      int // files that are done
	Chunks    int // chunks made so far
}

// An Account collects the report and progress of several goroutines that read a base. Report may
// be accessed directly only when they have ended.
type Account struct {
	Report Report

	mu       sync.Mutex // guards Report and the fields below
	progress Progress
	tell     func(Progress) // may be nil
}

// NewAccount returns an account for reading a number of files of a base.
func NewAccount(base string, files int, tell func(Progress)) *Account {
	return &Account{progress: Progress{Knowledge: base, Files: files}, tell: tell}
}

// Skip adds something that was not read to the report.
func (a *Account) Skip(s Skip) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Report.Skipped = append(a.Report.Skipped, s)
}

// Note adds notes on what was left out of a document.
func (a *Account) Note(notes ...Note) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Report.Notes = append(a.Report.Notes, notes...)
}

// File counts one file as done. skip, unless nil, describes what was not read; read reports
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
