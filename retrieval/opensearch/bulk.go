package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/services"
)

const (
	bulkBytes = 4 << 20 // after which the operations of a bulk are sent
	// Waits before operations are sent again that the server had no room for, unless it says
	// how long.
	firstWait = 100 * time.Millisecond
	mostWait  = 5 * time.Second
	// mostRetries is reached after half a minute.
	mostRetries = 10
)

var errBusy = errors.New("the server has no room for writes")

// A bulk collects operations on one index and sends them in requests of bounded size. The operations of a
// lease are sent only while it is valid by this process's clock.
type bulk struct {
	lease *lease
	name  string
	ops   [][]byte // each with its line break
	size  int
}

func (l *lease) bulk(index string) *bulk { return &bulk{lease: l, name: index} }

func (b *bulk) index(ctx context.Context, id string, source any) error {
	return b.add(ctx, object{"index": object{"_id": id}}, source)
}

func (b *bulk) update(ctx context.Context, id string, changed object) error {
	return b.add(ctx, object{"update": object{"_id": id, "retry_on_conflict": 3}}, object{"doc": changed})
}

func (b *bulk) delete(ctx context.Context, id string) error {
	return b.add(ctx, object{"delete": object{"_id": id}}, nil)
}

// replace writes a record if it is still as it was read.
func (b *bulk) replace(ctx context.Context, id string, source any, was stored) error {
	if !was.found {
		return b.add(ctx, object{"create": object{"_id": id}}, source)
	}
	return b.add(ctx, object{"index": object{"_id": id, "if_seq_no": was.seq, "if_primary_term": was.primary}}, source)
}

func (b *bulk) add(ctx context.Context, action object, source any) error {
	op := append(mustJSON(action), '\n')
	if source != nil {
		op = append(append(op, mustJSON(source)...), '\n')
	}
	b.ops = append(b.ops, op)
	if b.size += len(op); b.size < bulkBytes {
		return nil
	}
	return b.flush(ctx)
}

// flush sends what was collected. The error is that of the first operation that failed.
func (b *bulk) flush(ctx context.Context) error {
	ops := b.ops
	b.ops, b.size = nil, 0
	wait, tries := firstWait, 0
	for len(ops) > 0 {
		if err := b.lease.keep(ctx); err != nil {
			return err
		}
		again, err := b.send(ctx, ops)
		status, limited := limitedBy(err)
		if err != nil && !limited {
			return err
		}
		if limited {
			again = ops
			wait = max(wait, status.RetryAfter)
		}
		if ops = again; len(ops) == 0 {
			return nil
		}
		if tries++; tries > mostRetries {
			return fmt.Errorf("%d operations: %w", len(ops), errBusy)
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, mostWait)
	}
	return nil
}

// limitedBy reports whether the server refused a request for lack of room.
func limitedBy(err error) (*statusError, bool) {
	e, ok := err.(*statusError)
	return e, ok && e.Status == http.StatusTooManyRequests && !e.full()
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return services.CallError(ctx, ctx.Err())
	}
}

// send sends operations, and returns those that the server had no room for.
func (b *bulk) send(ctx context.Context, ops [][]byte) (again [][]byte, err error) {
	path := "/" + b.name + "/_bulk?require_alias=true&filter_path=errors,items.*.status,items.*.error"
	body, err := b.lease.server.client.call(ctx, "POST", path, bytes.Join(ops, nil))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Errors bool `json:"errors"`
		Items  []map[string]struct {
			Status int             `json:"status"`
			Error  json.RawMessage `json:"error"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Items) != len(ops) {
		return nil, fmt.Errorf("%w: to a bulk of %d operations", errAnswer, len(ops))
	}
	if !answer.Errors {
		return nil, nil
	}
	for i, item := range answer.Items {
		for op, result := range item {
			switch {
			case result.Status == http.StatusTooManyRequests && !blocked(result.Error):
				again = append(again, ops[i])
			case result.Status >= 300 && len(result.Error) > 0:
				return nil, b.failed(ctx, op, result.Status, result.Error)
			}
		}
	}
	return again, nil
}

// blocked reports whether the server refuses writes until people act, as when its disk is full.
func blocked(body []byte) bool {
	kind, _ := causeOf(body)
	return kind == blockedType
}

// failed returns the error of an operation. A conflict means that another writer took over, unless
// the lease is still valid.
func (b *bulk) failed(ctx context.Context, op string, status int, body []byte) error {
	kind, reason := causeOf(body)
	if status == http.StatusConflict {
		if err := b.lease.Renew(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", op, &statusError{Status: status, Type: kind, Reason: reason})
}

// pathOf escapes an id in a path.
func pathOf(id string) string { return url.PathEscape(id) }

var _ engine.Lease = (*lease)(nil)
