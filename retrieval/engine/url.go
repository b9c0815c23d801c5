package engine

import (
	"strings"
	"sync"

	"sidenote/retrieval/knowledge/chunk"
)

// mostURLs is how many documents' URLs are remembered.
const mostURLs = 8192

// urls remembers the attribute "url" of documents that searches have found, for citations.
type urls struct {
	mu   sync.Mutex
	kept map[[2]string]string // by base and document
}

// note remembers the URL in the attributes of a document, if there is one.
func (u *urls) note(base, doc, attributes string) {
	if !strings.Contains(attributes, `"url"`) {
		return
	}
	decoded, err := chunk.DecodeAttributes(attributes)
	url, _ := decoded["url"].(string)
	if err != nil || url == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil || len(u.kept) >= mostURLs {
		u.kept = map[[2]string]string{}
	}
	u.kept[[2]string{base, doc}] = url
}

// URL returns the attribute "url" of a document that a search of this process has found; "" if there is
// none, or it is not known.
func (b *Base) URL(doc string) string {
	u := &b.engine.urls
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.kept[[2]string{b.id, doc}]
}
