package filter_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/filter"
)

func claimFilter(t interface{ Fatal(...any) }, text string) *filter.Filter {
	f, err := filter.ParseWithClaims([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const (
	inDepartments = `{"type":"in","key":"department","value":{"claim":"departments"}}`
	eqDepartment  = `{"type":"eq","key":"department","value":{"claim":"department"}}`
	nested        = `{"type":"or","filters":[{"type":"eq","key":"audience","value":"public"},{"type":"and","filters":[` + inDepartments + `,{"type":"ne","key":"draft","value":true}]}]}`
)

// T28: a filter is displayed with the names of claims, never their values, in a form that can be
// parsed.
func TestClaimNames(t *testing.T) {
	for text, want := range map[string]string{
		inDepartments: `{"type":"in","key":"department","value":["${claims.departments}"]}`,
		eqDepartment:  `{"type":"eq","key":"department","value":"${claims.department}"}`,
		nested:        strings.Replace(nested, `{"claim":"departments"}`, `["${claims.departments}"]`, 1),
	} {
		got := claimFilter(t, text).WithClaimNames().String()
		if same, err := filter.Parse([]byte(want)); err != nil || got != same.String() {
			t.Errorf("%s is shown as %s, %v", text, got, err)
		} else if !same.NamesClaims() {
			t.Errorf("%s names no claim", got)
		}
	}
}

// A filter with claims compares with the caller's values; before these are set, it matches
// nothing.
func TestFilterWithClaims(t *testing.T) {
	claims := map[string][]string{"departments": {"it", "hr"}, "department": {"hr"}}
	for text, want := range map[string]string{
		inDepartments: `{"type":"in","key":"department","value":["hr","it"]}`,
		eqDepartment:  `{"type":"eq","key":"department","value":"hr"}`,
		nested:        strings.Replace(nested, `{"claim":"departments"}`, `["hr","it"]`, 1),
	} {
		f := claimFilter(t, text)
		if slices.Collect(f.Claims) == nil || f.Match(map[string]any{"department": "hr"}) || f.Match(map[string]any{"department": `{"claim":"department"}`}) {
			t.Errorf("%s matches without claims", text)
		}
		got, err := f.WithClaims(claims)
		wanted, parseErr := filter.Parse([]byte(want))
		if err != nil || parseErr != nil || got.String() != wanted.String() || !got.Match(map[string]any{"department": "hr"}) || slices.Collect(got.Claims) != nil {
			t.Errorf("%s: %s, %v; want %s", text, got, err, wanted)
		}
		if again := claimFilter(t, text).String(); f.String() != again {
			t.Errorf("%s was changed to %s", again, f)
		}
	}
	plain, err := filter.Parse([]byte(`{"type":"eq","key":"a","value":"${claims.b}"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := plain.WithClaims(nil); got != plain || err != nil || !got.Match(map[string]any{"a": "${claims.b}"}) {
		t.Errorf("a filter without claims: %s, %v", got, err)
	}
	if got, err := (*filter.Filter)(nil).WithClaims(nil); got != nil || err != nil {
		t.Errorf("no filter: %s, %v", got, err)
	}
}

// A claim that is missing or does not fit its filter is an error, and never results in no filter.
func TestMissingClaims(t *testing.T) {
	many := make([]string, 1025)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, claims := range []map[string][]string{
		nil, {}, {"other": {"hr"}}, {"departments": nil, "department": {}},
		{"departments": {""}, "department": {""}}, {"departments": {"hr", ""}, "department": {"hr", "it"}},
		{"departments": many, "department": many}, {"departments": {strings.Repeat("x", 1025)}, "department": {strings.Repeat("x", 1025)}},
		{"Departments": {"hr"}, "Department": {"hr"}},
	} {
		for _, text := range []string{inDepartments, eqDepartment, `{"type":"or","filters":[{"type":"eq","key":"a","value":1},` + eqDepartment + `]}`} {
			f, err := claimFilter(t, text).WithClaims(claims)
			if e := (*filter.ClaimError)(nil); !errors.As(err, &e) || f != nil || !strings.HasPrefix(string(e.Claim), "department") || strings.Contains(err.Error(), "xxx") {
				t.Errorf("%s with %.60v: %s, %v", text, claims, f, err)
			}
		}
	}
}

func TestClaimsOnlyWhereTheyBelong(t *testing.T) {
	for _, text := range []string{
		`{"type":"ne","key":"a","value":{"claim":"b"}}`, `{"type":"nin","key":"a","value":{"claim":"b"}}`,
		`{"type":"prefix","key":"a","value":{"claim":"b"}}`, `{"type":"gte","key":"a","value":{"claim":"b"}}`,
		`{"type":"in","key":"a","value":[{"claim":"b"}]}`, `{"type":"eq","key":{"claim":"b"},"value":1}`,
		`{"type":"eq","key":"a","value":{"claim":""}}`, `{"type":"eq","key":"a","value":{"claim":1}}`, `{"type":"eq","key":"a","value":{"claim":"b","c":1}}`,
	} {
		if f, err := filter.ParseWithClaims([]byte(text)); err == nil {
			t.Errorf("%s: %s", text, f)
		}
	}
	for _, text := range []string{inDepartments, eqDepartment} { // in a request
		if f, err := filter.Parse([]byte(text)); err == nil {
			t.Errorf("%s: %s", text, f)
		}
	}
}

// T03, T04, T07: whatever a caller's claims are, no document of another department matches, and
// callers who may see different documents have different filters, which are part of cache keys.
func TestClaimsKeepDocumentsApart(t *testing.T) {
	departments := []string{"hr", "it", "h", "r,it", `hr","it`, "HR", "hr ", "ſ", "${claims.departments}"}
	set := rapid.SliceOfNDistinct(rapid.SampledFrom(departments), 1, 4, rapid.ID)
	f, extra := claimFilter(t, inDepartments), claimFilter(t, `{"type":"ne","key":"draft","value":true}`)
	rapid.Check(t, func(t *rapid.T) {
		mine, others := set.Draw(t, "mine"), set.Draw(t, "others")
		of := func(values []string) *filter.Filter {
			got, err := f.WithClaims(map[string][]string{"departments": values, "department": {"hr"}})
			if err != nil {
				t.Fatal(err)
			}
			return filter.AllOf(got, extra)
		}
		document := map[string]any{"department": any(rapid.SampledFrom(departments).Draw(t, "department"))}
		if rapid.Bool().Draw(t, "several") {
			document["department"] = set.Draw(t, "departments")
		}
		if rapid.Bool().Draw(t, "draft") {
			document["draft"] = true
		}
		allowed := document["draft"] == nil && slices.ContainsFunc(mine, func(d string) bool {
			list, _ := document["department"].([]string)
			return d == document["department"] || slices.Contains(list, d)
		})
		if of(mine).Match(document) != allowed {
			t.Fatalf("claims %q, document %v: matches %v", mine, document, !allowed)
		}
		a, b := slices.Clone(mine), slices.Clone(others)
		slices.Sort(a)
		slices.Sort(b)
		if same := of(mine).String() == of(others).String(); same != slices.Equal(a, b) {
			t.Fatalf("claims %q and %q have one key: %v", mine, others, same)
		}
	})
}
