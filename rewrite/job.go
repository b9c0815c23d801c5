package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A job is the state of one rewrite. Its memory is pooled, so nothing of it may be kept in a
// Result or a cache, except strings and slices allocated for that purpose.
type job struct {
	policy   *Policy
	req      *Request
	model    Model
	messages model.MessageCosts
	window   Window
	query    string
	asked    retrieval.Query  // the query sent to the retriever
	earlier  []string         // the user's earlier messages, last first, as far as needed
	previous []retrieval.Turn // the same, as far as the search uses them
	last     int              // index of the last user message, -1 without one

	taken        *ChunkResult                                              // chunks already inserted into the request; nil if none
	patterns     *PresentTexts                                             // buffer for the texts of sources that are not cached
	presence     presentMessages                                           // for finding texts in the messages
	skipped      []SourceEntry                                             // left out before the fit: without text, or already in the messages
	readChunk    func(src *retrieval.Source, n int) (text string, ok bool) // reads chunk n of src's document if it is in src's section
	placement    Placement                                                 // in force
	places       places
	plan         plan
	fitted       fitResult // result of plan
	fitCached    bool      // the result of an equal request was reused
	rulesInBlock bool      // the rules are placed in the block, not in the sources element
}

// begin returns a job for a rewrite. It must be released.
func (rw *Rewriter) begin(p *Policy, req *Request) *job {
	j, ok := rw.jobs.Get().(*job)
	if !ok {
		j = &job{patterns: new(PresentTexts)}
	}
	j.policy, j.req, j.model = p, req, rw.model(p, req.Model)
	rw.costs.Read(&j.messages, req)
	return j
}

// release clears a job and returns it to the pool.
func (rw *Rewriter) release(j *job) {
	messages, elements, ordered := j.messages.Released(), emptied(j.plan.elements), emptied(j.plan.ordered)
	bare, blocks, parts := emptied(j.plan.sources.bare), emptied(j.plan.sources.blocks), emptied(j.plan.sources.parts)
	patterns := j.patterns
	patterns.Set(0, nil)
	var inserted [maxPlaces][]part
	for i := range inserted {
		inserted[i] = emptied(j.plan.insertions[i].parts)
	}
	*j = job{}
	j.messages, j.patterns, j.plan.elements, j.plan.ordered = messages, patterns, elements, ordered
	j.plan.sources.bare, j.plan.sources.blocks, j.plan.sources.parts = bare, blocks, parts
	for i := range inserted {
		j.plan.insertions[i].parts = inserted[i]
	}
	rw.jobs.Put(j)
}

// emptied clears a slice and returns it with length 0, to reuse its memory.
func emptied[T any](list []T) []T {
	if len(list) > 0 {
		clear(list[:cap(list)]) // earlier uses may have been longer
	}
	return list[:0]
}

// utf8In returns a chat.Validity that caches its results for the messages.
func utf8In(messages *model.MessageCosts) chat.Validity {
	return func(n int, read func() bool) bool {
		return messages.Remember(n, badUTF8, func() int {
			if read() {
				return 0
			}
			return 1
		}) == 0
	}
}
