package admin

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// ReloadPath is where the configuration is read again.
const ReloadPath = "/v1/reload"

// A Reload reads the configuration again and puts it in force. Its error says what is wrong,
// a line each; nothing has changed then. It is safe for concurrent use.
type Reload func(ctx context.Context) (Reloaded, error)

// Reloaded is the answer at ReloadPath: what has changed.
type Reloaded struct {
	Object  string           `json:"object"` // "reload"
	Tenants []ReloadedTenant `json:"tenants"`
	Keys    []string         `json:"keys"`    // that have changed beside tenants and policies
	Restart []string         `json:"restart"` // that have changed, and keep their value until a restart
}

// A ReloadedTenant is a tenant that has changed.
type ReloadedTenant struct {
	Tenant string   `json:"tenant"`
	Change string   `json:"change"`         // added, removed or changed
	Keys   []string `json:"keys,omitempty"` // of the tenant and its policy, if it has changed
}

// reloadWait is the longest that a reading may take.
const reloadWait = time.Minute

// answer reads the configuration again.
func (r Reload) answer(ctx *fasthttp.RequestCtx) error {
	wait, cancel := context.WithTimeout(context.Background(), reloadWait)
	defer cancel()
	changed, err := r(wait)
	if err != nil {
		return &Refusal{Status: fasthttp.StatusUnprocessableEntity, Code: "invalid_configuration", Message: err.Error(), Err: err}
	}
	return writeJSON(ctx, fasthttp.StatusOK, changed)
}
