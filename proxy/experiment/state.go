package experiment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sidenote/cache/budget"
)

// Files of the state folder: one for each experiment, the keys of conversations, and the lock of the
// process that writes them.
const (
	stateSuffix = ".json"
	turnsName   = "conversations"
	lockName    = "lock"

	stateVersion = 1
	maxStateFile = 64 << 20
	maxKept      = 100 // experiments that are read

	saveEvery   = 2 * time.Second
	saveUnits   = 1000 // one more second for each so many units, as they are written as a whole
	turnsEvery  = 10 * time.Second
	keysPerPair = 2
)

// A stateFile is the content of an experiment's file.
type stateFile struct {
	Version  int                 `json:"version"`
	Settings settingsFile        `json:"settings"`
	Began    time.Time           `json:"began"`
	Changed  time.Time           `json:"changed,omitzero"`
	Requests [2]int              `json:"requests"`
	Measures map[string]standing `json:"measures"`
	Units    []unitFile          `json:"units"`
	Order    []string            `json:"order"` // of the measures in Units
}

// A settingsFile is Settings with a name for the goal.
type settingsFile struct {
	Settings
	Goal string
}

type unitFile struct {
	Key string    `json:"u"`
	B   bool      `json:"b,omitempty"`
	N   []float32 `json:"n"`
	Y   []float64 `json:"y"`
}

// load reads the folder. Files that cannot be read are left alone and reported; without the lock
// nothing is kept until the process that has it ends.
func (s *Store) load() {
	if s.dir == "" {
		return
	}
	if err := s.open(); err != nil {
		if !errors.Is(err, budget.ErrInUse) {
			s.log(fmt.Sprintf("experiments: outcomes are lost at a restart: %v", err))
			s.dir = ""
		}
		return
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+stateSuffix))
	if err != nil {
		s.log("experiments: " + err.Error())
	}
	for _, file := range names[:min(len(names), maxKept)] {
		if k := s.read(strings.TrimSuffix(filepath.Base(file), stateSuffix)); k != nil {
			k.summary, k.trial.units, k.trial.at = true, nil, map[unitKey]int{}
		}
	}
	if err := s.Conversations.load(filepath.Join(s.dir, turnsName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log(fmt.Sprintf("experiments: conversations from before the start are not known: %v", err))
	}
}

// read reads an experiment, and puts a file that is damaged aside; nil then, and without one.
func (s *Store) read(experiment string) *kept {
	name := filepath.Join(s.dir, experiment+stateSuffix)
	k, err := readKept(name)
	switch {
	case err == nil:
		s.kept[experiment] = k
		return k
	case !errors.Is(err, fs.ErrNotExist):
		s.log(fmt.Sprintf("experiments: %s is not read: %v", name, err))
		if err := os.Rename(name, name+".damaged"); err != nil {
			s.log("experiments: " + err.Error())
		}
	}
	delete(s.kept, experiment)
	return nil
}

// open creates the folder and locks it. The lock lasts as long as the process.
func (s *Store) open() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := budget.LockFile(lock); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.lock = lock
	return nil
}

func readLimited(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxStateFile:
		return nil, fmt.Errorf("not a file of at most %d bytes", maxStateFile)
	}
	return os.ReadFile(name)
}

func readKept(name string) (*kept, error) {
	data, err := readLimited(name)
	if err != nil {
		return nil, err
	}
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != stateVersion || len(f.Units) > maxUnits || f.Settings.Name != strings.TrimSuffix(filepath.Base(name), stateSuffix) {
		return nil, errors.New("not a state of this release")
	}
	f.Settings.Settings.Goal, err = ParseMeasure(f.Settings.Goal)
	if err != nil {
		return nil, err
	}
	k := &kept{settings: f.Settings.Settings, trial: newTrial(&f.Settings.Settings), began: f.Began, changed: f.Changed}
	k.trial.requests = f.Requests
	for m := range k.trial.standing {
		k.trial.standing[m] = f.Measures[Measure(m).String()]
	}
	return k, k.trial.restore(&f)
}

// restore adds the units of a file, without changing the sums.
func (t *trial) restore(f *stateFile) error {
	order := make([]Measure, 0, len(f.Order))
	for _, name := range f.Order {
		m, err := ParseMeasure(name)
		if err != nil {
			return err
		}
		order = append(order, m)
	}
	for _, u := range f.Units {
		var key Key
		if _, err := fmt.Sscanf(u.Key, "%016x", (*uint64)(&key)); err != nil || len(u.N) != len(order) || len(u.Y) != len(order) {
			return fmt.Errorf("unit %q is damaged", u.Key)
		}
		to := t.unit(unitKey{key, u.B})
		for i, m := range order {
			to.n[m], to.y[m] = u.N[i], u.Y[i]
		}
	}
	return nil
}

func (k *kept) file() *stateFile {
	t := k.trial
	f := &stateFile{
		Version: stateVersion, Settings: settingsFile{k.settings, k.settings.Goal.String()}, Began: k.began, Changed: k.changed,
		Requests: t.requests, Measures: map[string]standing{}, Units: make([]unitFile, 0, len(t.units)), Order: Measures(),
	}
	for m := range t.standing {
		f.Measures[Measure(m).String()] = t.standing[m]
	}
	for i := range t.units {
		u := &t.units[(t.next+i)%len(t.units)] // the oldest first
		f.Units = append(f.Units, unitFile{u.key.unit.String(), u.key.b, append([]float32(nil), u.n[:]...), append([]float64(nil), u.y[:]...)})
	}
	return f
}

// takeOver keeps the state of a process that has ended, if this one had to wait for it. Of each
// experiment the outcomes with more requests stay.
func (s *Store) takeOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var active []Settings
	for _, k := range s.kept {
		if k.active {
			active = append(active, k.settings)
		}
	}
	if s.lock != nil || len(active) == 0 {
		return
	}
	own := maps.Clone(s.kept)
	if s.load(); s.lock == nil {
		return
	}
	s.activate(active)
	for name, k := range own {
		if other := s.kept[name]; other == nil || other.trial.made() < k.trial.made() {
			s.kept[name], k.dirty = k, true
		}
	}
}

// tellEvery is how often other replicas are told of requests, and tellWait how long that may take.
const (
	tellEvery = 200 * time.Millisecond
	tellWait  = time.Second
)

// Run saves what changed until ctx ends, and then once more.
func (s *Store) Run(ctx context.Context) {
	tick, tell := time.NewTicker(time.Second), time.NewTicker(tellEvery)
	defer tick.Stop()
	defer tell.Stop()
	var turns time.Time
	for {
		select {
		case <-tell.C:
			s.tell(ctx)
		case <-tick.C:
			s.takeOver()
			if !s.keeps() {
				continue
			}
			now := s.now()
			s.save(now)
			if now.Sub(turns) >= turnsEvery {
				s.saveTurns()
				turns = now
			}
		case <-ctx.Done():
			if !s.keeps() {
				return
			}
			s.save(time.Time{})
			s.saveTurns()
			return
		}
	}
}

// keeps reports whether the folder is this process's.
func (s *Store) keeps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil
}

// save writes the experiments that changed and were not saved for long enough before now, or all of
// them if that is zero.
func (s *Store) save(now time.Time) {
	s.mu.Lock()
	var files []*stateFile
	for _, k := range s.kept {
		wait := saveEvery + time.Duration(len(k.trial.units)/saveUnits)*time.Second
		if k.summary || !k.dirty || !now.IsZero() && now.Sub(k.saved) < wait {
			continue
		}
		k.dirty, k.saved = false, now
		files = append(files, k.file())
	}
	s.mu.Unlock()
	for _, f := range files {
		data, err := json.Marshal(f)
		if err == nil {
			err = s.write(f.Settings.Name+stateSuffix, data)
		}
		if err != nil {
			s.log(fmt.Sprintf("experiments: %s is not saved: %v", f.Settings.Name, err))
		}
	}
}

// write replaces a file of the folder.
func (s *Store) write(name string, data []byte) error {
	fresh := filepath.Join(s.dir, name+".new")
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(s.dir, name))
}

func (s *Store) saveTurns() {
	if data := s.Conversations.changed(); data != nil {
		if err := s.write(turnsName, data); err != nil {
			s.log(fmt.Sprintf("experiments: conversations are not saved: %v", err))
		}
	}
}

// changed returns all keys with their units, the oldest first; nil if nothing changed since the last
// call.
func (c *Conversations) changed() (data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil
	}
	c.dirty = false
	data = make([]byte, 0, 8*keysPerPair*len(c.order))
	for i := range c.order {
		key := c.order[(c.next+i)%len(c.order)]
		data = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(data, uint64(key)), uint64(c.units[key]))
	}
	return data
}

// load reads what changed returned.
func (c *Conversations) load(name string) error {
	data, err := readLimited(name)
	if err != nil {
		return err
	}
	const size = 8 * keysPerPair
	for ; len(data) >= size; data = data[size:] {
		c.remember(Key(binary.BigEndian.Uint64(data)), Key(binary.BigEndian.Uint64(data[8:])))
	}
	c.dirty = false
	return nil
}
