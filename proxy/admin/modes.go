package admin

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// ModePath is where the kill switch is read (GET) and set (POST).
const ModePath = "/v1/mode"

// ModeAuto is the mode of a SwitchMode that removes an entry, so that the policy's mode applies
// again.
const ModeAuto = "auto"

// A SwitchMode is the body of a POST to ModePath.
type SwitchMode struct {
	Mode   string `json:"mode"`             // off, shadow, inject, tools or staged; auto removes the entry
	Tenant string `json:"tenant,omitempty"` // "" for every tenant without its own entry
	For    string `json:"for,omitempty"`    // a duration such as 30m; "" means until it is removed
}

// Modes is the answer at ModePath: the current entries.
type Modes struct {
	Object string         `json:"object"` // "list"
	Data   []SwitchedMode `json:"data"`
	// NotPersisted is why the entries would be lost in a restart; "" if they would not.
	NotPersisted string `json:"unkept,omitempty"`
}

// A SwitchedMode limits the mode of a tenant.
type SwitchedMode struct {
	Tenant string    `json:"tenant,omitempty"` // "" for every tenant without its own entry
	Mode   string    `json:"mode"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // absent: until it is removed
}

// Limits of the time for which a mode may be switched.
const (
	minSwitched = time.Second
	maxSwitched = 365 * 24 * time.Hour
)

// A switching serves ModePath.
type switching struct {
	request
	modes   *tenant.Switch
	tenants *tenant.Directory
}

// endpoint returns the endpoint for a method.
func (s switching) endpoint(method string) endpoint {
	return byMethod(method, endpoint{method: "GET", path: ModePath, handle: s.show}, endpoint{method: "POST", path: ModePath, handle: s.set})
}

func (s switching) show(ctx *fasthttp.RequestCtx) error {
	out := Modes{Object: "list", Data: []SwitchedMode{}}
	for _, e := range s.modes.Entries(time.Now()) {
		out.Data = append(out.Data, SwitchedMode{e.Tenant, e.Mode.String(), e.Since, e.Until})
	}
	if err := s.modes.PersistError(); err != nil {
		out.NotPersisted = err.Error()
	}
	return writeJSON(ctx, fasthttp.StatusOK, out)
}

// set sets the highest mode of a tenant or of all, or removes that entry.
func (s switching) set(ctx *fasthttp.RequestCtx) error {
	var asked SwitchMode
	if err := readObject(ctx, "a mode to switch to", &asked); err != nil {
		return err
	}
	if asked.Mode == ModeAuto {
		if asked.For != "" {
			return optionError("for", "The mode auto removes the override at once and takes no duration.")
		}
		before := s.entry(asked.Tenant)
		if !s.modes.Reset(asked.Tenant) {
			return Refuse(fasthttp.StatusNotFound, "not_found", "Nothing is set for %s.", tenantOrAll(asked.Tenant))
		}
		s.switched(ctx, asked.Tenant, before, ModeAuto)
		return s.show(ctx)
	}
	mode, err := rewrite.ParseMode(asked.Mode)
	if err != nil {
		return optionError("mode", "%q is not a mode; use off, shadow, inject, tools or staged, or auto to take back what was set.", asked.Mode)
	}
	if asked.Tenant != "" && s.tenants.ByName(asked.Tenant) == nil {
		return optionError("tenant", "There is no tenant %q.", asked.Tenant)
	}
	e := tenant.SwitchEntry{Tenant: asked.Tenant, Mode: mode, Since: time.Now()}
	if asked.For != "" {
		d, err := time.ParseDuration(asked.For)
		if err != nil || d < minSwitched || d > maxSwitched {
			return optionError("for", "%q is not a time between %s and %s; write it as in 30m.", asked.For, minSwitched, maxSwitched)
		}
		e.Until = e.Since.Add(d)
	}
	before := s.entry(asked.Tenant)
	s.modes.Set(e)
	s.switched(ctx, asked.Tenant, before, e.String())
	return s.show(ctx)
}

// entry describes what is set for a tenant.
func (s switching) entry(tenant string) string {
	for _, e := range s.modes.Entries(time.Now()) {
		if e.Tenant == tenant {
			return e.String()
		}
	}
	return ModeAuto
}

func (s switching) switched(ctx *fasthttp.RequestCtx, tenant, before, after string) {
	s.record(ctx, audit.Event{Action: audit.Mode, Object: tenantOrAll(tenant), Result: audit.OK, Changes: []audit.Change{audit.NewChange("mode", before, after)}})
}

func tenantOrAll(tenant string) string {
	if tenant == "" {
		return "all tenants"
	}
	return fmt.Sprintf("tenant %q", tenant)
}
