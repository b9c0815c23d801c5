package inspector

import (
	"fmt"
	"net/url"
)

// knowledgePath is the path of the list of bases; each base has a page below it.
const knowledgePath = "/knowledge"

// baseAddress returns the path of a base's page.
func baseAddress(name string) string { return knowledgePath + "/" + url.PathEscape(name) }

// tenantAddress returns the path of a tenant's page, policyAddress that of a policy's.
func tenantAddress(name string) string { return tenantsPath + "/" + url.PathEscape(name) }
func policyAddress(name string) string { return policiesPath + "/" + url.PathEscape(name) }

// askAddress returns the path of the form for asking a request again.
func askAddress(id string) string { return requestsPath + "/" + url.PathEscape(id) + "/ask" }

// documentAddress returns the URL of a chunk of a document.
func documentAddress(base, doc string, chunk int) string {
	return fmt.Sprintf("%s/%s/document?id=%s&chunk=%d#chunk-%[4]d", knowledgePath, url.PathEscape(base), url.QueryEscape(doc), chunk)
}
