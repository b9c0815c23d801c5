package admin

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// ReloadPath is where the configuration is reloaded.
const ReloadPath = "/v1/reload"

// A Reload reloads the configuration. On an error, which has a line for each problem, nothing has
// changed. It is safe for concurrent use.
type Reload func(ctx context.Context) (Reloaded, error)

// Reloaded is the answer at ReloadPath: what has changed.
type Reloaded struct {
	Object  string           `json:"object"` // "reload"
	Tenants []ReloadedTenant `json:"tenants"`
	Keys    []string         `json:"keys"`    // changed keys outside of tenants and policies
	Restart []string         `json:"restart"` // changed keys that keep their value until a restart
}

// A ReloadedTenant is a tenant that has changed.
type ReloadedTenant struct {
	Tenant string   `json:"tenant"`
	Change string   `json:"change"`         // added, removed or changed
	Keys   []string `json:"keys,omitempty"` // changed keys of the tenant and its policy
}

// reloadWait limits the time of a reload.
const reloadWait = time.Minute

// answer reloads the configuration.
func (r Reload) answer(ctx *fasthttp.RequestCtx) error {
	wait, cancel := context.WithTimeout(context.Background(), reloadWait)
	defer cancel()
	changed, err := r(wait)
	if err != nil {
		return &Refusal{Status: fasthttp.StatusUnprocessableEntity, Code: "invalid_configuration", Message: err.Error(), Err: err}
	}
	return writeJSON(ctx, fasthttp.StatusOK, changed)
}
