package services

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Calls that hang, wait or are refused release their place when they end.
func TestPlacesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewRemote(RemoteOptions{BaseURL: "http://api.test", Probe: func(context.Context) error { return errors.New("down") }})
		c.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		defer c.Close()
		busy := make(chan error, 2*MaxWaiting)
		for range 2 * MaxWaiting {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				_, err := c.Call(ctx, http.MethodGet, "/x", nil)
				busy <- err
			}()
		}
		turnedAway := 0
		for range 2 * MaxWaiting {
			if errors.Is(<-busy, ErrBusy) {
				turnedAway++
			}
		}
		if turnedAway == 0 || !c.Skips() || len(c.calls) > 0 || len(c.waiting) > 0 {
			t.Errorf("%d turned away, skips %v, %d calls and %d waiting are left", turnedAway, c.Skips(), len(c.calls), len(c.waiting))
		}
	})
}

// A service is neither called nor probed before its Retry-After, in answer to a call or a probe;
// soon after that it is called again.
func TestRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		status int
		after  func() string
		want   time.Duration
	}{
		"seconds":     {429, func() string { return "7" }, 7 * time.Second},
		"unavailable": {503, func() string { return "7" }, 7 * time.Second},
		"date":        {429, func() string { return in(20 * time.Second) }, 20 * time.Second},
		"too long":    {503, func() string { return "86400" }, maxRetryAfter},
		"far date":    {503, func() string { return in(24 * time.Hour) }, maxRetryAfter},
		"beyond":      {429, func() string { return "99999999999999999999" }, maxRetryAfter},
		"past date":   {429, func() string { return in(-time.Hour) }, 0},
		"none":        {429, func() string { return "" }, 0},
		"words":       {503, func() string { return "soon" }, 0},
		"negative":    {503, func() string { return "-5" }, 0},
		"another":     {500, func() string { return "7" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, probes := 0, 0
				var client *Remote
				client = NewRemote(RemoteOptions{BaseURL: "http://api.test", Probe: func(ctx context.Context) error {
					probes++
					_, err := client.Ask(ctx, http.MethodGet, "/probe", nil)
					return err
				}})
				defer client.Close()
				client.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}
					if calls++; calls == 1 || r.URL.Path == "/probe" && probes == 1 {
						resp.StatusCode = c.status
						resp.Header.Set("Retry-After", c.after())
					}
					return resp, nil
				})
				call := func() error {
					_, err := client.Call(t.Context(), http.MethodGet, "/x", nil)
					return err
				}
				start := time.Now()
				if err := call(); err == nil {
					t.Fatal("want an error")
				}
				if c.want == 0 {
					if err := call(); err != nil || probes > 0 {
						t.Errorf("%v, %d probes; want no pause", err, probes)
					}
					return
				}
				for call() != nil {
					<-time.After(100 * time.Millisecond)
				}
				took, least := time.Since(start), 2*c.want-time.Second // the first probe fails too; dates have whole seconds
				if took < least || took > least+3*time.Second || probes != 2 {
					t.Errorf("asked again after %v and %d probes, want %v", took, probes, least)
				}
			})
		})
	}
}

// A late answer to an earlier call does not end a Retry-After.
func TestRetryAfterOutlastsLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := NewRemote(RemoteOptions{BaseURL: "http://api.test", Probe: func(context.Context) error { return nil }})
		defer client.Close()
		client.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}
			if r.URL.Path == "/slow" {
				<-time.After(500 * time.Millisecond)
			} else {
				resp.StatusCode = http.StatusTooManyRequests
				resp.Header.Set("Retry-After", "3")
			}
			return resp, nil
		})
		slow := make(chan error)
		go func() {
			_, err := client.Call(t.Context(), http.MethodGet, "/slow", nil)
			slow <- err
		}()
		synctest.Wait()
		_, err := client.Call(t.Context(), http.MethodGet, "/x", nil)
		if late := <-slow; err == nil || late != nil || !client.Skips() {
			t.Errorf("%v, %v, skips %v; want an error, none, true", err, late, client.Skips())
		}
		<-time.After(4 * time.Second)
		if client.Skips() {
			t.Error("still skips when the time is over")
		}
	})
}

// CallAs sends the given credential instead of the Remote's key. Its 429s do not count as failures
// of the service, other failures do.
func TestCallAs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status, sent := http.StatusTooManyRequests, ""
		c := NewRemote(RemoteOptions{BaseURL: "http://api.test", Key: func() string { return "ours" }, Probe: func(context.Context) error { return errors.New("down") }})
		c.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("Authorization") + r.Header.Get("Api-Key")
			return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"60"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
		defer c.Close()
		ask := func() error {
			_, err := c.CallAs(t.Context(), http.Header{"Api-Key": {"theirs"}}, http.MethodPost, "/x", nil)
			return err
		}
		for range 10 {
			if err := ask(); err == nil || sent != "theirs" || c.Skips() {
				t.Fatalf("%v, sent %q, skips %v", err, sent, c.Skips())
			}
		}
		if status = http.StatusServiceUnavailable; ask() == nil || !c.Skips() {
			t.Error("a service that wants no calls is called")
		}
	})
}

// Calls to a slow service hang only after the patience of its client.
func TestPatience(t *testing.T) {
	for patience, wantSkips := range map[time.Duration]bool{0: true, 4 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			c := NewRemote(RemoteOptions{BaseURL: "http://api.test", HangAfter: patience, Probe: func(context.Context) error { return errors.New("down") }})
			c.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				<-time.After(3 * time.Second) // fake time
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
			})
			defer c.Close()
			for range someFailures {
				go func() { _, _ = c.Call(t.Context(), http.MethodGet, "/x", nil) }()
			}
			<-time.After(2 * time.Second)
			if c.Skips() != wantSkips {
				t.Errorf("patience of %v: skips %v", patience, c.Skips())
			}
			<-time.After(2 * time.Second)
		})
	}
}

// Error codes and media types of a service are shown unless they quote the credential.
func TestKeyIsNotQuoted(t *testing.T) {
	f := func(status int, media, body, want string) {
		t.Helper()
		c := NewRemote(RemoteOptions{BaseURL: "http://api.test", Probe: func(context.Context) error { return nil }})
		defer c.Close()
		c.HTTP.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		for _, sent := range []http.Header{{"Authorization": {"Bearer sk-Ours-123"}}, {"Api-Key": {"sk-Ours-123"}}} {
			if _, err := c.CallAs(t.Context(), sent, http.MethodPost, "/x", nil); err == nil || err.Error() != want {
				t.Errorf("%d %s %s, sent %v: %v, want %s", status, media, body, sent, err, want)
			}
		}
	}
	f(401, "", `{"error": {"code": "invalid_api_key"}}`, "answered 401 (invalid_api_key)")
	f(401, "", `{"error": {"code": "sk-Ours-123"}}`, "answered 401")
	f(401, "", `{"error": {"code": "bad.SK-ours-123.key"}}`, "answered 401")
	f(401, "", `{"error": {"code": "Ours-123"}}`, "answered 401")
	f(200, "text/html", "no", "answered with text/html that is not JSON")
	f(200, "sk-ours-123/x", "no", "answered with something that is not JSON")
	f(200, "text/ours-123", "no", "answered with something that is not JSON")
}

// A call canceled by its caller, for whatever cause, says nothing about the service.
func TestCallsThatAreEnded(t *testing.T) {
	cut := errors.New("a call beside it has failed")
	hangs := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "[")
			_ = http.NewResponseController(w).Flush()
		}
		hangs <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	c := NewRemote(RemoteOptions{BaseURL: server.URL, Probe: func(context.Context) error { return nil }})
	defer c.Close()
	for i := range 2 * mostFailures {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, http.MethodPost, []string{"/head", "/body"}[i%2], nil)
			ended <- err
		}()
		select {
		case <-hangs:
		case err := <-ended:
			t.Fatalf("call %d is not made: %v", i, err)
		}
		cancel(cut)
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, cut) {
			t.Errorf("ended with %v", err)
		}
	}
	if c.Skips() {
		t.Error("the service is not asked any more")
	}
}
