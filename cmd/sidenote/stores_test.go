package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// adminClient returns the official SDK for the admin port.
func adminClient(p *process, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(p.admin + "/v1"), option.WithAPIKey("sk-test"), option.WithMaxRetries(0),
	}, opts...)...)
}

func searchFor(text string) openai.VectorStoreSearchParams {
	return openai.VectorStoreSearchParams{Query: openai.VectorStoreSearchParamsQueryUnion{OfString: openai.String(text)}}
}

// The official SDK searches a base by itself.
func TestSDKSearchesStores(t *testing.T) {
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", handbook(t))
	sdk := adminClient(p)
	var resp *http.Response
	page, err := sdk.VectorStores.Search(t.Context(), "handbook", searchFor("How many weeks of parental leave?"), option.WithResponseInto(&resp))
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) == 0 || string(page.Object) != "vector_store.search_results.page" {
		t.Fatalf("%+v", page)
	}
	best := page.Data[0]
	if best.FileID != "leave.md" || best.Filename != "leave.md" || !strings.Contains(best.Content[0].Text, "16 weeks") || best.Content[0].Type != "text" {
		t.Errorf("best: %s", best.RawJSON())
	}
	if best.Score < 0.5 || best.Score >= 1 {
		t.Errorf("score %v", best.Score)
	}
	if best.Attributes["sidenote_section"].OfString != "Parental leave" || best.Attributes["sidenote_name"].OfString != "Leave policy" || best.Attributes["sidenote_chunk"].OfFloat != 0 {
		t.Errorf("attributes: %s", best.RawJSON())
	}

	few := searchFor("book a train, or parental leave?")
	few.MaxNumResults, few.RewriteQuery = openai.Int(1), openai.Bool(true)
	few.RankingOptions.Ranker = "auto"
	if page, err := sdk.VectorStores.Search(t.Context(), "handbook", few); err != nil || len(page.Data) != 1 {
		t.Errorf("one result: %v, %v", page, err)
	}
	few.RankingOptions.ScoreThreshold = openai.Float(1)
	if page, err := sdk.VectorStores.Search(t.Context(), "handbook", few); err != nil || len(page.Data) != 0 {
		t.Errorf("threshold 1: %v, %v", page, err)
	}
	both := openai.VectorStoreSearchParams{Query: openai.VectorStoreSearchParamsQueryUnion{OfStringArray: []string{"parental leave", "booking flights"}}}
	page, err = sdk.VectorStores.Search(t.Context(), "handbook", both)
	if err != nil || len(page.Data) != 2 || page.Data[0].Score < page.Data[1].Score || !strings.Contains(page.RawJSON(), `"search_query":["parental leave","booking flights"]`) {
		t.Errorf("two questions: %v, %v", page, err)
	}
	if page, err := sdk.VectorStores.Search(t.Context(), "handbook", searchFor("zebra")); err != nil || !strings.Contains(page.RawJSON(), `"data":[],"has_more":false,"next_page":null`) {
		t.Errorf("nothing: %v, %v", page, err)
	}
}

// A filter that requires an attribute selects no documents without it.
func TestSDKFiltersOfPlainDocuments(t *testing.T) {
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", handbook(t))
	sdk := adminClient(p)
	ask := searchFor("parental leave")
	for kind, want := range map[shared.ComparisonFilterType]bool{"eq": false, "ne": true} {
		ask.Filters = openai.VectorStoreSearchParamsFiltersUnion{OfComparisonFilter: &shared.ComparisonFilterParam{
			Key: "audience", Type: kind, Value: shared.ComparisonFilterValueUnionParam{OfString: openai.String("staff")},
		}}
		page, err := sdk.VectorStores.Search(t.Context(), "handbook", ask)
		if err != nil || (len(page.Data) > 0) != want {
			t.Errorf("%s: %v, %v", kind, page, err)
		}
	}
	var api *openai.Error
	if _, err := sdk.VectorStores.Search(t.Context(), "nope", searchFor("x")); !errors.As(err, &api) || api.StatusCode != 404 || api.Type != "invalid_request_error" {
		t.Errorf("unknown store: %v", err)
	}
}

// The official SDK lists bases and documents, page by page.
func TestSDKListsStores(t *testing.T) {
	docs := handbook(t)
	if err := os.Mkdir(filepath.Join(docs, "deep er"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 45 {
		if err := os.WriteFile(filepath.Join(docs, "deep er", fmt.Sprintf("%02d#.md", i)), []byte("# Minutes\n\nNothing.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", docs, "--knowledge", "other="+handbook(t))
	sdk := adminClient(p)
	stores, err := sdk.VectorStores.List(t.Context(), openai.VectorStoreListParams{Order: "asc"})
	if err != nil || len(stores.Data) != 2 || stores.Data[0].ID != "handbook" || stores.HasMore {
		t.Fatalf("%+v, %v", stores, err)
	}
	one, err := sdk.VectorStores.Get(t.Context(), "handbook")
	if err != nil || one.RawJSON() != stores.Data[0].RawJSON() {
		t.Errorf("%+v, %v", one, err)
	}
	if one.Name != "handbook" || one.Status != "completed" || one.FileCounts.Completed != 47 || one.FileCounts.Total != 47 ||
		one.UsageBytes < 45*10 || one.CreatedAt == 0 || len(one.Metadata["sidenote_generation"]) != 64 {
		t.Errorf("%s", one.RawJSON())
	}
	for _, order := range []openai.VectorStoreFileListParamsOrder{"asc", "desc"} {
		var ids []string
		pager := sdk.VectorStores.Files.ListAutoPaging(t.Context(), "handbook", openai.VectorStoreFileListParams{Order: order, Limit: openai.Int(10)})
		for pager.Next() {
			ids = append(ids, pager.Current().ID)
		}
		if order == "desc" {
			slices.Reverse(ids)
		}
		if err := pager.Err(); err != nil || len(ids) != 47 || !slices.IsSorted(ids) {
			t.Errorf("%s: %q, %v", order, ids, err)
		}
	}
	file, err := sdk.VectorStores.Files.Get(t.Context(), "handbook", "deep er/07#.md")
	if err != nil || file.Status != "completed" || file.VectorStoreID != "handbook" || file.Attributes["sidenote_name"].OfString != "Minutes" || file.LastError.Message != "" {
		t.Errorf("%+v, %v", file, err)
	}
	var api *openai.Error
	if _, err := sdk.VectorStores.Files.Get(t.Context(), "handbook", "../leave.md"); !errors.As(err, &api) || api.StatusCode != 404 {
		t.Errorf("unknown file: %v", err)
	}
	// An older SDK does not escape the slash of an id.
	resp, err := http.Get(p.admin + "/v1/vector_stores/handbook/files/deep%20er/07%23.md")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"id":"deep er/07#.md"`) {
		t.Errorf("%d, %s, %v", resp.StatusCode, body, err)
	}
}
