package rewrite

import (
	"sidenote/retrieval"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A job is the state of one rewrite. Its memory is used again for another, so nothing of it may be
// in a Result or be remembered, but for texts and lists that were made for that.
type job struct {
	policy   *Policy
	req      *Request
	model    Model
	messages model.MessageCosts
	window   Window
	query    string
	asked    retrieval.Query  // of knowledge
	earlier  []string         // what the user said before, last first, as far as anybody reads it
	previous []retrieval.Turn // the same, if it can join the search
	last     int              // index of the last user message, -1 without one

	taken        *Chunks                                                   // whose messages the request holds; nil without any
	patterns     *PresentTexts                                             // of sources that are not remembered
	presence     presentMessages                                           // finds texts in the messages
	skipped      []SourceEntry                                             // sources left out because the messages hold them already or they have no text
	beside       func(src *retrieval.Source, n int) (text string, ok bool) // reads the n-th chunk of its document, if that is in its section
	placement    Placement                                                 // in force
	places       places
	plan         plan
	fitted       fitResult // of the plan
	fitKept      bool      // an equal request was fitted before
	rulesInBlock bool      // the rules go into the block, not into the sources element
}

// begin returns the job of a rewrite, until release.
func (rw *Rewriter) begin(p *Policy, req *Request) *job {
	j, ok := rw.jobs.Get().(*job)
	if !ok {
		j = &job{patterns: new(PresentTexts)}
	}
	j.policy, j.req, j.model = p, req, rw.model(p, req.Model)
	rw.costs.Read(&j.messages, req)
	return j
}

// release gives a job's memory to another one.
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

// emptied returns the memory of a list. Most jobs need none.
func emptied[T any](list []T) []T {
	if len(list) > 0 {
		clear(list[:cap(list)]) // it may have been longer
	}
	return list[:0]
}

// utf8In returns the chat.Validity of the messages: each is read when it is seen first.
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
