package record_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/proxy/record"
)

// sizeOf returns the bytes of all files in a folder.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// segments returns the paths of the segments of a policy, oldest first.
func segments(t testing.TB, dir, policy string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, policy, "*.rec"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// Whatever is recorded, the files never have more than max bytes, and the latest records are there: at
// the start with a lower max, and while a document is forgotten.
func TestRingKeepsItsSize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, limit := t.TempDir(), atomic.Int64{}
		watch := record.Each{FileSystem: record.Disk{}, Do: func(string, string) error { return nil }, Wrote: func() {
			if size := sizeOf(dir); size > limit.Load() {
				rt.Errorf("%d bytes of %d", size, limit.Load())
			}
		}}
		limit.Store(1 << 40)
		s := everything(t)
		n := 0
		for range rapid.IntRange(1, 3).Draw(rt, "starts") {
			s.Max = int64(rapid.IntRange(64<<10, 512<<10).Draw(rt, "max"))
			if old := sizeOf(dir); old <= s.Max { // else it shrinks first
				limit.Store(s.Max)
			} else {
				limit.Store(old)
			}
			r := newRecorder(t, dir, watch, map[string]record.Settings{"p": s})
			for range rapid.IntRange(1, 60).Draw(rt, "records") {
				n++
				question := strings.Repeat("q", rapid.IntRange(1, int(s.Max/record.SegmentShare)-1000).Draw(rt, "bytes"))
				r.records(t, "p", "t", fmt.Sprintf("%06d", n), question, fmt.Sprint(n%3))
				if rapid.IntRange(0, 9).Draw(rt, "pause") == 0 {
					r.counted(1)
				}
				if rapid.IntRange(0, 19).Draw(rt, "forget") == 0 {
					if _, err := r.Forget("kb", []string{"0"}); err != nil {
						rt.Error(err)
					}
				}
			}
			r.end(t)
			if size := sizeOf(dir); size > s.Max {
				rt.Errorf("%d bytes of %d after the end", size, s.Max)
			}
		}
		list, reader := read(t, dir, map[string]*cache.Keys{"p": s.Keys}, record.Query{})
		if len(list) == 0 || list[len(list)-1].ID != fmt.Sprintf("%06d", n) && n%3 > 0 || reader.Damaged() > 0 {
			rt.Errorf("%d records, %d damaged, %d recorded", len(list), reader.Damaged(), n)
		}
	})
}

// A record that no segment has room for is left out, and others are not.
func TestRecordThatIsTooLarge(t *testing.T) {
	dir, s := t.TempDir(), everything(t)
	s.Max = 64 << 10
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
	r.records(t, "p", "t", "1", strings.Repeat("x", 5000))
	r.records(t, "p", "t", "2", "?")
	if got := r.counted(2); got["p failed"] != 1 || got["p written"] != 1 || r.Problems() != nil {
		t.Errorf("%v, %q", got, r.Problems())
	}
	r.end(t)
}

// Records are deleted when they are too old, without any requests, by the shorter one of what keep was
// and is; also those of policies that do not record any more.
func TestRecordsExpire(t *testing.T) {
	for name, c := range map[string]struct {
		next func(s record.Settings) map[string]record.Settings
		kept time.Duration
	}{
		"running": {nil, 24 * time.Hour},
		"shorter": {func(s record.Settings) map[string]record.Settings {
			s.Keep = 6 * time.Hour
			return map[string]record.Settings{"p": s}
		}, 6 * time.Hour},
		"longer": {func(s record.Settings) map[string]record.Settings {
			s.Keep = 48 * time.Hour
			return map[string]record.Settings{"p": s}
		}, 24 * time.Hour},
		"off":      {func(record.Settings) map[string]record.Settings { return nil }, 24 * time.Hour},
		"off, new": {nil, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
				r.records(t, "p", "t", "1", "?")
				time.Sleep(time.Minute)
				r.records(t, "p", "t", "2", "?") // in the same segment
				time.Sleep(time.Minute)
				if name == "off, new" {
					r.end(t)
					r = newRecorder(t, dir, nil, nil)
				}
				if c.next != nil {
					r.Configure(c.next(everything(t)))
				}
				time.Sleep(c.kept - 3*time.Minute)
				if n := len(segments(t, dir, "p")); n != 1 {
					t.Errorf("%d segments before", n)
				}
				time.Sleep(time.Minute + time.Second) // the segment was begun when the records were written
				if n := len(segments(t, dir, "p")); n != 0 {
					t.Errorf("%d segments when the first record is too old", n)
				}
				r.end(t)
			})
		})
	}
}

// Records that may be kept for longer, or that were written while the clock was ahead, do not keep later
// ones from being deleted in time.
func TestRecordsExpireInAnyOrder(t *testing.T) {
	left := func(t *testing.T, dir string, want ...string) {
		t.Helper()
		var got []string
		if len(segments(t, dir, "p")) > 0 {
			list, _ := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one")}, record.Query{})
			got = ids(list)
		}
		equal(t, "records", got, want)
	}
	t.Run("longer", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := everything(t)
			r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
			r.records(t, "p", "t", "long", "?")
			time.Sleep(time.Minute)
			s.Keep = 6 * time.Hour
			r.Configure(map[string]record.Settings{"p": s})
			r.records(t, "p", "t", "short", "?")
			time.Sleep(time.Minute)
			r.Configure(nil)
			time.Sleep(s.Keep - 2*time.Minute)
			left(t, dir, "long", "short")
			time.Sleep(2 * time.Minute)
			left(t, dir, "long")
			time.Sleep(18 * time.Hour)
			left(t, dir)
			r.end(t)
		})
	})
	t.Run("clock ahead", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(365 * 24 * time.Hour)
			r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
			r.records(t, "p", "t", "ahead", "?")
			r.end(t)
		})
		synctest.Test(t, func(t *testing.T) {
			s := everything(t)
			r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
			time.Sleep(time.Minute)
			left(t, dir, "ahead")
			r.records(t, "p", "t", "1", "?")
			time.Sleep(time.Hour)
			r.records(t, "p", "t", "2", "?")
			time.Sleep(s.Keep - time.Hour - time.Minute)
			left(t, dir, "1", "2", "ahead") // by time
			time.Sleep(2 * time.Minute)
			left(t, dir, "2")
			time.Sleep(time.Hour)
			left(t, dir)
			r.end(t)
		})
	})
}

// A segment spans a small part of keep, so that its other records are not deleted much too early.
func TestSegmentsAreShort(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := everything(t)
		r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
		for i := range 10 {
			r.records(t, "p", "t", fmt.Sprint(i), "?")
			time.Sleep(s.Keep / record.KeepShare)
		}
		r.end(t)
	})
	if n := len(segments(t, dir, "p")); n != 10 {
		t.Errorf("%d segments", n)
	}
}

// An error of any operation loses records at most: the process goes on, later ones are recorded, what
// was counted as written can be read, and the ring keeps its size.
func TestFaultsLoseRecordsOnly(t *testing.T) {
	reached := map[string]bool{}
	for failAt := 1; ; failAt++ {
		dir, s := t.TempDir(), everything(t)
		s.Max = 256 << 10
		var calls atomic.Int64
		var failed atomic.Value
		var works atomic.Bool // now
		files := record.Each{FileSystem: record.Disk{}, Do: func(op, _ string) error {
			if !works.Load() && calls.Add(1) == int64(failAt) {
				failed.Store(op)
				return errors.New("injected")
			}
			return nil
		}}
		var written int
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, dir, files, map[string]record.Settings{"p": s})
			r.records(t, "p", "t", "old", "?")
			time.Sleep(s.Keep + 2*time.Minute)
			for i := range 6 {
				for k := range 9 {
					r.records(t, "p", "t", fmt.Sprintf("%d-%02d", i, k), strings.Repeat("x", 1000), fmt.Sprint(i))
				}
				time.Sleep(2 * record.RetryAfter)
			}
			if gone, err := r.Forget("kb", []string{"2"}); err == nil && gone.Records < 9 && failed.Load() == nil {
				t.Errorf("call %d, %v: %d forgotten", failAt, failed.Load(), gone.Records)
			} else if err != nil && !strings.Contains(err.Error(), "injected") {
				t.Error(err)
			}
			works.Store(true)
			time.Sleep(2 * record.RetryAfter)
			r.records(t, "p", "t", "last", "?")
			time.Sleep(2 * record.RetryAfter)
			works.Store(false)
			r.end(t)
			results := r.counted(56)
			written = results["p written"]
			if results["p written"]+results["p failed"] != 56 || len(r.Problems()) > 0 && failed.Load() != "close" && failed.Load() != "sync" {
				t.Errorf("call %d, %v: %v, %q, %q", failAt, failed.Load(), results, r.Problems(), r.logged())
			}
		})
		if size := sizeOf(dir); size > s.Max {
			t.Errorf("call %d, %v: %d bytes", failAt, failed.Load(), size)
		}
		list, _ := read(t, dir, map[string]*cache.Keys{"p": s.Keys}, record.Query{})
		if len(list) < written-10 || list[len(list)-1].ID != "last" { // 9 may be forgotten, and one is too old
			t.Errorf("call %d, %v: %d of %d can be read", failAt, failed.Load(), len(list), written)
		}
		op, _ := failed.Load().(string)
		if op == "" {
			break // every call has failed once
		}
		reached[op] = true
	}
	for _, op := range []string{"mkdir", "lock", "list", "open", "create", "write", "sync", "close", "rename", "remove", "sync folder"} {
		if !reached[op] {
			t.Errorf("no %s has failed", op)
		}
	}
}

// While the disk is full, requests are counted as failed, and this is said once; when there is room
// again, they are recorded.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		files := record.Each{FileSystem: record.Disk{}, Do: func(op, _ string) error {
			if full.Load() && (op == "write" || op == "create") {
				return errors.New("no space left on device")
			}
			return nil
		}}
		r := newRecorder(t, dir, files, map[string]record.Settings{"p": everything(t)})
		r.records(t, "p", "t", "1", "?")
		time.Sleep(time.Minute)
		full.Store(true)
		for i := range 100 {
			r.records(t, "p", "t", fmt.Sprint("f", i), "?")
			time.Sleep(time.Second)
		}
		const problem = "records of policy p are not written: no space left on device"
		equal(t, "problems", r.Problems(), []string{problem})
		full.Store(false)
		time.Sleep(time.Minute)
		r.records(t, "p", "t", "2", "?")
		time.Sleep(time.Minute)
		equal(t, "problems", r.Problems(), nil)
		equal(t, "log", r.logged(), []string{"true " + problem, "false " + problem})
		r.end(t)
		if got := r.counted(102); got["p written"] != 2 || got["p failed"] != 100 {
			t.Errorf("%v", got)
		}
	})
	list, _ := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one")}, record.Query{})
	equal(t, "records", ids(list), []string{"1", "2"})
}

// A ring that fills the disk gives half of its room back, and does not fill it again at once.
func TestRingLeavesRoomOnAFullDisk(t *testing.T) {
	const room = 40 << 10
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		files := record.Each{FileSystem: record.Disk{}, Do: func(op, path string) error {
			if op == "write" && sizeOf(dir) >= room {
				return &fs.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}}
		s := everything(t)
		s.Max = 256 << 10
		r := newRecorder(t, dir, files, map[string]record.Settings{"p": s})
		for i := range 300 {
			r.records(t, "p", "t", fmt.Sprint(i), strings.Repeat("q", 1000))
			time.Sleep(2 * time.Second)
		}
		if size := sizeOf(dir); size == 0 || size >= room*2/3 {
			t.Errorf("%d of %d bytes are full", size, room)
		}
		equal(t, "problems", r.Problems(), nil)
		r.end(t)
		if got := r.counted(300); got["p failed"] != 1 || got["p written"] != 299 {
			t.Errorf("%v", got)
		}
	})
}

// When other files fill the disk, for a moment or for long, a small ring keeps its records and those that
// are written afterwards.
func TestSmallRingOnAFullDisk(t *testing.T) {
	for _, before := range []int{0, 3} {
		for _, lasts := range []time.Duration{time.Second, 20 * time.Minute} {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var full atomic.Bool
				files := record.Each{FileSystem: record.Disk{}, Do: func(op, path string) error {
					if op == "write" && full.Load() {
						return &fs.PathError{Op: op, Path: path, Err: syscall.ENOSPC}
					}
					return nil
				}}
				r := newRecorder(t, dir, files, map[string]record.Settings{"p": everything(t)})
				for i := range before {
					r.records(t, "p", "t", fmt.Sprint("before ", i), "?")
				}
				time.Sleep(time.Minute)
				full.Store(true)
				for began := time.Now(); time.Since(began) < lasts; time.Sleep(5 * time.Second) {
					r.records(t, "p", "t", "lost", "?")
				}
				full.Store(false)
				for i := range 20 {
					r.records(t, "p", "t", fmt.Sprint(i), "?")
					time.Sleep(5 * time.Second)
				}
				r.end(t)
			})
			list, _ := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one")}, record.Query{})
			if len(list) != before+20 {
				t.Errorf("%d records before, full for %s: %q are left", before, lasts, ids(list))
			}
		}
	}
}

// While the disk hangs, requests are not delayed: what does not fit into the queue is dropped and
// counted, and this is said once.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		hangs, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		files := record.Each{FileSystem: record.Disk{}, Do: func(op, _ string) error {
			if op == "write" {
				once.Do(func() {
					close(hangs)
					<-goOn
				})
			}
			return nil
		}}
		r := newRecorder(t, dir, files, map[string]record.Settings{"p": everything(t)})
		r.records(t, "p", "t", "first", "?")
		<-hangs
		began := time.Now()
		for i := range record.MaxQueue + 50 {
			r.records(t, "p", "t", fmt.Sprint(i), "?")
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("requests waited %s", took)
		}
		if got := r.counted(50); got["p dropped"] < 50 {
			t.Errorf("%v", got)
		}
		equal(t, "problems", r.Problems(), []string{record.SlowDisk})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed: %v", err)
		}
		close(goOn)
		r.end(t)
		got := r.counted(record.MaxQueue + 51)
		if got["p written"]+got["p dropped"] != record.MaxQueue+51 || got["p written"] < record.MaxQueue/2 || len(r.logged()) != 1 {
			t.Errorf("%v, %q", got, r.logged())
		}
	})
}

// Only one process writes a ring. The other one says so once, and takes over when the first has ended.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		first := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
		first.records(t, "p", "t", "1", "?")
		time.Sleep(time.Minute)
		second := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
		for i := range 10 {
			second.records(t, "p", "t", fmt.Sprint("x", i), "?")
			time.Sleep(time.Minute)
		}
		problem := "records of policy p are written by another process, which uses " + filepath.Join(dir, "p") + ", and not by this one"
		equal(t, "log", second.logged(), []string{"true " + problem})
		if got := second.counted(10); got["p failed"] != 10 {
			t.Errorf("%v", got)
		}
		first.end(t)
		time.Sleep(2 * time.Minute)
		second.records(t, "p", "t", "2", "?")
		time.Sleep(time.Minute)
		second.end(t)
		equal(t, "log", second.logged(), []string{"true " + problem, "false " + problem})
	})
	list, _ := read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "one")}, record.Query{})
	equal(t, "records", ids(list), []string{"1", "2"})
}

// Each single byte that is damaged loses one record at most, or a segment whose head it is in. A file
// that ends anywhere has the records before.
func TestDamage(t *testing.T) {
	dir, keys := t.TempDir(), map[string]*cache.Keys{"p": keysOf(t, "one")}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	for i := range 3 {
		r.records(t, "p", "t", fmt.Sprint(i), "?")
	}
	r.end(t)
	path := segments(t, dir, "p")[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t)})
	second.records(t, "p", "t", "other", "?")
	second.end(t)
	all := []string{"0", "1", "2", "other"}
	check := func(what string, least int, damage bool) {
		t.Helper()
		list, reader := read(t, dir, keys, record.Query{})
		if got := ids(list); len(got) < least || slices.ContainsFunc(got, func(id string) bool { return !slices.Contains(all, id) }) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) || damage && reader.Damaged() != 1 {
			t.Errorf("%s: %q, %d damaged", what, got, reader.Damaged())
		}
	}
	const head = 95
	for i := range whole {
		broken := slices.Clone(whole)
		broken[i] ^= 0x55
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if i < head {
			check(fmt.Sprintf("byte %d of the head", i), 1, false)
		} else {
			check(fmt.Sprintf("byte %d", i), 3, true)
		}
	}
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprintf("%d bytes", n), 1+max(0, (n-head)*3/len(whole)-1), false)
	}
}

// Entries cannot be moved, repeated or put into another ring.
func TestEntriesAreBound(t *testing.T) {
	dir, keys := t.TempDir(), map[string]*cache.Keys{"p": keysOf(t, "one"), "q": keysOf(t, "one")}
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": everything(t), "q": everything(t)})
	r.records(t, "p", "t", "1", "?")
	r.records(t, "q", "t", "2", "?")
	r.end(t)
	p, err := os.ReadFile(segments(t, dir, "p")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "q", "0000000000000009.rec"), p, 0o600); err != nil {
		t.Fatal(err)
	}
	frame := p[strings.Index(string(p), "SNF1"):]
	if err := os.WriteFile(segments(t, dir, "p")[0], append(p, frame...), 0o600); err != nil {
		t.Fatal(err)
	}
	list, reader := read(t, dir, keys, record.Query{})
	equal(t, "records", ids(list), []string{"1", "2"})
	if reader.Damaged() != 1 || len(reader.Unread()) != 1 {
		t.Errorf("%d damaged, unread %q", reader.Damaged(), reader.Unread())
	}
}

// After a rotation of keys old records are read by the old key. Without it, the keys are named.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	s := everything(t)
	for i, ids := range [][]string{{"one"}, {"one", "two"}, {"two", "one"}} {
		s.Keys = keysOf(t, ids...)
		r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
		r.records(t, "p", "t", fmt.Sprint(i), "?")
		r.end(t)
	}
	list, reader := read(t, dir, map[string]*cache.Keys{"p": s.Keys}, record.Query{})
	equal(t, "both", ids(list), []string{"0", "1", "2"})
	equal(t, "unread", reader.Unread(), nil)
	list, reader = read(t, dir, map[string]*cache.Keys{"p": keysOf(t, "two")}, record.Query{})
	equal(t, "by the second", ids(list), []string{"2"})
	equal(t, "unread", reader.Unread(), []string{"the records of policy p are encrypted with the key one, which is not among the given ones: two"})
	for _, c := range []struct {
		keys *cache.Keys
		want string
	}{
		{keysOf(t, "three", "four"), "the records of policy p are encrypted with the key one, two, which is not among the given ones: three, four"},
		{nil, "the records of policy p are encrypted with the key one, two, and no key is given for it; write record.key"},
	} {
		_, err := record.Open(dir, map[string]*cache.Keys{"p": c.keys})
		if _, ok := errors.AsType[*record.KeyError](err); !ok || err.Error() != c.want {
			t.Errorf("%v", err)
		}
	}
	other, err := cache.ParseKeys([]byte("two AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\none AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.Open(dir, map[string]*cache.Keys{"p": other}); err == nil || !strings.Contains(err.Error(), "another key than the given one") {
		t.Errorf("%v", err)
	}
}

// A reader sees whole records while they are written, deleted and rewritten.
func TestReadingWhileWriting(t *testing.T) {
	dir, s := t.TempDir(), everything(t)
	s.Max = 128 << 10
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
	r.records(t, "p", "t", "begin", "?", "keep")
	r.counted(1)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				reader, err := record.Open(dir, map[string]*cache.Keys{"p": s.Keys})
				if errors.Is(err, fs.ErrNotExist) {
					continue // all were forgotten
				}
				if err != nil {
					t.Error(err)
					return
				}
				for of, err := range reader.All(record.Query{}) {
					if err != nil || of.Tenant != "t" {
						t.Errorf("%+v, %v", of, err)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		r.records(t, "p", "t", fmt.Sprint(i), strings.Repeat("x", 500), fmt.Sprint(i%2))
		if i%50 == 0 {
			if _, err := r.Forget("kb", []string{"1"}); err != nil {
				t.Error(err)
			}
		}
	}
	r.end(t)
	close(done)
	readers.Wait()
}
