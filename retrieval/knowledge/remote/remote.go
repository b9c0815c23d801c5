// Package remote mirrors the documents of a git repository, a site or an S3 bucket in a local folder,
// which is then read like any other. It knows nothing of chunks and bases.
//
// What a source sends is untrusted: the time, the bytes and the number of files are bounded, and
// no connection is made to a private address unless the options allow it. What could not be
// fetched stays as it was, and a file is removed only if the source said in full what it has, or
// that this file is gone.
package remote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Source is a place that documents are fetched from.
type Source interface {
	// Fetch makes the mirror the same as the source. It returns an error if the source could not be
	// listed, so that nothing or only a part of it is known; the report then says what was done
	// nevertheless. Files that failed are in the report. progress, which may be nil, is not
	// called concurrently.
	Fetch(ctx context.Context, m *Mirror, progress func(Progress)) (Report, error)
	// String identifies the source for people, without credentials: "git https://host/repo main docs".
	String() string
}

// Limits bound one source. Zero values are the defaults.
type Limits struct {
	Files int           // most files; 100,000
	Bytes int64         // most bytes of all files, and most bytes received in one fetch; 2 GiB
	File  int64         // most bytes of one file; larger ones are left out; 64 MiB
	Idle  time.Duration // longest time without a byte; 30 s
	Total time.Duration // longest fetch; 1 h
}

func (l Limits) withDefaults() Limits {
	set := func(n *int64, fallback int64) {
		if *n <= 0 {
			*n = fallback
		}
	}
	files := int64(l.Files)
	set(&files, 100_000)
	l.Files = int(files)
	set(&l.Bytes, 2<<30)
	set(&l.File, 64<<20)
	set((*int64)(&l.Idle), int64(30*time.Second))
	set((*int64)(&l.Total), int64(time.Hour))
	return l
}

// Progress is the progress of a fetch.
type Progress struct {
	Done  int // files looked at so far
	Files int // files known so far
	Bytes int64
}

// A Report is the outcome of a fetch.
type Report struct {
	Files     int       `json:"files"`     // in the mirror now
	Listed    int       `json:"listed"`    // at the source
	Fetched   int       `json:"fetched"`   // new or changed
	Unchanged int       `json:"unchanged"` // known to be the same, so not fetched
	Removed   int       `json:"removed"`
	Bytes     int64     `json:"bytes"`            // received as files
	Failed    int       `json:"failed"`           // files that stay as they were
	Failures  []Failure `json:"failures"`         // the first maxFailures of them
	Notes     []string  `json:"notes"`            // what was left out, a line each
	Commit    string    `json:"commit,omitempty"` // of git
}

// A Failure is a file that could not be fetched.
type Failure struct {
	Path   string `json:"path"` // or the address of a page
	Reason string `json:"reason"`
}

// maxFailures limits the failures and notes that a report names.
const maxFailures = 100

// fail records that a file could not be fetched.
func (r *Report) fail(path string, err error) {
	if r.Failed++; len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, Failure{Path: path, Reason: reason(err)})
	}
}

// note records what was left out.
func (r *Report) note(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); len(r.Notes) < maxFailures && !slices.Contains(r.Notes, line) {
		r.Notes = append(r.Notes, line)
	}
}

// Problem says what failed: "2 of 812 failed: a.html: status 500; b.html: timeout"; "" if nothing did.
func (r Report) Problem() string {
	if r.Failed == 0 {
		return ""
	}
	line := fmt.Sprintf("%d of %d failed", r.Failed, max(r.Listed, r.Failed))
	sep := ": "
	for _, f := range r.Failures[:min(len(r.Failures), 3)] {
		line += sep + f.Path + ": " + f.Reason
		sep = "; "
	}
	if r.Failed > 3 {
		line += "; …"
	}
	return line
}

// maxReason limits the text of an error, which may quote a server, in bytes.
const maxReason = 300

// reason returns the text of an error in one line of bounded length.
func reason(err error) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// A teller passes on progress at most every tellEvery.
type teller struct {
	Progress
	tell func(Progress)
	last time.Time
}

const tellEvery = 100 * time.Millisecond

func (t *teller) show() {
	if now := time.Now(); t.tell != nil && now.Sub(t.last) >= tellEvery {
		t.last = now
		t.tell(t.Progress)
	}
}

// run runs a fetch: it locks the mirror, bounds the time, and notes the begin and the end.
func run(ctx context.Context, m *Mirror, l Limits, fetch func(ctx context.Context, r *Report) error) (r Report, err error) {
	unlock, err := m.lock()
	if err != nil {
		return r, err
	}
	defer unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, l.Total, fmt.Errorf("it took longer than %s", l.Total))
	defer cancel()
	r.Failures, r.Notes = []Failure{}, []string{}
	if err = m.begin(); err == nil {
		err = fetch(ctx, &r)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return r, cmp.Or(err, m.end(err == nil, &r))
}
