// Package audit writes who changed what: a line of JSON for each event, before the answer to the
// request that caused it. No line is left out because it repeats another.
package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// An Action is what was done, or tried.
type Action string

// The actions.
const (
	Put        Action = "put"         // write documents
	Upload     Action = "upload"      // write the documents of a file
	Delete     Action = "delete"      // delete a document
	Forget     Action = "forget"      // remove documents with all that is left of them
	CreateBase Action = "create_base" // create a base
	DeleteBase Action = "delete_base" // delete a base
	Ingest     Action = "ingest"      // read the folder of a base, or begin to
	Mode       Action = "mode"        // switch the mode of a tenant or of all
	Reload     Action = "reload"      // read the configuration again
	Token      Action = "token"       // use a token that is unknown, has expired or does not allow the request
	Explain    Action = "explain"     // read the texts of a request
	Restore    Action = "restore"     // write a backup to an empty state folder
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{Put, Upload, Delete, Forget, CreateBase, DeleteBase, Ingest, Mode, Reload, Token, Explain, Restore}
}

// A Result is how an action ended.
type Result string

// The results.
const (
	OK      Result = "ok"
	Refused Result = "refused" // for a reason that the caller can change
	Failed  Result = "failed"  // for another reason
)

// An Event is an action with its result.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"msg"` // "audit", which tells the line from others of the log
	Action Action    `json:"action"`
	Object string    `json:"object,omitempty"` // a base, tenant or request, or a method and a path
	// Documents are the ids of documents of the base Object.
	Documents []string `json:"documents,omitempty"`
	Result    Result   `json:"result"`
	Reason    string   `json:"reason,omitempty"`     // why it is not OK
	Token     string   `json:"token,omitempty"`      // name of the token; "" if none or an unknown one was sent
	By        string   `json:"by,omitempty"`         // what caused it, if not a request with a token
	Address   string   `json:"address,omitempty"`    // of the client
	Request   string   `json:"request_id,omitempty"` // header Sidenote-Id of the answer
	Changes   []Change `json:"changes,omitempty"`    // of settings
	More      int      `json:"more_changes,omitempty"`
}

// A Change is a setting with its old and its new value, "" for none. A secret is shown by where it
// is read from and the first 8 hex digits of its SHA-256.
type Change struct {
	Key       string `json:"key"`
	Old       string `json:"old"`
	New       string `json:"new"`
	OldSHA256 string `json:"old_sha256,omitempty"`
	NewSHA256 string `json:"new_sha256,omitempty"`
	Restart   bool   `json:"restart,omitempty"` // the old value is used until a restart
}

// Limits of a line.
const (
	maxDocuments = 1000 // more are in further lines
	maxChanges   = 1000
	maxText      = 512 // bytes of an object, a reason or a value
)

// A Log writes events. The nil Log drops them. Its fields must not change once it is in use.
type Log struct {
	Out    io.Writer // gets each line in one call; nil: events are only counted
	By     string    // of events without Token and By
	Count  func(Action, Result)
	Failed func(err error, line []byte) // told of a line that was not written; may be nil

	mu   sync.Mutex
	err  error
	lost int64
}

// Record writes an event. If the line cannot be written, Problem says so and Failed is called.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	if l.Count != nil {
		l.Count(e.Action, e.Result)
	}
	if l.Out == nil {
		return
	}
	all := e.Documents
	for e.Documents = all[:min(len(all), maxDocuments)]; ; e.Documents = all[:min(len(all), maxDocuments)] {
		l.write(&e)
		if all = all[len(e.Documents):]; len(all) == 0 {
			return
		}
	}
}

func (l *Log) write(e *Event) {
	e.Kind = "audit"
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	if e.Token == "" && e.By == "" {
		e.By = l.By
	}
	e.Object, e.Reason = short(e.Object), short(e.Reason)
	if more := len(e.Changes) - maxChanges; more > 0 {
		e.Changes, e.More = e.Changes[:maxChanges], more
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic("BUG: an event of the audit: " + err.Error()) // it has only texts and numbers
	}
	line = append(line, '\n')
	l.mu.Lock()
	_, err = l.Out.Write(line)
	if l.err = err; err != nil {
		l.lost++
	}
	l.mu.Unlock()
	if err != nil && l.Failed != nil {
		l.Failed(err, line)
	}
}

// Open opens the file that lines are written to, so that a mistake is known before the first event.
func (l *Log) Open() error {
	file, ok := l.Out.(*File)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = file.Open()
	return l.err
}

// Close closes the file that lines are written to.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	if file, ok := l.Out.(*File); ok {
		return file.Close()
	}
	return nil
}

// short returns text, cut to maxText bytes if it is longer.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + "…" // encoding/json replaces half a character
}

// NewChange returns a change with its values cut if they are long.
func NewChange(key, before, after string) Change {
	return Change{Key: key, Old: short(before), New: short(after)}
}

// Problem says why the last line was not written; "" if it was.
func (l *Log) Problem() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return ""
	}
	return fmt.Sprintf("audit: %v; changes are made nevertheless, and their lines go to the log", l.err)
}

// Lost returns the number of lines that were not written.
func (l *Log) Lost() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
