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
	return address(t, sharedOpenSearch)
}

// Elasticsearch returns the address of an Elasticsearch as OpenSearch does; it may be in
// $SIDENOTE_TEST_ELASTICSEARCH.
func Elasticsearch(t testing.TB) *url.URL {
	t.Helper()
	return address(t, sharedElasticsearch)
}

func address(t testing.TB, shared func() (*process, error)) *url.URL {
	t.Helper()
	p, err := shared()
	if err != nil {
		missing(t, err)
	}
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

var (
	sharedOpenSearch    = sync.OnceValues(func() (*process, error) { return givenOrRun("SIDENOTE_TEST_OPENSEARCH", "opensearch") })
	sharedElasticsearch = sync.OnceValues(func() (*process, error) { return givenOrRun("SIDENOTE_TEST_ELASTICSEARCH", "elasticsearch") })
)

// givenOrRun returns the engine whose address a variable holds, or runs one.
func givenOrRun(variable, name string) (*process, error) {
	if address := os.Getenv(variable); address != "" {
		return &process{url: address}, nil
	}
	return runEngine(name)
}
