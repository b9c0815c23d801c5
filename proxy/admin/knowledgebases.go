package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/text/unicode/norm"
)

// A Base describes a knowledge base to those who manage it. It is sent in this form.
type Base struct {
	ID         string   `json:"id"`
	Object     string   `json:"object"` // "knowledge"
	Engine     string   `json:"engine"`
	Status     Status   `json:"status"`
	Reason     string   `json:"reason,omitempty"` // why it is partial or failed
	Documents  int      `json:"documents"`
	Chunks     int      `json:"chunks"`
	Bytes      int64    `json:"bytes"`      // of their texts
	Generation string   `json:"generation"` // "" while there is nothing to search
	ChangedAt  *int64   `json:"changed_at"` // when documents last changed; null for never
	Configured bool     `json:"configured"` // it is in the configuration
	Path       string   `json:"path,omitempty"`
	Rules      string   `json:"rules,omitempty"` // a digest of the rules by which the folder is read
	Include    []string `json:"include,omitempty"`
	Exclude    []string `json:"exclude,omitempty"`
	Ingest     *Ingest  `json:"ingest"` // null without a folder

	Embeddings *Embeddings `json:"embeddings,omitempty"` // of a base that is embedded
}

// A Status is the state of a base, from a closed list.
type Status string

// The states.
const (
	StatusReady     Status = "ready"
	StatusIndexing  Status = "indexing"  // it cannot be searched yet
	StatusIngesting Status = "ingesting" // its folder is being read; searches find what it held before
	StatusPartial   Status = "partial"   // its folder was not read to the end, and is not being read now
	StatusFailed    Status = "failed"    // the last reading failed, or the remote store does not answer
)

// Embeddings are how far the chunks of a base are embedded.
type Embeddings struct {
	Model    string `json:"model"`
	Embedded int    `json:"embedded"` // chunks that are searched by meaning too
	Chunks   int    `json:"chunks"`
	Running  bool   `json:"running,omitempty"` // others are being embedded
	Refused  int    `json:"refused,omitempty"` // by the service: they are found by words alone
	Error    string `json:"error,omitempty"`   // of the last attempt

	// DenseWeight is what vectors were measured to weigh beside words where a policy has no weight
	// of its own; null before.
	DenseWeight *float64 `json:"dense_weight"`
}

// An Ingest is the progress of reading a folder, and the result of the last reading.
type Ingest struct {
	Runs    int     `json:"runs"` // readings that have ended
	Running bool    `json:"running"`
	Done    int     `json:"done"`  // files read so far
	Files   int     `json:"files"` // files to read in all
	Chunks  int     `json:"chunks"`
	BeganAt *int64  `json:"began_at"` // null before the first
	TookMS  float64 `json:"took_ms"`  // of the running reading so far, or of the last one
	Error   string  `json:"error,omitempty"`
	Report  *Report `json:"report"` // of the last that ended well; null if there is none
}

// A Report is the result of a reading. Its lists are cut to maxReported, unless
// ?report=full asks for all of them.
type Report struct {
	Files            int       `json:"files"` // read
	Chunks           int       `json:"chunks"`
	New              int       `json:"new"`
	Changed          int       `json:"changed"`
	Unchanged        int       `json:"unchanged"`
	Removed          int       `json:"removed"`
	RemovedDocuments []string  `json:"removed_documents"`
	SkippedTotal     int       `json:"skipped_total"`
	Skipped          []Skipped `json:"skipped"`
	Notes            []Note    `json:"notes"`

	SkippedKinds []SkippedKind `json:"skipped_kinds"` // all of SkippedTotal, by what can be done about them
	SkippedLines []string      `json:"skipped_lines"` // the same for people
}

// A SkippedKind counts files that were not read for one reason.
type SkippedKind struct {
	Kind  string `json:"kind"`
	Files int    `json:"files"`
	What  string `json:"what"`           // "PDF scanned"
	Why   string `json:"why,omitempty"`  // "no text layer"
	Cure  string `json:"cure,omitempty"` // "run OCR first, e.g. ocrmypdf"
	First string `json:"first"`          // path of the first
}

// A Note says which part of a document was left out when it was read.
type Note struct {
	Document string `json:"doc_id"`
	Reason   string `json:"reason"`
}

// A Skipped is a file or folder that was not read.
type Skipped struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// maxReported is how many files each list of a report names.
const maxReported = 100

// shortened returns b with its report's lists cut to maxReported.
func (b Base) shortened() Base {
	if b.Ingest == nil || b.Ingest.Report == nil {
		return b
	}
	ingest, report := *b.Ingest, *b.Ingest.Report
	report.Skipped = report.Skipped[:min(len(report.Skipped), maxReported)]
	report.SkippedKinds = report.SkippedKinds[:min(len(report.SkippedKinds), maxReported)]
	report.Notes = report.Notes[:min(len(report.Notes), maxReported)]
	report.RemovedDocuments = report.RemovedDocuments[:min(len(report.RemovedDocuments), maxReported)]
	ingest.Report, b.Ingest = &report, &ingest
	return b
}

// baseID matches the ids that a base may have.
var baseID = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// checkBaseID refuses an invalid id. If only letter case or width is wrong, the error
// names the valid id, as people would take the two for the same.
func checkBaseID(id string) error {
	if baseID.MatchString(id) {
		return nil
	}
	if folded := strings.ToLower(norm.NFKC.String(id)); baseID.MatchString(folded) {
		return optionError("id", "id is %q; write it as %q.", id, folded)
	}
	return optionError("id", "id is %q; it is 1 to 64 of a-z, 0-9, _ and -.", id)
}

func (m management) listBases(ctx context.Context, rc *fasthttp.RequestCtx) error {
	bases, err := m.Bases(ctx)
	if err != nil {
		return err
	}
	return answerList(rc, len(bases), func(i int) string { return bases[i].ID }, func(i int) Base { return bases[i].shortened() })
}

// createBase makes a base unless it is there already.
func (m management) createBase(ctx context.Context, rc *fasthttp.RequestCtx) error {
	var asked struct {
		ID string `json:"id"`
	}
	if err := readObject(rc, `a base such as {"id": "handbook"}`, &asked); err != nil {
		return err
	}
	if err := checkBaseID(asked.ID); err != nil {
		return err
	}
	created, err := m.CreateBase(ctx, asked.ID)
	if err != nil {
		return err
	}
	b, err := m.Base(ctx, asked.ID)
	if err != nil {
		return err
	}
	status := fasthttp.StatusOK
	if created {
		status = fasthttp.StatusCreated
	}
	return writeJSON(rc, status, b.shortened())
}

func (m management) showBase(ctx context.Context, rc *fasthttp.RequestCtx) error {
	b, err := m.Base(ctx, m.base)
	if err != nil {
		return err
	}
	switch report := string(rc.QueryArgs().Peek("report")); report {
	case "":
		b = b.shortened()
	case "full":
	default:
		return optionError("report", "report is %q; it is full, or left out.", report)
	}
	return writeJSON(rc, fasthttp.StatusOK, b)
}

// A deletion is the answer to a DELETE.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // that of what was deleted, with ".deleted"
	Deleted bool   `json:"deleted"`
}

func (m management) deleteBase(ctx context.Context, rc *fasthttp.RequestCtx) error {
	if err := m.DeleteBase(ctx, m.base); err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusOK, deletion{m.base, "knowledge.deleted", true})
}

// An Accepted is the answer when a reading was begun.
type Accepted struct {
	ID     string `json:"id"`
	Object string `json:"object"` // "knowledge.ingest"
	Run    int    `json:"run"`    // the reading is done once the base's ingest.runs has reached it
}

// ingest begins to read the base's own folder. The caller can give no path, as callers
// must not choose what is read from this machine's disk.
func (m management) ingest(ctx context.Context, rc *fasthttp.RequestCtx) error {
	asked, err := readIngest(rc)
	if err != nil {
		return err
	}
	run, err := m.Ingest(ctx, m.base, asked.AcceptDeletions)
	if err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusAccepted, Accepted{m.base, "knowledge.ingest", run})
}

// An AskedIngest is the body of a request to read a folder.
type AskedIngest struct {
	AcceptDeletions bool `json:"accept_deletions,omitempty"` // delete documents even if most files of the folder are gone
}

func readIngest(rc *fasthttp.RequestCtx) (asked AskedIngest, err error) {
	b, err := body(rc)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return asked, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if d.Decode(&asked) != nil || d.More() {
		return asked, optionError("", `ingest takes {"accept_deletions": true} or no body: what is read is the folder that the base is kept with.`)
	}
	return asked, nil
}

// Unix returns a time in the form of the answers: Unix seconds, nil for the zero time.
func Unix(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	return &seconds
}
