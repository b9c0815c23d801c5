package enginetest

import (
	"net/url"
	"os"
	"sync"
	"testing"
)

// OpenSearch returns the address of an OpenSearch that the tests of a binary share. It is
// $SIDENOTE_TEST_OPENSEARCH, or else that of a server that ends with the test binary. Where none can be
// had the test is skipped, but fails if $CI is set.
func OpenSearch(t testing.TB) *url.URL {
	t.Helper()
	p, err := sharedOpenSearch()
	if err != nil {
		missing(t, err)
	}
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var sharedOpenSearch = sync.OnceValues(func() (*process, error) {
	if address := os.Getenv("SIDENOTE_TEST_OPENSEARCH"); address != "" {
		return &process{url: address}, nil
	}
	return runEngine("opensearch")
})
