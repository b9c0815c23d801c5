package rewrite_test

import (
	"encoding/json"
	"math"
	"testing"

	"sidenote/rewrite"
)

// Whatever the body is: the edited body is JSON, differs only in the edits, and needs no further
// edit; and the estimate applies to it too. (C18)
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"stream":true,"messages":[]}`, `{ "max_tokens":90, "stream":true,"stream_options":{"include_usage":false}}`, `{"n":128,"max_tokens":100000000,"prompt":["a","b"]}`,
		`{"stream":true,"stream_options":{"x":1}}`, `{"stream":true,"stream_options":null,"max_completion_tokens":null}`, `{}`, ` {"max_output_tokens":5} `,
	} {
		f.Add([]byte(body), uint8(1), 100, 1000, true)
	}
	f.Fuzz(func(t *testing.T, body []byte, route uint8, tenant, model int, completion bool) {
		on := rewrite.MeteredRoute(route % 5)
		p := rewrite.MeterPolicy{OutputCaps: rewrite.OutputCaps{Tenant: min(max(tenant, 0), math.MaxInt32), Model: min(max(model, 0), math.MaxInt32), Completion: completion}, IncludeUsage: true}
		r, err := rewrite.ReadMetered(on, body)
		if err != nil {
			return
		}
		r.MeterPolicy = p
		up := rewrite.ApplyEdits(nil, body, r.Edits())
		if !json.Valid(up) {
			t.Fatalf("%s becomes %s", body, up)
		}
		again, err := rewrite.ReadMetered(on, up)
		if err != nil {
			t.Fatalf("%s becomes %s: %v", body, up, err)
		}
		again.MeterPolicy = p
		was, is := r.Estimate(7), again.Estimate(7)
		if len(again.Edits()) > 0 || again.HidesUsage() || was != is || was.Input != 7 || was.Output < 0 {
			t.Fatalf("%s becomes %s: %+v, %+v, %v", body, up, was, is, again.Edits())
		}
		if n := int64(r.Length()); p.Tenant > 0 && n > int64(p.Tenant) || p.Model > 0 && n > int64(p.Model) {
			t.Fatalf("%s: length %d", body, n)
		}
	})
}
