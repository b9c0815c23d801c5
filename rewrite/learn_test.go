package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// Bills for one tenant do not narrow another tenant's window, and never narrow a window by more
// than a quarter.
func TestWhatIsLearntIsBounded(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"one two three"}]}`
	rw := &rewrite.Rewriter{Models: models{model.Model{Row: "test", Window: 8000, Counter: words{}}}, Calibration: model.NewTracker()}
	request := func(tenant string) int {
		t.Helper()
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return rw.Rewritten(t.Context(), rewrite.Policy{Tenant: tenant, Upstream: "u", CountWhole: true}, req, rewrite.Options{}).Ledger.Window.Request
	}
	before := request("honest")
	for range 64 {
		if l, err := rw.Learn("hostile", "u", chat.Completions, []byte(body), 4000); err != nil || l.Absurd {
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

// A window observed at an upstream replaces a larger or unknown one, for the tenant that observed
// it.
func TestServedWindowLimitsRequests(t *testing.T) {
	for name, own := range map[string]int{"larger": 131_072, "unknown": 0, "smaller": 1_500} {
		rw := &rewrite.Rewriter{Models: models{model.Model{Row: "llama3.1*", Window: own, Counter: words{}}}, Calibration: model.NewTracker()}
		body := fmt.Sprintf(`{"model":"llama3.1:8b","messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", 6000))
		for range 6 {
			if l, err := rw.Learn("acme", "local", chat.Completions, []byte(body), 2048); err != nil || l.Model != "llama3.1:8b" {
				t.Fatalf("%+v, %v", l, err)
			}
		}
		req, err := chat.Completions.Parse([]byte(`{"model":"llama3.1:8b","messages":[{"role":"user","content":"How long?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for tenant, want := range map[string]int{"acme": 2048, "other": own} {
			if own == 1_500 {
				want = own
			}
			if got := rw.Rewritten(t.Context(), rewrite.Policy{Tenant: tenant, Upstream: "local", CountWhole: true}, req, rewrite.Options{}).Ledger.Window.Size; got != want {
				t.Errorf("%s, tenant %s: window %d, want %d", name, tenant, got, want)
			}
		}
	}
}
