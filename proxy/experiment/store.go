package experiment

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// maxRated is how many requests can be rated, the latest ones.
const maxRated = 100_000

// A Store keeps the outcomes of experiments. It is a report.Recorder, and safe for concurrent use.
type Store struct {
	Conversations Conversations

	now func() time.Time
	dir string // "" keeps nothing; never changed once lock is set
	// lock keeps other processes from writing to dir.
	lock *os.File
	log  func(line string)

	mu     sync.Mutex
	kept   map[string]*kept
	rated  ratings
	unsaid []said // requests of which other replicas do not know yet
}

// A said is a request that other replicas are told of, so that it can be rated there.
type said struct {
	tenant, id string
	unit       Key
}

// maxUnsaid limits the requests that wait to be told.
const maxUnsaid = 4096

// A kept is an experiment with its outcomes.
type kept struct {
	settings Settings
	trial    *trial
	began    time.Time
	changed  time.Time // when the policies or the settings of the test last changed; zero: never
	active   bool      // configured
	dirty    bool      // not saved
	summary  bool      // units are left out, as it is not configured
	saved    time.Time
}

// New returns a Store that keeps its state in a folder, if dir is not "". The folder is created when
// there is an experiment. log is called with a line
// about state that cannot be read or written; it may be nil.
func New(dir string, log func(line string)) *Store {
	if log == nil {
		log = func(string) {}
	}
	s := &Store{dir: dir, log: log, now: time.Now, kept: map[string]*kept{}}
	if _, err := os.Stat(dir); dir != "" && err == nil {
		s.load()
	}
	return s
}

// Close lets another process use the folder. Run must have ended.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Configure sets the experiments that are under way. Those that were known before keep their
// outcomes.
func (s *Store) Configure(all []Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) > 0 && s.lock == nil {
		s.load()
	}
	s.activate(all)
}

// activate is Configure for a caller that holds mu.
func (s *Store) activate(all []Settings) {
	for _, k := range s.kept {
		k.active = false
	}
	for _, of := range all {
		k := s.kept[of.Name]
		if k != nil && k.summary {
			k = s.read(of.Name)
		}
		if k == nil {
			k = &kept{trial: newTrial(&of), began: s.now()}
			s.kept[of.Name] = k
		} else if !k.settings.sameTest(&of) {
			k.changed = s.now()
			k.trial.retune(&of)
		}
		k.settings, k.active, k.dirty = of, true, true
	}
}

// sameTest reports whether outcomes with both settings may be compared.
func (s *Settings) sameTest(o *Settings) bool {
	return s.HashA == o.HashA && s.HashB == o.HashB && s.Share == o.Share && s.Unit == o.Unit && s.Header == o.Header && s.Goal == o.Goal && s.Requests == o.Requests
}

// Begin lets a request be rated before it has ended, as a client may be quick.
func (s *Store) Begin(id, tenant string, of report.Experiment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rated.add(id, rating{experiment: of.Name, tenant: tenant, key: keyOf(of)})
	if s.Conversations.Shared != nil && len(s.unsaid) < maxUnsaid {
		s.unsaid = append(s.unsaid, said{tenant, id, Key(of.Unit)})
	}
}

// tell tells other replicas of requests that can be rated.
func (s *Store) tell(ctx context.Context) {
	s.mu.Lock()
	all := s.unsaid
	s.unsaid = nil
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tellWait)
	defer cancel()
	for _, one := range all {
		s.Conversations.Shared.Keep(ctx, one.tenant, "", ratedID(one.id), one.unit)
	}
}

// ratedID is the id in Shared of a request that can be rated.
func ratedID(id string) string { return "rated:" + id }

// FeedbackOf is Feedback for a request of a tenant's experiment that another replica answered.
func (s *Store) FeedbackOf(ctx context.Context, of *Settings, tenant, id string, score float64) (known bool) {
	shared := s.Conversations.Shared
	if shared == nil {
		return false
	}
	shared.Each(ctx, tenant, "", []string{ratedID(id)}, func(_ int, unit Key) bool {
		known = true
		s.mu.Lock()
		s.rated.add(id, rating{experiment: of.Name, tenant: tenant, key: unitKey{unit, of.Assign(tenant, unit) == B}})
		s.mu.Unlock()
		return false
	})
	return known && s.Feedback(tenant, id, score)
}

func keyOf(of report.Experiment) unitKey { return unitKey{Key(of.Unit), of.Arm == string(B)} }

// Record adds the outcomes of a request that counts.
func (s *Store) Record(r *report.Report) {
	if !r.Experiment.Counted || r.Status/100 != 2 || r.Truncated || r.Outcome == rewrite.Shadowed && r.Reason == rewrite.ReasonOverload {
		return
	}
	o := outcomesOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.kept[r.Experiment.Name]; k != nil {
		k.trial.add(keyOf(r.Experiment), &o)
		k.dirty = true
	}
}

// Feedback sets the application's score of an answer, from -1 to 1. It returns false if the request
// is not known, not one of the tenant's, or too long ago.
func (s *Store) Feedback(tenant, id string, score float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rated.of(id)
	if r == nil || r.tenant != tenant {
		return false
	}
	if k := s.kept[r.experiment]; k != nil {
		n := 1.
		if r.scored {
			n = 0
		}
		k.trial.change(k.trial.unit(r.key), Feedback, n, score-r.score)
		k.trial.look()
		k.dirty = true
	}
	r.score, r.scored = score, true
	return true
}

// A rating is a request that may be rated.
type rating struct {
	experiment, tenant string
	key                unitKey
	score              float64
	scored             bool
}

// ratings are the latest requests, by id.
type ratings struct {
	byID map[string]*rating
	ids  []string // in a ring
	next int
}

func (r *ratings) add(id string, one rating) {
	if r.byID == nil {
		r.byID = map[string]*rating{}
	}
	if _, known := r.byID[id]; known {
		return
	}
	r.byID[id] = &one
	if len(r.ids) < maxRated {
		r.ids = append(r.ids, id)
		return
	}
	delete(r.byID, r.ids[r.next])
	r.ids[r.next] = id
	r.next = (r.next + 1) % maxRated
}

func (r *ratings) of(id string) *rating { return r.byID[id] }

// Views describes all experiments by name: those under way, and those with kept outcomes.
func (s *Store) Views() []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.kept))
	for name := range s.kept {
		names = append(names, name)
	}
	slices.Sort(names)
	views := make([]View, 0, len(names))
	for _, name := range names {
		views = append(views, s.kept[name].view(s.now()))
	}
	return views
}
