package explain

import (
	"context"
	"fmt"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// Knowledge gives access to the knowledge bases. It is safe for concurrent use once its fields are
// set.
type Knowledge struct {
	Tenants    *tenant.Directory
	Bases      func() []string       // returns the ids of all bases
	Thresholds []retrieval.Threshold // of all bases, for searches without a tenant
	// Hybrid has the DenseWeight and the Fusion of searches without a tenant.
	Hybrid    retrieval.Settings
	Retriever retrieval.Retriever // as used by requests
	Reader    retrieval.Reader
	Stores    Stores                                             // nil: the content of bases is unknown
	Planners  *proxy.Planners                                    // nil: no planning, reranking or grading
	Model     func(name string) model.Model                      // counts the tokens of texts that are read
	Describe  func(ctx context.Context, id string) (Base, error) // describes a base

	// Explainer explains the scores of the embedded bases for a query; may be nil.
	Explainer func(ctx context.Context, q retrieval.Query) (retrieval.Explained, error)
}

// A Viewer is a user of Knowledge and what they may see.
type Viewer struct {
	Tenant   string
	Bases    []string
	Filter   *filter.Filter     // limits the documents; nil allows all
	Settings retrieval.Settings // of searches
}

// Viewer returns the Viewer for a tenant, or for nil one that sees everything, with default
// settings.
func (k *Knowledge) Viewer(tenant *string) (Viewer, error) {
	if tenant == nil {
		settings := retrieval.DefaultSettings()
		settings.Thresholds, settings.DenseWeight, settings.Fusion = k.Thresholds, k.Hybrid.DenseWeight, k.Hybrid.Fusion
		return Viewer{Bases: k.Bases(), Settings: settings}, nil
	}
	p, err := PolicyOf(k.Tenants, *tenant)
	if err != nil {
		return Viewer{}, err
	}
	if err := p.WithoutClaims(); err != nil {
		return Viewer{}, err
	}
	return Viewer{p.Tenant, p.Rewrite.Knowledge, p.Rewrite.Filter, p.Rewrite.Search}, nil
}

// PolicyOf returns the policy of a tenant; "" means callers without a key.
func PolicyOf(tenants *tenant.Directory, name string) (*tenant.Policy, error) {
	p := tenants.ByName(name)
	switch {
	case p == nil && name == "":
		return nil, optionError("tenant", "Callers without a key are refused here; name a tenant by ?tenant=.")
	case p == nil:
		return nil, optionError("tenant", "There is no tenant %q.", name)
	}
	return p, nil
}

// optionError returns the error for one field or parameter.
func optionError(param, format string, args ...any) error {
	return &tenant.APIError{Reason: rewrite.ReasonOption, Param: param, Message: fmt.Sprintf(format, args...)}
}
