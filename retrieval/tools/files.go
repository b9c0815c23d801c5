package tools

import (
	"cmp"
	"context"
	"slices"

	"sidenote/retrieval"
)

// A File is a document found by a search.
type File struct {
	Knowledge, Doc string
	Name           string
	Relevance      float64 // of its best chunk, 0 to 10; without model scores, 5 is the threshold for sources
	Relevant       bool    // it would be a source
}

// Path returns the document id, prefixed with the base id if the caller has several bases.
func (f *File) Path(as retrieval.Query) string { return path(as, f.Knowledge, f.Doc) }

func path(as retrieval.Query, knowledge, doc string) string {
	if len(as.Bases) == 1 {
		return doc
	}
	return knowledge + "/" + doc
}

// candidatesPerFile is the number of candidates per requested file, since several chunks of a file
// may match.
const candidatesPerFile = 5

// Files returns up to maxFiles documents, ranked by their best chunks.
func (k *Knowledge) Files(ctx context.Context, as retrieval.Query, text string, maxFiles int) ([]File, retrieval.Result, error) {
	res, err := k.search(ctx, as, text, func(s *retrieval.Settings) {
		s.TopK, s.MaxPerDocument = maxFiles, 1
		s.NumCandidates = max(s.NumCandidates, candidatesPerFile*maxFiles)
	})
	if err != nil {
		return nil, res, err
	}
	type document struct{ knowledge, doc string }
	files, seen := make([]File, 0, maxFiles), map[document]bool{}
	relevance := relevanceOf(&res)
	add := func(s *retrieval.Source, relevant bool) {
		if d := (document{s.Knowledge, s.Doc}); !seen[d] {
			seen[d] = true
			files = append(files, File{s.Knowledge, s.Doc, s.Name, 10 * relevance(s), relevant})
		}
	}
	for i := range res.Sources {
		add(&res.Sources[i], true)
	}
	for x := range res.Excluded.All() {
		switch x.Reason {
		case retrieval.ExcludedScore, retrieval.ExcludedRerank, retrieval.ExcludedGrade:
			src := retrieval.ExcludedSource(&x)
			add(&src, false)
		}
	}
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(b.Relevance, a.Relevance) })
	return files[:min(len(files), maxFiles)], res, nil
}

// relevanceOf returns a function for the relevance, from 0 to 1, of what a search found: the
// grading model's score, else the reranker's, else the search's. Chunks that a model did not score
// rank no higher than those it did.
func relevanceOf(res *retrieval.Result) func(*retrieval.Source) float64 {
	excluded := res.Excluded.List()
	graded := slices.ContainsFunc(res.Sources, func(s retrieval.Source) bool { return s.GradeScore != nil }) ||
		slices.ContainsFunc(excluded, func(x retrieval.Excluded) bool { return x.GradeScore != nil })
	scoreOf := func(grade, rerank *float64) (score float64, ok bool) {
		of := rerank
		if graded {
			of = grade
		}
		if of == nil {
			return 1, false
		}
		return min(1, max(0, *of)), true
	}
	least := 1.0
	for i := range res.Sources {
		score, _ := scoreOf(res.Sources[i].GradeScore, res.Sources[i].RerankScore)
		least = min(least, score)
	}
	for i := range excluded {
		score, _ := scoreOf(excluded[i].GradeScore, excluded[i].RerankScore)
		least = min(least, score)
	}
	return func(s *retrieval.Source) float64 {
		if score, ok := scoreOf(s.GradeScore, s.RerankScore); ok {
			return score
		}
		return min(s.Relevance, least)
	}
}
