package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"sidenote/retrieval/filter"
)

// An archive is an API like OpenAI's vector stores, with two documents on bonuses, one of them for
// staff only. It records the filters of searches, and can ignore them.
type archive struct {
	*httptest.Server
	careless bool

	mu    sync.Mutex
	asked []string
}

func newArchive(t *testing.T, careless bool) *archive {
	t.Helper()
	a := &archive{careless: careless}
	a.Server = httptest.NewServer(http.HandlerFunc(a.answer))
	t.Cleanup(a.Close)
	return a
}

func (a *archive) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/files") {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"public","attributes":{"audience":"public"}},{"id":"staff","attributes":{"audience":"staff"}}],"has_more":false}`)
		return
	}
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"id":"vs_1","object":"vector_store","status":"completed","file_counts":{"completed":2,"total":2},"usage_bytes":9}`)
		return
	}
	var q struct{ Filters *filter.Filter }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.asked = append(a.asked, q.Filters.String())
	a.mu.Unlock()
	var data []string
	for _, audience := range []string{"public", "staff"} {
		if attributes := map[string]any{"audience": audience}; a.careless || q.Filters.Match(attributes) {
			data = append(data, fmt.Sprintf(`{"file_id":%q,"filename":"bonus.md","score":0.9,"attributes":{"audience":%q},"content":[{"type":"text","text":"The bonus for %s is large."}]}`,
				audience, audience, audience))
		}
	}
	fmt.Fprintf(w, `{"object":"vector_store.search_results.page","search_query":["q"],"data":[%s],"has_more":false,"next_page":null}`, strings.Join(data, ","))
}

// filters returns the filters of the searches so far, sorted.
func (a *archive) filters() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(slices.Values(a.asked))
}

// readers serves the documents of an archive to two tenants: acme sees those for the public, umbra
// those for its staff.
func readers(t *testing.T, up *recorder, a *archive) *process {
	t.Helper()
	return serve(t, "--config", written(t, "sidenote.yaml", fmt.Sprintf(`
upstreams: {model: %s/v1, archive: %s}
knowledge: {legal: {engine: vector_store, upstream: archive, id: vs_1}}
policies:
  default: {upstream: model, knowledge: [legal], retrieval: {deadline: 10s}}
  staff: {extends: default, filters: [{type: in, key: audience, value: [staff, board]}]}
tenants:
  acme: {keys: ["%x"], filters: [{type: eq, key: audience, value: public}]}
  umbra: {keys: ["%x"], policy: staff}
`, up.URL, a.URL, sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey)))))
}

const (
	onlyPublic = `{"type":"eq","key":"audience","value":"public"}`
	onlyStaff  = `{"type":"in","key":"audience","value":["board","staff"]}`
	notPublic  = `{"type":"ne","key":"audience","value":"public"}`
)

// asking returns the question for the bonus with an additional body field.
func asking(field string) string {
	return strings.Replace(bonusQuestion, "{", `{"sidenote":`+field+`,`, 1)
}

// However often each tenant asks, and from whatever cache it is answered, neither gets what only
// the other may see, or what its own filter excluded.
func TestFiltersKeepCachesApart(t *testing.T) {
	up, a := newRecorder(t), newArchive(t, false)
	p := readers(t, up, a)
	f := func(key, body string, want ...string) {
		t.Helper()
		if status, answer := posted(t, p.data+"/v1/chat/completions", key, body); status != 200 {
			t.Fatalf("%d, %s", status, answer)
		}
		var got []string
		for _, audience := range []string{"public", "staff"} {
			if bytes.Contains(up.last(t).body, []byte("The bonus for "+audience)) {
				got = append(got, audience)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s of %s: got %q, want %q", body, key, got, want)
		}
	}
	for range 3 {
		f(acmeKey, bonusQuestion, "public")
		f(umbraKey, bonusQuestion, "staff")
		f(acmeKey, asking(`{"filters":`+notPublic+`}`))
		f(umbraKey, asking(`{"filters":`+notPublic+`}`), "staff")
	}
	// That took one search for each different filter.
	want := []string{
		`{"type":"and","filters":[` + onlyPublic + `,` + notPublic + `]}`, `{"type":"and","filters":[` + onlyStaff + `,` + notPublic + `]}`,
		onlyPublic, onlyStaff,
	}
	if got := a.filters(); !slices.Equal(got, want) {
		t.Errorf("searches under %q, want %q", got, want)
	}
}

// A request whose filter cannot be read is refused, and the error says where; under a policy with
// filters, so is a request that can be read in two ways.
func TestFiltersOfRequests(t *testing.T) {
	up, a := newRecorder(t), newArchive(t, false)
	p := readers(t, up, a)
	before := up.count() // start-up looks whether it is there
	for body, want := range map[string]string{
		asking(`{"filters":{"type":"eq","key":"a","value":[1]}}`):            `"param":"sidenote.filters.value","code":"invalid_option"`,
		asking(`{"filters":[` + onlyStaff + `]}`):                            `"param":"sidenote.filters","code":"invalid_option"`,
		asking(`{"filters":` + onlyPublic + `,"filters":` + onlyStaff + `}`): `"param":"sidenote.filters","code":"invalid_option"`,
		`{"messages":[],"messages":[]}`:                                      `"code":"ambiguous_body"`,
		`not json`:                                                           `"code":"not_json"`,
	} {
		if status, answer := posted(t, p.data+"/v1/chat/completions", acmeKey, body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d, %s; want %s", body, status, answer, want)
		}
	}
	if up.count() > before || len(a.filters()) > 0 {
		t.Error("what was refused went on")
	}
	if _, dry := posted(t, p.admin+"/v1/rewrite?tenant=umbra", "", bonusQuestion); !strings.Contains(dry, `"filters":`+onlyStaff) {
		t.Errorf("the ledger does not show the filter: %s", dry)
	}
}

// Results of an API that ignores filters are checked against the policy, and the API is reported.
func TestFiltersOfACarelessAPI(t *testing.T) {
	up, a := newRecorder(t), newArchive(t, true)
	p := readers(t, up, a)
	if status, answer := posted(t, p.data+"/v1/chat/completions", acmeKey, bonusQuestion); status != 200 {
		t.Fatalf("%d, %s", status, answer)
	}
	if got := string(up.last(t).body); !strings.Contains(got, "for public") || strings.Contains(got, "for staff") {
		t.Errorf("sent %s", got)
	}
	p.out.until(t, "ignores filters")
	if code, body := get(t, p.admin+"/readyz"); code != 200 || !strings.Contains(body, `"status":"degraded"`) || !strings.Contains(body, "ignores filters") {
		t.Errorf("readyz: %d, %s", code, body)
	}
}

// The official SDK searches with filters, for all and as a tenant.
func TestSDKFilters(t *testing.T) {
	a := newArchive(t, false)
	p := readers(t, newRecorder(t), a)
	sdk := adminClient(p)
	is := func(kind shared.ComparisonFilterType, value string) shared.ComparisonFilterParam {
		return shared.ComparisonFilterParam{Key: "audience", Type: kind, Value: shared.ComparisonFilterValueUnionParam{OfString: openai.String(value)}}
	}
	one := func(f shared.ComparisonFilterParam) openai.VectorStoreSearchParamsFiltersUnion {
		return openai.VectorStoreSearchParamsFiltersUnion{OfComparisonFilter: &f}
	}
	staff, nobody := is("eq", "staff"), is("eq", "nobody")
	either := shared.CompoundFilterParam{Type: "or", Filters: []shared.CompoundFilterFilterUnionParam{{OfComparison: &staff}, {OfComparison: &nobody}}}
	f := func(tenant string, filters openai.VectorStoreSearchParamsFiltersUnion, want ...string) {
		t.Helper()
		ask := searchFor("How large is the bonus?")
		ask.Filters = filters
		var as []option.RequestOption
		if tenant != "" {
			as = append(as, option.WithQuery("tenant", tenant))
		}
		page, err := sdk.VectorStores.Search(t.Context(), "legal", ask, as...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, hit := range page.Data {
			got = append(got, hit.FileID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q: %s: %q, want %q", tenant, page.RawJSON(), got, want)
		}
	}
	f("", openai.VectorStoreSearchParamsFiltersUnion{}, "public", "staff")
	f("", one(is("eq", "staff")), "staff")
	f("", openai.VectorStoreSearchParamsFiltersUnion{OfCompoundFilter: &either}, "staff")
	f("acme", openai.VectorStoreSearchParamsFiltersUnion{}, "public")
	f("acme", one(is("ne", "staff")), "public")
	f("acme", one(is("eq", "staff")))
	f("umbra", openai.VectorStoreSearchParamsFiltersUnion{}, "staff")

	wrong := searchFor("bonus")
	wrong.Filters = one(is("like", "staff"))
	var api *openai.Error
	if _, err := sdk.VectorStores.Search(t.Context(), "legal", wrong); !errors.As(err, &api) || api.StatusCode != 400 || api.Param != "filters.type" {
		t.Errorf("an unknown type: %v", err)
	}
}
