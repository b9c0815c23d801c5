package explain

// A Base describes a knowledge base to those who manage it, and to those who look. It is sent in this form.
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
	Runs    int           `json:"runs"` // readings that have ended
	Running bool          `json:"running"`
	Done    int           `json:"done"`  // files read so far
	Files   int           `json:"files"` // files to read in all
	Chunks  int           `json:"chunks"`
	BeganAt *int64        `json:"began_at"` // null before the first
	TookMS  float64       `json:"took_ms"`  // of the running reading so far, or of the last one
	Error   string        `json:"error,omitempty"`
	Report  *IngestReport `json:"report"` // of the last that ended well; null if there is none
}

// An IngestReport is the result of a reading. Its lists are cut to maxReported by
// Shortened.
type IngestReport struct {
	Files            int          `json:"files"` // read
	Chunks           int          `json:"chunks"`
	New              int          `json:"new"`
	Changed          int          `json:"changed"`
	Unchanged        int          `json:"unchanged"`
	Removed          int          `json:"removed"`
	RemovedDocuments []string     `json:"removed_documents"`
	SkippedTotal     int          `json:"skipped_total"`
	Skipped          []Skipped    `json:"skipped"`
	Notes            []LookupNote `json:"notes"`

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

// A LookupNote says which part of a document was left out when it was read.
type LookupNote struct {
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

// Shortened returns b with its report's lists cut to maxReported.
func (b Base) Shortened() Base {
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
