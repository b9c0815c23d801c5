package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoCollection is wrapped by the errors of Read for a folder without a collection, or without
// the requested split.
var ErrNoCollection = errors.New("no collection")

// missing is an error that names what a folder lacks. It matches ErrNoCollection.
type missing string

func (m missing) Error() string { return string(m) }

// Is makes m match ErrNoCollection.
func (m missing) Is(target error) bool { return target == ErrNoCollection }

// A Collection has documents, queries, and grades that say which documents answer which query.
type Collection struct {
	Documents []Document
	Queries   []Query           // queries with relevant documents, in file order
	Grades    map[string]Grades // by query id
	Judgments string            // file of the grades, relative to the folder

	LeftOut          int // queries without relevant documents
	UnknownQueries   int // graded queries with relevant documents that the file lacks
	UnknownDocuments int // relevant documents that the corpus lacks
}

// A Document is one line of corpus.jsonl; other fields are ignored.
type Document struct {
	ID, Title, Text string
}

// A Query is one line of queries.jsonl. Turns, an extension of BEIR, are earlier user messages,
// oldest first.
type Query struct {
	ID, Text string
	Turns    []string
}

const (
	corpusFile  = "corpus.jsonl"
	queriesFile = "queries.jsonl"
	qrelsFile   = "qrels.tsv" // in a collection with one split
	qrelsDir    = "qrels"     // in a collection with several: one file each
	mainSplit   = "test"
)

// Read reads the collection in dir, in the layout of BEIR: corpus.jsonl, queries.jsonl, and the
// grades in qrels/SPLIT.tsv, or in qrels.tsv if there is only one split. An empty split means
// "test", or the only one. Errors name file and line.
//
// Graded documents and queries that are not in the files are counted. The documents still count as
// relevant in every measure, as ones that cannot be found.
func Read(ctx context.Context, dir, split string) (*Collection, error) {
	judgments, err := layout(dir, split, corpusFile, queriesFile)
	if err != nil {
		return nil, err
	}
	c := &Collection{Grades: map[string]Grades{}, Judgments: judgments}
	documents, err := readDocuments(ctx, dir, corpusFile, func(r record) { c.Documents = append(c.Documents, Document{ID: r.ID, Title: r.Title, Text: r.Text}) })
	if err != nil {
		return nil, err
	}
	return c, c.readQuestions(ctx, dir, documents)
}

// ReadFor reads the queries and grades of dir like Read, for documents from elsewhere. It does not
// read corpus.jsonl.
func ReadFor(ctx context.Context, dir, split string, documents []Document) (*Collection, error) {
	judgments, err := layout(dir, split, queriesFile)
	if err != nil {
		return nil, err
	}
	c := &Collection{Documents: documents, Grades: map[string]Grades{}, Judgments: judgments}
	at := make(map[string]int, len(documents))
	for i, d := range documents {
		at[d.ID] = i + 1
	}
	return c, c.readQuestions(ctx, dir, at)
}

// Judged returns the ids of the documents that have a grade, sorted.
func (c *Collection) Judged() []string {
	ids := map[string]bool{}
	for _, grades := range c.Grades {
		for id := range grades {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// layout checks for the files of a collection, and returns the file of the grades.
func layout(dir, split string, files ...string) (judgments string, err error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", missing(dir + " is not a folder")
	}
	for _, name := range files {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", missing(fmt.Sprintf("%s has no %s; a collection in the layout of BEIR has", dir, name))
		}
	}
	return findJudgments(dir, split)
}

// readQuestions reads the grades and queries; documents maps ids to line numbers.
func (c *Collection) readQuestions(ctx context.Context, dir string, documents map[string]int) error {
	if err := c.readGrades(ctx, dir); err != nil {
		return err
	}
	queries, err := c.readQueries(ctx, dir)
	if err != nil {
		return err
	}
	c.countUnknown(documents, queries)
	if len(c.Queries) == 0 {
		return fmt.Errorf("no query of %s has a relevant document in %s", queriesFile, c.Judgments)
	}
	return nil
}

// findJudgments returns the slash-separated path of the file of grades, relative to dir.
func findJudgments(dir, split string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, qrelsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var splits []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".tsv"); ok && !e.IsDir() {
			splits = append(splits, name)
		}
	}
	if len(splits) == 0 {
		if _, err := os.Stat(filepath.Join(dir, qrelsFile)); err != nil {
			return "", missing(fmt.Sprintf("%s has neither %s/%s.tsv nor %s; a collection in the layout of BEIR has", dir, qrelsDir, mainSplit, qrelsFile))
		}
		if split != "" {
			return "", missing(fmt.Sprintf("%s has no split %q but one only, %s", dir, split, qrelsFile))
		}
		return qrelsFile, nil
	}
	if split == "" && len(splits) == 1 {
		split = splits[0]
	}
	split = cmp.Or(split, mainSplit)
	if !slices.Contains(splits, split) {
		return "", missing(fmt.Sprintf("%s has no split %q; there are %s", dir, split, strings.Join(splits, ", ")))
	}
	return qrelsDir + "/" + split + ".tsv", nil
}

// readQueries reads the queries that have grades, and returns the line numbers of all queries by
// id.
func (c *Collection) readQueries(ctx context.Context, dir string) (lines map[string]int, err error) {
	return readDocuments(ctx, dir, queriesFile, func(r record) {
		if c.Grades[r.ID].Relevant() == 0 {
			c.LeftOut++
			return
		}
		c.Queries = append(c.Queries, Query{ID: r.ID, Text: r.Text, Turns: r.Turns})
	})
}

// readGrades reads lines of query id, document id and grade. The first line may be a header. A
// line may be repeated, but not with a different grade.
func (c *Collection) readGrades(ctx context.Context, dir string) error {
	return readLines(ctx, dir, c.Judgments, func(number int, line []byte) error {
		f := strings.Split(string(line), "\t")
		if len(f) != 3 {
			return fmt.Errorf("%d columns; want query id, document id and grade with tabs between them", len(f))
		}
		query, doc := f[0], f[1]
		if number == 1 && strings.EqualFold(f[2], "score") {
			return nil
		}
		grade, err := strconv.Atoi(f[2])
		if err != nil {
			return fmt.Errorf("grade %q is not a whole number", clip(f[2]))
		}
		grades := c.Grades[query]
		if grades == nil {
			grades = Grades{}
			c.Grades[query] = grades
		}
		if before, ok := grades[doc]; ok && before != grade {
			return fmt.Errorf("document %q of query %q has grade %d already", clip(doc), clip(query), before)
		}
		grades[doc] = grade
		return nil
	})
}

// countUnknown counts graded queries and documents that are not in the files. documents and
// queries map ids to line numbers.
func (c *Collection) countUnknown(documents, queries map[string]int) {
	unknown := map[string]bool{}
	for query, grades := range c.Grades {
		if queries[query] == 0 && grades.Relevant() > 0 {
			c.UnknownQueries++
		}
		for doc, grade := range grades {
			if grade > 0 && documents[doc] == 0 {
				unknown[doc] = true
			}
		}
	}
	c.UnknownDocuments = len(unknown)
}
