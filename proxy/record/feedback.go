package record

import (
	"encoding/json"
	"math"
	"time"

	"sidenote/cache"
)

const (
	// maxRecent is how many recorded requests can get feedback: the last ones.
	maxRecent = 1 << 16
	// maxScores is how often a request can get feedback. The last one counts.
	maxScores = 16
	// maxLoaded limits the bytes of each ring that are read for ids when a process starts.
	maxLoaded = 32 << 20
)

// recent are the ids of the requests that were recorded last. The zero value is ready to use.
type recent struct {
	byID map[string]*recorded
	ids  []string // a ring buffer
	next int      // where the next id goes
}

// recorded is what is known of a recorded request.
type recorded struct {
	tenant string
	to     *target
	scores int
}

// add adds a request.
func (r *recent) add(id, tenant string, to *target) {
	if r.byID == nil {
		r.byID, r.ids = map[string]*recorded{}, make([]string, maxRecent)
	}
	if r.byID[id] != nil {
		return
	}
	delete(r.byID, r.ids[r.next])
	r.ids[r.next] = id
	r.next = (r.next + 1) % len(r.ids)
	r.byID[id] = &recorded{tenant: tenant, to: to}
}

// load adds a request of an earlier process.
func (r *Recorder) load(id, tenant string, to *target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.add(id, tenant, to)
}

// find returns a request of a tenant that is being recorded or was lately, nil if there is none. The
// caller holds mu.
func (r *Recorder) find(tenant, id string) *recorded {
	if of := r.known.byID[id]; of != nil {
		if of.tenant != tenant {
			return nil
		}
		return of
	}
	for d := r.live; d != nil; d = d.next {
		if d.id == id && d.tenant == tenant {
			r.known.add(id, tenant, d.to)
			return r.known.byID[id]
		}
	}
	return nil
}

// Feedback records the application's score of the answer to a request, from -1 to 1. It returns false
// if the request of the tenant is neither being recorded nor among the 65,536 that were recorded last, got
// 16 scores already, or too much waits to be written; of several scores the last one counts.
func (r *Recorder) Feedback(tenant, id string, score float64) bool {
	if r == nil || math.IsNaN(score) {
		return false
	}
	r.mu.Lock()
	of := r.find(tenant, id)
	if of == nil || of.scores == maxScores {
		r.mu.Unlock()
		return false
	}
	of.scores++
	to := of.to
	r.mu.Unlock()
	return r.enqueue(item{to: to, feedback: &feedback{ID: id, Tenant: tenant, Score: min(max(score, -1), 1)}})
}

// encode returns the feedback as an entry.
func (f *feedback) encode(now time.Time) []byte {
	text, err := json.Marshal(f)
	if err != nil {
		panic("BUG: encode feedback: " + err.Error()) // it has only texts and a finite number
	}
	return appendEntry(nil, entryFeedback, now, text)
}

// recent calls do with the requests of the last segments that keys opens, oldest segment first.
func (r *ring) recent(keys *cache.Keys, do func(id, tenant string)) {
	from, size := len(r.segments), int64(0)
	for from > 0 && size+r.segments[from-1].size <= maxLoaded {
		from--
		size += r.segments[from].size
	}
	for _, s := range r.segments[from:] {
		data, err := readAll(r.files, r.path(s.number), s.size)
		if err != nil {
			continue // those requests get no feedback
		}
		h, err := parseHeader(data[:min(len(data), maxHeader)])
		if err != nil || !h.openedBy(keys, r.policy) {
			continue
		}
		h.eachEntry(data, keys, r.policy, func(_ int64, entry []byte) bool {
			var of struct {
				ID     string `json:"id"`
				Tenant string `json:"tenant"`
			}
			if kind, _, text := readEntry(entry); kind == entryRecord && json.Unmarshal(text, &of) == nil {
				do(of.ID, of.Tenant)
			}
			return true
		})
	}
}
