package rewrite_test

import (
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/calibration"
)

// What an upstream bills one tenant narrows no other tenant's window, and never narrows
// a window by more than a quarter.
func TestM20WhatIsLearntIsBounded(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"one two three"}]}`
	rw := &rewrite.Rewriter{Models: models{rewrite.Model{Row: "test", Window: 8000, Counter: words{}}}, Calibration: calibration.New()}
	request := func(tenant string) int {
		t.Helper()
		req, err := rewrite.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return rw.Rewrite(t.Context(), rewrite.Policy{Tenant: tenant, Upstream: "u", CountWhole: true}, req, rewrite.Options{}).Ledger.Window.Request
	}
	before := request("honest")
	for range 64 {
		if l, err := rw.Learn("hostile", "u", []byte(body), 4000); err != nil || l.Absurd {
			t.Fatalf("%+v, %v", l, err)
		}
	}
	if got := request("honest"); got != before {
		t.Errorf("a request of another tenant counts %d, %d before", got, before)
	}
	if got := request("hostile"); got != before+2000 {
		t.Errorf("its own counts %d, want a quarter of the window more than %d", got, before)
	}
}
