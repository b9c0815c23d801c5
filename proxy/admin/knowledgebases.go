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

// A Base is a knowledge base as it is managed. It goes over the wire as it is.
type Base struct {
	ID         string   `json:"id"`
	Object     string   `json:"object"` // "knowledge"
	Engine     string   `json:"engine"`
	Status     Status   `json:"status"`
	Reason     string   `json:"reason,omitempty"` // why it is partial or failed
	Documents  int      `json:"documents"`
	Chunks     int      `json:"chunks"`
	Bytes      int64    `json:"bytes"`      // of their texts
	Generation string   `json:"generation"` // "" while there is nothing to answer from
	ChangedAt  *int64   `json:"changed_at"` // when documents last changed; null for never
	Configured bool     `json:"configured"` // the configuration names it
	Path       string   `json:"path,omitempty"`
	Rules      string   `json:"rules,omitempty"` // a digest of all by which the folder is read
	Include    []string `json:"include,omitempty"`
	Exclude    []string `json:"exclude,omitempty"`
	Ingest     *Ingest  `json:"ingest"` // null without a folder
}

// A Status says in a word how a base is. It is a closed list.
type Status string

// The states.
const (
	StatusReady     Status = "ready"
	StatusIndexing  Status = "indexing"  // nothing is answered yet
	StatusIngesting Status = "ingesting" // its folder is being read; it answers from what it held
	StatusPartial   Status = "partial"   // its folder was not read to its end, and nobody is reading it
	StatusFailed    Status = "failed"    // the last reading failed, or the store elsewhere does not answer
)

// An Ingest is how far the reading of a folder has come, and what the last came to.
type Ingest struct {
	Runs    int     `json:"runs"` // that have ended
	Running bool    `json:"running"`
	Done    int     `json:"done"`  // files
	Files   int     `json:"files"` // to read
	Chunks  int     `json:"chunks"`
	BeganAt *int64  `json:"began_at"` // null before the first
	TookMS  float64 `json:"took_ms"`  // so far, or in all
	Error   string  `json:"error,omitempty"`
	Report  *Report `json:"report"` // of the last that ended well; null if there is none
}

// A Report says what a reading came to. Lists are cut to maxReported unless the whole
// is asked for by ?report=full.
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
}

// A Note says what of a document that was read was left out.
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

// cut shortens the lists of the report.
func (b Base) cut() Base {
	if b.Ingest == nil || b.Ingest.Report == nil {
		return b
	}
	ingest, report := *b.Ingest, *b.Ingest.Report
	report.Skipped = report.Skipped[:min(len(report.Skipped), maxReported)]
	report.Notes = report.Notes[:min(len(report.Notes), maxReported)]
	report.RemovedDocuments = report.RemovedDocuments[:min(len(report.RemovedDocuments), maxReported)]
	ingest.Report, b.Ingest = &report, &ingest
	return b
}

// baseID is what the id of a base looks like.
var baseID = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// checkBaseID refuses what is no id. One that differs by case or width only would be
// taken for the same by people, so the one to write is named.
func checkBaseID(id string) error {
	if baseID.MatchString(id) {
		return nil
	}
	if folded := strings.ToLower(norm.NFKC.String(id)); baseID.MatchString(folded) {
		return option("id", "id is %q; write it as %q.", id, folded)
	}
	return option("id", "id is %q; it is 1 to 64 of a-z, 0-9, _ and -.", id)
}

func (h *Handler) listBases(rc *fasthttp.RequestCtx) error {
	if err := untenanted(rc); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), manageWait)
	defer cancel()
	bases, err := h.Keeper.Bases(ctx)
	if err != nil {
		return err
	}
	return answerList(rc, len(bases), func(i int) string { return bases[i].ID }, func(i int) Base { return bases[i].cut() })
}

// createBase makes a base, once.
func (h *Handler) createBase(rc *fasthttp.RequestCtx) error {
	var asked struct {
		ID string `json:"id"`
	}
	if err := readObject(rc, `a base such as {"id": "handbook"}`, &asked); err != nil {
		return err
	}
	if err := checkBaseID(asked.ID); err != nil {
		return err
	}
	return h.withBase(rc, asked.ID, func(ctx context.Context, rc *fasthttp.RequestCtx, id string) error {
		created, err := h.Keeper.CreateBase(ctx, id)
		if err != nil {
			return err
		}
		b, err := h.Keeper.Base(ctx, id)
		if err != nil {
			return err
		}
		status := fasthttp.StatusOK
		if created {
			status = fasthttp.StatusCreated
		}
		return answer(rc, status, b.cut())
	})
}

func (h *Handler) showBase(ctx context.Context, rc *fasthttp.RequestCtx, id string) error {
	b, err := h.Keeper.Base(ctx, id)
	if err != nil {
		return err
	}
	switch report := string(rc.QueryArgs().Peek("report")); report {
	case "":
		b = b.cut()
	case "full":
	default:
		return option("report", "report is %q; it is full, or left out.", report)
	}
	return answer(rc, fasthttp.StatusOK, b)
}

// A deletion is what is left of something.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // of what it was, with ".deleted"
	Deleted bool   `json:"deleted"`
}

func (h *Handler) deleteBase(ctx context.Context, rc *fasthttp.RequestCtx, id string) error {
	if err := h.Keeper.DeleteBase(ctx, id); err != nil {
		return err
	}
	return answer(rc, fasthttp.StatusOK, deletion{id, "knowledge.deleted", true})
}

// An Accepted is the answer to a reading that was begun.
type Accepted struct {
	ID     string `json:"id"`
	Object string `json:"object"` // "knowledge.ingest"
	Run    int    `json:"run"`    // done once ingest.runs of the base has come to it
}

// ingest begins to read the base's own folder. No path can be given: whoever calls
// must not choose what is read from this machine's disk.
func (h *Handler) ingest(ctx context.Context, rc *fasthttp.RequestCtx, id string) error {
	asked, err := readIngest(rc)
	if err != nil {
		return err
	}
	run, err := h.Keeper.Ingest(ctx, id, asked.AcceptDeletions)
	if err != nil {
		return err
	}
	return answer(rc, fasthttp.StatusAccepted, Accepted{id, "knowledge.ingest", run})
}

// An AskedIngest is what the reading of a folder may be asked for with.
type AskedIngest struct {
	AcceptDeletions bool `json:"accept_deletions,omitempty"` // let documents go where most files of the folder are gone
}

func readIngest(rc *fasthttp.RequestCtx) (asked AskedIngest, err error) {
	b, err := body(rc)
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return asked, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if d.Decode(&asked) != nil || d.More() {
		return asked, option("", `ingest takes {"accept_deletions": true} or no body: what is read is the folder that the base is kept with.`)
	}
	return asked, nil
}

// Unix returns a time as the wire has it; nil for the zero one.
func Unix(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	return &seconds
}
