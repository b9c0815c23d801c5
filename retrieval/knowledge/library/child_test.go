//go:build unix

package library_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// children are the functions that the test binary can run as a child process.
func children() map[string]func() error {
	return map[string]func() error{"sync": syncOften, "full": syncFull, "put": putOften, "steps": syncTwice, "file": putFileTwice}
}

// quietly returns the options of a child process.
func quietly() library.Options {
	return library.Options{Trouble: func(t library.Trouble) { fmt.Println("trouble", t) }}
}

// syncOften syncs a folder with one text after the other, and prints which it has read, until it
// is killed.
func syncOften() error {
	ctx := context.Background()
	l, err := library.OpenLoaded(ctx, os.Getenv("DIR"), deps(), quietly())
	if err != nil {
		return err
	}
	fmt.Println("open")
	for revision := 0; ; revision++ {
		if err := writeRevision(os.Getenv("FILES"), 60, revision); err != nil {
			return err
		}
		if _, err := l.Sync(ctx, folder.Folder{ID: "kb", Path: os.Getenv("FILES")}, nil); err != nil {
			return err
		}
		fmt.Println("synced", revision)
	}
}

// syncTwice syncs a folder of a few files with two texts, one after the other, and exits before
// its CRASH_AT-th change of the state folder.
func syncTwice() error {
	crash, err := strconv.Atoi(os.Getenv("CRASH_AT"))
	if err != nil {
		return err
	}
	ctx, files, n := context.Background(), os.Getenv("FILES"), 0
	l, err := library.OpenLoaded(ctx, os.Getenv("DIR"), deps(), library.Before(quietly(), func(string) {
		if n++; n == crash {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}))
	if err != nil {
		return err
	}
	for revision := range 2 {
		if err := writeRevision(files, 8, revision); err != nil {
			return err
		}
		if _, err := l.Sync(ctx, folder.Folder{ID: "kb", Path: files}, nil); err != nil {
			return err
		}
	}
	return l.Close()
}

// fileOf returns a file of revision n, whose records are partly those of the one before.
func fileOf(n int) library.File {
	var text strings.Builder
	for i := range 6 {
		fmt.Fprintf(&text, "{\"id\":\"r%d\",\"text\":\"ant bee of revision %d\"}\n", i+3*n, n)
	}
	return library.File{Name: "a.jsonl", Raw: []byte(text.String())}
}

// putFileTwice puts two revisions of a file, one after the other, and exits before its CRASH_AT-th
// change of the state folder.
func putFileTwice() error {
	crash, err := strconv.Atoi(os.Getenv("CRASH_AT"))
	if err != nil {
		return err
	}
	ctx, n := context.Background(), 0
	l, err := library.OpenLoaded(ctx, os.Getenv("DIR"), deps(), library.Before(quietly(), func(string) {
		if n++; n == crash {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}))
	if err != nil {
		return err
	}
	if err := l.CreateBase(ctx, "kb"); err != nil {
		return err
	}
	for revision := range 2 {
		if _, err := l.PutFile(ctx, "kb", fileOf(revision)); err != nil {
			return err
		}
	}
	return l.Close()
}

// putOften puts one document after the other, so that segments are merged.
func putOften() error {
	ctx := context.Background()
	l, err := library.OpenLoaded(ctx, os.Getenv("DIR"), deps(), quietly())
	if err != nil {
		return err
	}
	if err := l.CreateBase(ctx, "kb"); err != nil {
		return err
	}
	fmt.Println("open")
	for n := 0; ; n++ {
		if _, err := l.Put(ctx, "kb", chunk.Document{ID: fmt.Sprintf("d%d", n), Text: fmt.Sprintf("ant bee w%d", n)}); err != nil {
			return err
		}
		fmt.Println("put", n)
	}
}

// syncFull syncs a folder with a limit on file sizes, and again without.
func syncFull() error {
	ctx, files := context.Background(), os.Getenv("FILES")
	l, err := library.OpenLoaded(ctx, os.Getenv("DIR"), deps(), quietly())
	if err != nil {
		return err
	}
	sync := func() error {
		_, err := l.Sync(ctx, folder.Folder{ID: "kb", Path: files}, nil)
		return err
	}
	if err := errors.Join(writeRevision(files, 60, 0), sync()); err != nil {
		return err
	}
	before := l.Base("kb").Ref().Generation
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 200_000, Max: old.Max}); err != nil {
		return err
	}
	for revision := 1; ; revision++ {
		if err := writeRevision(files, 60, revision); err != nil {
			return err
		}
		err := sync()
		if errors.Is(err, store.ErrFull) {
			fmt.Println("full after", revision)
			break
		}
		if err != nil || revision == 100 {
			return fmt.Errorf("revision %d: %w", revision, err)
		}
		before = l.Base("kb").Ref().Generation
	}
	chunks := 0
	for range l.Base("kb").Content().All() {
		chunks++
	}
	if now := l.Base("kb"); now.Ref().Generation != before || chunks != now.Content().Chunks() {
		return fmt.Errorf("the old state is not searchable: %d of %d chunks", chunks, now.Content().Chunks())
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	return errors.Join(sync(), l.Close())
}
