package rewrite_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/rewrite"
)

// The ledger sums up what was assembled, says what may be cut, and has no sum where nothing was.
func TestAssembly(t *testing.T) {
	p := testPolicy(t, nil)
	p.Components = []rewrite.Component{
		{Name: "rules", Text: "Answer in English.", Priority: 100},
		{Name: "long", Text: "far more than there is room for, far more than there is room for", Priority: 90},
		{Name: "glossary", Text: "PTO: paid time off.", Priority: 80, Truncatable: true},
	}
	p.ContextTokens = 40
	m := rewrite.Model{Counter: encoding(t, "o200k_base")}
	res, _ := inject(t, m, p, []retrieval.Source{})
	l := res.Ledger
	want := &rewrite.Assembly{TotalTokens: l.Used, Components: 2, Overflow: l.Overflow}
	if diff := cmp.Diff(want, l.Assembled); diff != "" || l.Used < 10 || l.Overflow < 5 {
		t.Errorf("used %d, overflow %d (-want +got):\n%s", l.Used, l.Overflow, diff)
	}
	may := map[string]bool{}
	for _, c := range l.Components {
		may[c.Name] = c.Truncatable
	}
	if diff := cmp.Diff(map[string]bool{"rules": false, "long": false, "glossary": true}, may); diff != "" {
		t.Errorf("truncatable (-want +got):\n%s", diff)
	}
	p.Components = nil
	if res, _ := inject(t, m, p, []retrieval.Source{}); res.Ledger.Assembled != nil {
		t.Errorf("%s: %+v", res.Outcome, res.Ledger.Assembled)
	}
}
