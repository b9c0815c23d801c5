package explain

import (
	"context"
	"fmt"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// Knowledge is what can be looked into. It is safe for concurrent use once its fields are set.
type Knowledge struct {
	Tenants    *tenant.Directory
	Bases      func() []string       // returns the ids of all bases
	Thresholds []retrieval.Threshold // of all bases, for searches as no tenant
	Retriever  retrieval.Retriever   // as requests ask it
	Reader     retrieval.Reader
	Stores     Stores                                             // nil: nobody knows what bases hold
	Planners   *proxy.Planners                                    // nil: nothing is planned, reranked or graded
	Model      func(name string) rewrite.Model                    // counts the tokens of what is read
	Describe   func(ctx context.Context, id string) (Base, error) // tells how a base does

	// Explainer tells why the embedded bases of a query answer it as they do; nil: nothing does.
	Explainer func(ctx context.Context, q retrieval.Query) (retrieval.Explained, error)
}

// A Viewer is somebody who looks, with what may be seen.
type Viewer struct {
	Tenant   string
	Bases    []string
	Filter   *filter.Filter     // of the documents; nil is all of them
	Settings retrieval.Settings // of searches
}

// Viewer returns who looks as a tenant. nil is everything, by default settings.
func (k *Knowledge) Viewer(tenant *string) (Viewer, error) {
	if tenant == nil {
		settings := retrieval.DefaultSettings()
		settings.Thresholds = k.Thresholds
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

// PolicyOf returns the policy of a tenant; "" stands for callers without a key.
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
