package main

import (
	"testing"

	"sidenote/retrieval/eval"
)

// Results of fewer queries than planned are marked.
func TestStopped(t *testing.T) {
	e := evaluation{Subject: &evalSubject{}, Data: &eval.Collection{Queries: make([]eval.Query, 3)}, Outcomes: make([]eval.Outcome, 1)}
	if err := e.Incomplete(); err == nil || err.Error() != "partly done: stopped after 1 of 3 queries" {
		t.Errorf("error %v", err)
	}
	e.Outcomes = make([]eval.Outcome, 3)
	if err := e.Incomplete(); err != nil {
		t.Errorf("whole, and error %v", err)
	}
}
