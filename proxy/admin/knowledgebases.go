package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/text/unicode/norm"

	"sidenote/proxy/explain"
)

// baseID matches the valid ids of bases.
var baseID = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// checkBaseID refuses an invalid id. If only letter case or width is wrong, the error names the
// valid id, since people would take the two for the same.
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
	bases = slices.DeleteFunc(bases, func(b explain.Base) bool { return !m.by.sees(b.ID) })
	return answerList(rc, len(bases), func(i int) string { return bases[i].ID }, func(i int) explain.Base { return bases[i].Shortened() })
}

// createBase creates a base unless it exists already.
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
	return writeJSON(rc, status, b.Shortened())
}

func (m management) showBase(ctx context.Context, rc *fasthttp.RequestCtx) error {
	b, err := m.Base(ctx, m.base)
	if err != nil {
		return err
	}
	switch report := string(rc.QueryArgs().Peek("report")); report {
	case "":
		b = b.Shortened()
	case "full":
	default:
		return optionError("report", "report is %q; it is full, or left out.", report)
	}
	return writeJSON(rc, fasthttp.StatusOK, b)
}

// A deletion is the answer to a DELETE.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // the object of what was deleted, followed by ".deleted"
	Deleted bool   `json:"deleted"`
}

func (m management) deleteBase(ctx context.Context, rc *fasthttp.RequestCtx) error {
	if err := m.DeleteBase(ctx, m.base); err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusOK, deletion{m.base, "knowledge.deleted", true})
}

// An Accepted is the answer when an ingest run was started.
type Accepted struct {
	ID     string `json:"id"`
	Object string `json:"object"` // "knowledge.ingest"
	Run    int    `json:"run"`    // complete once ingest.runs of the base has reached this number
}

// ingest starts reading the configured folder of a base. The request cannot name a path, since
// callers must not choose what is read from this machine's disk.
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
	AcceptDeletions bool `json:"accept_deletions,omitempty"` // allow deleting documents even if most files of the folder are gone
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

// Unix returns a time in Unix seconds, as used in answers; nil for the zero time.
func Unix(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	return &seconds
}
