package admin

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/audit"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// A trail is the id of a request in the audit; "" as long as no event of it was recorded.
type trail struct{ id string }

// show adds the id to the answer.
func (t *trail) show(ctx *fasthttp.RequestCtx) {
	if t.id != "" {
		ctx.Response.Header.Set(report.HeaderID, t.id)
	}
}

// record records an event of a request.
func (r request) record(ctx *fasthttp.RequestCtx, e audit.Event) {
	of := Requested(ctx, r.Tenants, r.by.Name)
	if r.trail.id == "" {
		r.trail.id = of.Request
	}
	e.Time, e.Token, e.Address, e.Request = of.Time, of.Token, of.Address, r.trail.id
	r.Audit.Record(e)
}

// Requested returns an event with the time, the address, the name of the token and a new id of a
// request. tenants, which may be nil, know trusted proxies.
func Requested(ctx *fasthttp.RequestCtx, tenants *tenant.Directory, token string) audit.Event {
	now := time.Now()
	e := audit.Event{Time: now, Token: token, Request: report.NewID(now)}
	if tenants == nil {
		return e
	}
	if addr := tenants.AddressOf(ctx); addr.IsValid() {
		e.Address = addr.String()
	}
	return e
}

// refusedToken records that a token was used that is unknown, has expired, or does not allow the
// request.
func (r request) refusedToken(ctx *fasthttp.RequestCtx, err error) {
	refusal, _ := errors.AsType[*Refusal](err)
	if !r.by.sent || r.by.Scope != "" && (refusal == nil || refusal.Code != codeScope && refusal.Code != codeReadOnly) {
		return
	}
	r.record(ctx, Ended(audit.Event{Action: audit.Token, Object: string(ctx.Method()) + " " + string(ctx.Path())}, err))
}

// Ended returns an event with its result, which err tells.
func Ended(e audit.Event, err error) audit.Event {
	e.Result, e.Reason = audit.OK, ""
	if err == nil {
		return e
	}
	e.Result, e.Reason = audit.Failed, "internal"
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		if e.Reason = refusal.Code; refusal.Status < fasthttp.StatusInternalServerError {
			e.Result = audit.Refused
		}
	} else if known, ok := errors.AsType[*tenant.APIError](err); ok {
		if e.Reason = string(known.Reason); known.Status() < fasthttp.StatusInternalServerError {
			e.Result = audit.Refused
		}
	}
	return e
}

// Audited returns a Manager that records what is changed by it.
func Audited(m Manager, record func(audit.Event)) Manager { return auditedManager{m, record} }

type auditedManager struct {
	Manager
	record func(audit.Event)
}

func (m auditedManager) ended(action audit.Action, base string, documents []string, err error) {
	m.record(Ended(audit.Event{Action: action, Object: base, Documents: documents}, err))
}

func (m auditedManager) CreateBase(ctx context.Context, id string) (created bool, err error) {
	if created, err = m.Manager.CreateBase(ctx, id); created || err != nil {
		m.ended(audit.CreateBase, id, nil, err)
	}
	return created, err
}

func (m auditedManager) DeleteBase(ctx context.Context, id string) error {
	err := m.Manager.DeleteBase(ctx, id)
	m.ended(audit.DeleteBase, id, nil, err)
	return err
}

func (m auditedManager) Put(ctx context.Context, base string, documents []NewDocument) ([]Written, error) {
	out, err := m.Manager.Put(ctx, base, documents)
	ids := make([]string, len(documents))
	for i := range documents {
		ids[i] = documents[i].ID
	}
	m.ended(audit.Put, base, ids, err)
	return out, err
}

func (m auditedManager) PutFile(ctx context.Context, base string, file NewFile) (WrittenFile, error) {
	out, err := m.Manager.PutFile(ctx, base, file)
	m.ended(audit.Upload, base, []string{file.Name}, err)
	return out, err
}

func (m auditedManager) Remove(ctx context.Context, base, id string) error {
	err := m.Manager.Remove(ctx, base, id)
	m.ended(audit.Delete, base, []string{id}, err)
	return err
}

func (m auditedManager) Forget(ctx context.Context, base string, ids []string) (Forgotten, error) {
	out, err := m.Manager.Forget(ctx, base, ids)
	m.ended(audit.Forget, base, ids, err)
	return out, err
}

func (m auditedManager) Ingest(ctx context.Context, base string, acceptDeletions bool) (int, error) {
	run, err := m.Manager.Ingest(ctx, base, acceptDeletions)
	m.ended(audit.Ingest, base, nil, err)
	return run, err
}
