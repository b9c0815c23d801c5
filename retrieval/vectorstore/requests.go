package vectorstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/services"
)

// apiURL returns the base URL of the API, including /v1.
func apiURL(base *url.URL) string {
	text := strings.TrimSuffix(base.String(), "/")
	if !strings.HasSuffix(text, "/v1") {
		text += "/v1"
	}
	return text
}

// An api sends the requests of this package.
type api struct {
	*services.Remote
	path string // of the store, escaped
}

func newAPI(client *services.Remote, store string) api {
	return api{client, storePath(store)}
}

func storePath(store string) string { return "/vector_stores/" + url.PathEscape(store) }

// A request is the body of a search. Joint is for a Sidenote that says that it takes it.
type request struct {
	Query         string         `json:"query"`
	MaxNumResults int            `json:"max_num_results"`
	Filters       *filter.Filter `json:"filters,omitempty"`
	Joint         *jointRequest  `json:"sidenote,omitempty"`
}

// A jointRequest asks a Sidenote for the candidates in all stores of the path, ranked as one.
type jointRequest struct {
	Turns       []jointTurn `json:"turns,omitempty"` // last first
	DenseWeight float64     `json:"dense_weight,omitempty"`
	Fusion      string      `json:"fusion,omitempty"`
}

type jointTurn struct {
	Text   string  `json:"text"`
	Weight float64 `json:"weight"`
}

// search returns the answer to a search in one store, or in several of a Sidenote.
func (a api) search(ctx context.Context, r request, stores ...string) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode question: %w", err)
	}
	return a.Call(ctx, http.MethodPost, storePath(strings.Join(stores, ","))+"/search", body)
}

// state returns the state of the store.
func (a api) state(ctx context.Context) ([]byte, error) {
	return a.Ask(ctx, http.MethodGet, a.path, nil)
}

// files returns the page of the store's files after the given one; "" is the first page.
func (a api) files(ctx context.Context, after string) ([]byte, error) {
	query := url.Values{"limit": {strconv.Itoa(filesOfPage)}}
	if after != "" {
		query.Set("after", after)
	}
	return a.Ask(ctx, http.MethodGet, a.path+"/files?"+query.Encode(), nil)
}

// file returns the metadata of a file.
func (a api) file(ctx context.Context, id string) ([]byte, error) {
	return a.Call(ctx, http.MethodGet, a.path+"/files/"+url.PathEscape(id), nil)
}

// content returns a page of the text of a file; "" is the first page.
func (a api) content(ctx context.Context, id, page string) ([]byte, error) {
	path := a.path + "/files/" + url.PathEscape(id) + "/content"
	if page != "" {
		path += "?" + url.Values{"page": {page}}.Encode()
	}
	return a.Call(ctx, http.MethodGet, path, nil)
}

// badRequest reports whether an API does not accept a request.
func badRequest(err error) bool {
	var e *services.StatusError
	return errors.As(err, &e) && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity)
}

// Limitations of an API regarding filters.
const (
	strays  = "ignores filters, or returns no attributes; results that cannot be checked against the filter are dropped"
	refuses = "rejects a filter of a policy; searches with this filter find nothing"
)
