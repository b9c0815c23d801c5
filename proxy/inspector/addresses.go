package inspector

import (
	"fmt"
	"net/url"
)

// knowledgePath is where bases are listed; below it is a page of each.
const knowledgePath = "/knowledge"

// baseAddress leads to a base.
func baseAddress(name string) string { return knowledgePath + "/" + url.PathEscape(name) }

// tenantAddress leads to a tenant, policyAddress to a policy.
func tenantAddress(name string) string { return tenantsPath + "/" + url.PathEscape(name) }
func policyAddress(name string) string { return policiesPath + "/" + url.PathEscape(name) }

// askAddress leads to where a request can be asked again.
func askAddress(id string) string { return requestsPath + "/" + url.PathEscape(id) + "/ask" }

// documentAddress leads to a chunk of a document of a base.
func documentAddress(base, doc string, chunk int) string {
	return fmt.Sprintf("%s/%s/document?id=%s&chunk=%d#chunk-%[4]d", knowledgePath, url.PathEscape(base), url.QueryEscape(doc), chunk)
}
