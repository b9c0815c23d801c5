package inspector

import (
	"fmt"
	"net/url"
)

// knowledgePath is where bases are listed; below it is a page of each.
const knowledgePath = "/knowledge"

// documentAddress leads to a chunk of a document of a base.
func documentAddress(base, doc string, chunk int) string {
	return fmt.Sprintf("%s/%s/document?id=%s&chunk=%d#chunk-%[4]d", knowledgePath, url.PathEscape(base), url.QueryEscape(doc), chunk)
}
