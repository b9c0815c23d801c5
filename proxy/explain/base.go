package explain

// A Base describes a knowledge base, in the JSON form that is sent to clients.
type Base struct {
	ID         string   `json:"id"`
	Object     string   `json:"object"` // "knowledge"
	Engine     string   `json:"engine"`
	Status     Status   `json:"status"`
	Reason     string   `json:"reason,omitempty"` // why it is partial or failed
	Documents  int      `json:"documents"`
	Chunks     int      `json:"chunks"`
	Bytes      int64    `json:"bytes"`      // total size of the texts
	Generation string   `json:"generation"` // "" while it cannot be searched
	ChangedAt  *int64   `json:"changed_at"` // when documents last changed; null if never
	Configured bool     `json:"configured"` // it is in the configuration
	Path       string   `json:"path,omitempty"`
	Rules      string   `json:"rules,omitempty"` // digest of the rules for reading the folder
	Include    []string `json:"include,omitempty"`
	Exclude    []string `json:"exclude,omitempty"`
	Ingest     *Ingest  `json:"ingest"`           // null without a folder
	Source     *Source  `json:"source,omitempty"` // nil unless it is fetched from elsewhere

	Embeddings *Embeddings `json:"embeddings,omitempty"` // nil if the base is not embedded
}

// A Status is the state of a base, from a closed list.
type Status string

// The states of a base.
const (
	StatusReady     Status = "ready"
	StatusIndexing  Status = "indexing"  // cannot be searched yet
	StatusIngesting Status = "ingesting" // its folder is being read; searches use the previous content
	StatusPartial   Status = "partial"   // its folder was not read completely, and is not being read now
	StatusFailed    Status = "failed"    // the last ingest failed, or the remote store does not answer
)

// Embeddings is the embedding progress of a base.
type Embeddings struct {
	Model    string `json:"model"`
	Embedded int    `json:"embedded"` // chunks that have a vector
	Chunks   int    `json:"chunks"`
	Running  bool   `json:"running,omitempty"` // more chunks are being embedded
	Refused  int    `json:"refused,omitempty"` // chunks refused by the embedding service, found only by words
	Error    string `json:"error,omitempty"`   // of the last attempt

	// DenseWeight is the measured weight of vectors relative to words, used where a policy does
	// not set its own; null if not measured yet.
	DenseWeight *float64 `json:"dense_weight"`
}

// Useless reports whether the vectors were measured to add nothing to words.
func (e *Embeddings) Useless() bool { return e.DenseWeight != nil && *e.DenseWeight == 0 }

// A Source is the state of fetching a base from elsewhere.
type Source struct {
	Running   bool   `json:"running"`
	Done      int    `json:"done"`             // files looked at so far
	Files     int    `json:"files"`            // files known so far
	Bytes     int64  `json:"bytes"`            // received so far
	FetchedAt *int64 `json:"fetched_at"`       // when it was last listed in full; null for never
	Text      string `json:"text"`             // the state, for people
	Error     string `json:"error,omitempty"`  // of the last fetch
	Commit    string `json:"commit,omitempty"` // of git

	// Of the last fetch; at most 100 failures are listed.
	Listed   int             `json:"listed"`  // files at the source
	Fetched  int             `json:"fetched"` // new or changed files
	Removed  int             `json:"removed"`
	Failed   int             `json:"failed"` // files that stay as they were
	Failures []SourceFailure `json:"failures"`
	Notes    []string        `json:"notes"` // what was left out
}

// A SourceFailure is a file that could not be fetched.
type SourceFailure struct {
	Path   string `json:"path"` // or the address of a page
	Reason string `json:"reason"`
}

// An Ingest is the progress of reading a folder, and the result of the last run.
type Ingest struct {
	Runs    int           `json:"runs"` // completed runs, without those that began while a requested one was due
	Running bool          `json:"running"`
	Done    int           `json:"done"`  // files read so far
	Files   int           `json:"files"` // files to read in all
	Chunks  int           `json:"chunks"`
	BeganAt *int64        `json:"began_at"` // null before the first run
	TookMS  float64       `json:"took_ms"`  // of the current run so far, or of the last one
	Error   string        `json:"error,omitempty"`
	Report  *IngestReport `json:"report"` // of the last successful run; null if there is none
}

// An IngestReport is the result of an ingest run. Shortened cuts its lists to maxReported.
type IngestReport struct {
	Files            int          `json:"files"` // files read
	Chunks           int          `json:"chunks"`
	New              int          `json:"new"`
	Changed          int          `json:"changed"`
	Unchanged        int          `json:"unchanged"`
	Removed          int          `json:"removed"`
	RemovedDocuments []string     `json:"removed_documents"`
	SkippedTotal     int          `json:"skipped_total"`
	Skipped          []Skipped    `json:"skipped"`
	Notes            []LookupNote `json:"notes"`

	SkippedKinds []SkippedKind `json:"skipped_kinds"` // all skipped files by kind
	SkippedLines []string      `json:"skipped_lines"` // the same as text for people
}

// A SkippedKind counts the files that were skipped for one reason.
type SkippedKind struct {
	Kind  string `json:"kind"`
	Files int    `json:"files"`
	What  string `json:"what"`           // "PDF scanned"
	Why   string `json:"why,omitempty"`  // "no text layer"
	Cure  string `json:"cure,omitempty"` // "run OCR first, e.g. ocrmypdf"
	First string `json:"first"`          // path of the first file
}

// A LookupNote says which part of a document was left out when it was read.
type LookupNote struct {
	Document string `json:"doc_id"`
	Reason   string `json:"reason"`
}

// A Skipped is a file or folder that was skipped.
type Skipped struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// maxReported limits the entries in each list of a report.
const maxReported = 100

// Shortened returns b with the lists of its report cut to maxReported.
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
