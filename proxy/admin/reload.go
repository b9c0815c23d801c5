package admin

import (
	"context"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
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
	Changes []audit.Change   `json:"-"`       // all of these with their values
}

// ReloadEvent returns the event of a reload.
func ReloadEvent(changed Reloaded, err error) audit.Event {
	if err != nil {
		return audit.Event{Action: audit.Reload, Result: audit.Refused, Reason: strings.Join(strings.Fields(err.Error()), " ")}
	}
	return audit.Event{Action: audit.Reload, Result: audit.OK, Changes: changed.Changes}
}

// A ReloadedTenant is a tenant that has changed.
type ReloadedTenant struct {
	Tenant string   `json:"tenant"`
	Change string   `json:"change"`         // added, removed or changed
	Keys   []string `json:"keys,omitempty"` // changed keys of the tenant and its policy
}

// reloadWait limits the time of a reload.
const reloadWait = time.Minute

// reload reloads the configuration.
func (r request) reload(ctx *fasthttp.RequestCtx) error {
	wait, cancel := context.WithTimeout(context.Background(), reloadWait)
	defer cancel()
	changed, err := r.Reload(wait)
	r.record(ctx, ReloadEvent(changed, err))
	if err != nil {
		return &Refusal{Status: fasthttp.StatusUnprocessableEntity, Code: "invalid_configuration", Message: err.Error(), Err: err}
	}
	return writeJSON(ctx, fasthttp.StatusOK, changed)
}
