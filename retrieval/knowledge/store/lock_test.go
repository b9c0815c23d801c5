//go:build unix

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/store"
)

// A killed writer remains in the lock file, but is not reported as the writer.
func TestWriterThatDiedIsNoWriter(t *testing.T) {
	dir := t.TempDir()
	cmd := knowledgetest.Child(t, "hold", "DIR="+dir)
	_, out := pipes(t, cmd)
	if !out.Scan() {
		t.Fatal("the holder did not start")
	}
	if who := store.Writer(dir); who == nil || who.PID != cmd.Process.Pid || who.Address != "127.0.0.1:8081" {
		t.Errorf("the writer is %+v", who)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if text, err := os.ReadFile(filepath.Join(dir, "lock")); err != nil || len(text) == 0 {
		t.Errorf("the lock says %q, %v", text, err)
	}
	if who := store.Writer(dir); who != nil {
		t.Errorf("the writer is %+v, and it is dead", who)
	}
}

// Looking for the writer does not prevent another process from becoming it.
func TestLookingForTheWriterIsNotInTheWay(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, opened(t, dir))
	done := make(chan struct{})
	var lookers sync.WaitGroup
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					store.Writer(dir)
				}
			}
		})
	}
	for range 10 {
		s, err := store.Open(t.Context(), dir, store.Options{})
		if err != nil {
			t.Errorf("in the way of a writer: %v", err)
			continue
		}
		var locked *store.LockedError
		if _, err := store.Open(t.Context(), dir, store.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
			t.Errorf("a second writer: %v", err)
		}
		closeStore(t, s)
	}
	close(done)
	lookers.Wait()
}
