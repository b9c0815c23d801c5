package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sidenote/cmd/sidenote/internal/client/clienttest"
	"sidenote/retrieval/knowledge/store"
)

func tokenInEnv(name string) (string, bool) { return "t0ken-of-env", name == "SIDENOTE_ADMIN_TOKEN" }

// lockNames writes an address into the lock of a state folder.
func lockNames(t *testing.T, state, address string) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"pid": os.Getpid(), "host": host, "address": address})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "lock"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// After the writer of a state folder died, nothing is sent to its address.
func TestDeadWriterIsNotAsked(t *testing.T) {
	s := clienttest.NewStranger(t, clienttest.Answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	state := filepath.Join(t.TempDir(), "state")
	dead, err := store.Open(t.Context(), state, store.Options{})
	if err == nil {
		err = errors.Join(dead.CreateBase(t.Context(), "kb"), dead.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	lockNames(t, state, s.Addr().String())
	start(t, tokenInEnv, "knowledge", "list", "--state", state).ends(t, exitDone, "kb", "opened for reading "+state)
	s.Heard(t, "a read", false)
}

// Commands that write refuse a listener that cannot prove itself, and send it neither a token nor
// documents.
func TestCommandsSendAStrangerNothing(t *testing.T) {
	s := clienttest.NewStranger(t, clienttest.Answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	state, _ := clienttest.LockedState(t, s.Addr().String())
	file, docs := written(t, "token", "t0ken-of-file"), handbook(t)
	start(t, noEnv, "knowledge", "put", "kb", filepath.Join(docs, "leave.md"), "--state", state, "--admin-token-file", file).
		ends(t, exitFailed, "", "did not prove to be that process")
	s.Heard(t, "a write", true)
	waits := start(t, tokenInEnv, "ingest", "--knowledge", "kb="+docs, "--state", state)
	waits.said.until(t, "did not prove to be that process")
	waits.cancel()
	waits.ends(t, exitFailed, "", "stopped while it waited")
	s.Heard(t, "an ingest", true)
}
