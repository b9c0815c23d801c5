package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/cache/budget"
)

// Forgotten says what became of the records of documents that are to be forgotten.
type Forgotten struct {
	Records int      // removed
	Unread  []string // records that could not be searched, and why, a line for each policy
}

// sourcesOf are the sources of a record.
type sourcesOf struct {
	Sources []struct {
		Knowledge string `json:"kb_id"`
		Doc       string `json:"doc_id"`
	} `json:"sources"`
}

// dropper returns a function that chooses the records with one of the documents of a base.
func dropper(knowledge string, docs []string) func(kind byte, text []byte) bool {
	return func(kind byte, text []byte) bool {
		var of sourcesOf
		if kind != entryRecord || json.Unmarshal(text, &of) != nil {
			return false
		}
		for _, s := range of.Sources {
			if s.Knowledge == knowledge && slices.Contains(docs, s.Doc) {
				return true
			}
		}
		return false
	}
}

// Forget removes the records of all policies that have one of the documents of a base among their
// sources, also those of requests that are being served. Records that it cannot read are in Unread.
// After an error some may have been removed.
func (r *Recorder) Forget(knowledge string, docs []string) (done Forgotten, err error) {
	if r == nil {
		return done, nil
	}
	r.forgotten.add(knowledge, docs)
	all := *r.targets.Load()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		s := t.settings.Load()
		if s == nil {
			s = &Settings{}
		}
		t.ring.mu.Lock()
		one := t.ring.forget(s, knowledge, docs, &done)
		t.ring.mu.Unlock()
		err = errors.Join(err, one)
	}
	return done, err
}

// Forget is like Recorder.Forget for a process that does not record. policies are those that do. A
// folder that does not exist has no records.
func Forget(dir string, policies map[string]Settings, knowledge string, docs []string) (done Forgotten, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r := &ring{files: disk{}, dir: filepath.Join(dir, e.Name()), policy: e.Name()}
		s := policies[e.Name()]
		err = errors.Join(err, r.forget(&s, knowledge, docs, &done), r.close())
	}
	return done, err
}

// forget removes records from the ring and adds to done. The caller holds mu.
func (r *ring) forget(s *Settings, knowledge string, docs []string, done *Forgotten) error {
	if err := r.open(); errors.Is(err, budget.ErrInUse) {
		done.Unread = append(done.Unread, fmt.Sprintf("records of policy %s, which another process writes", r.policy))
		return nil
	} else if err != nil {
		return err
	}
	n, unread, err := r.rewrite(s.Keys, s.Max, dropper(knowledge, docs))
	done.Records += n
	if len(unread) > 0 {
		done.Unread = append(done.Unread, fmt.Sprintf("records of policy %s that need the key %s, which is not in its record.key", r.policy, strings.Join(unread, ", ")))
	}
	return err
}

// maxForgotten limits the documents that are kept in mind for requests that are being served.
const maxForgotten = 10_000

// forgotten are the documents that were forgotten lately: a request that began before may still be
// recorded. The zero value is ready to use.
type forgotten struct {
	mu   sync.Mutex
	docs map[[2]string]time.Time // by base and id
}

func (f *forgotten) add(knowledge string, docs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.docs == nil || len(f.docs)+len(docs) > maxForgotten {
		f.docs = map[[2]string]time.Time{}
	}
	now := time.Now()
	for _, doc := range docs {
		f.docs[[2]string{knowledge, doc}] = now
	}
}

// has reports whether a record has a source that was forgotten after its request began.
func (f *forgotten) has(of *Record) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.docs) == 0 {
		return false
	}
	return slices.ContainsFunc(of.Sources, func(s Source) bool {
		return !of.Time.After(f.docs[[2]string{s.Knowledge, s.Doc}])
	})
}
