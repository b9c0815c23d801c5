package vectorstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// A fake is the transport of an API that can hang, be slow or fail, in fake time.
type fake struct {
	mu       sync.Mutex
	hangs    func(r *http.Request) bool
	takes    time.Duration
	status   int
	open     int // running requests
	most     int // maximum of open
	searches int
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// answers makes it answer with a status, or refuse connections if that is negative.
func (f *fake) answers(status int) { f.set(func() { f.status = status }) }

// counts returns the running requests, their maximum, and the number of searches so far.
func (f *fake) counts() (open, most, searches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open, f.most, f.searches
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.open++
	f.most = max(f.most, f.open)
	search := strings.HasSuffix(r.URL.Path, "/search")
	if search {
		f.searches++
	}
	hangs, takes, status := f.hangs != nil && f.hangs(r), f.takes, f.status
	f.mu.Unlock()
	defer f.set(func() { f.open-- })
	if hangs {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	switch {
	case status < 0:
		return nil, errors.New("refused")
	case status == 0:
		status = 200
	}
	body := `{"id":"vs","data":[]}`
	if search {
		body = `{"data":[{"file_id":"a","content":[{"text":"x"}]}]}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// asking returns a base over a fake, without reading of the state in the background.
func asking(t *testing.T) (*Base, *fake) {
	t.Helper()
	f := &fake{}
	b, _ := newBase(Options{
		Knowledge: "legal", Store: "vs", Neutralise: clean, Timeout: DefaultTimeout,
		BaseURL: &url.URL{Scheme: "http", Host: "api.test"},
	})
	b.api.HTTP.Transport = f
	close(b.ended)
	t.Cleanup(func() { _ = b.Close() })
	return b, f
}

// search searches like a cache: without a deadline of its own.
func search(b *Base) (retrieval.Result, error) {
	return b.Retrieve(context.Background(), retrieval.Query{Text: "leave"})
}

func hangAll(*http.Request) bool { return true }

// Whatever the rate of questions, a store that hangs gets a limited number of calls; after a
// second nobody waits for it, and it is used again within two seconds of its recovery.
func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := asking(t)
		if _, err := search(b); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.hangs = hangAll })
		var mu sync.Mutex
		pending, mostPending, busy := 0, 0, 0
		ask := func() {
			mu.Lock()
			pending++
			mostPending = max(mostPending, pending)
			mu.Unlock()
			_, err := search(b)
			mu.Lock()
			defer mu.Unlock()
			pending--
			if errors.Is(err, services.ErrBusy) {
				busy++
			}
			if !errors.Is(err, retrieval.ErrUnavailable) {
				t.Errorf("%v does not wrap ErrUnavailable", err)
			}
		}
		start := time.Now()
		for time.Since(start) < 1100*time.Millisecond { // about a thousand questions a second
			go ask()
			<-time.After(time.Millisecond)
		}
		synctest.Wait()
		mu.Lock()
		if _, most, _ := f.counts(); most > services.MaxCalls+2 || mostPending > services.MaxWaiting+services.MaxCalls || busy == 0 {
			t.Errorf("%d calls at a time, %d callers, %d turned away", most, mostPending, busy)
		}
		mu.Unlock()
		if !b.Skips() || len(b.Trouble()) != 1 || !strings.Contains(b.Trouble()[0], "no answer in time") {
			t.Errorf("after a second: skips %v, trouble %q", b.Skips(), b.Trouble())
		}
		f.set(func() { f.searches = 0 })
		for range 5000 {
			asked := time.Now()
			if res, err := search(b); !errors.Is(err, services.ErrDown) || res.Reason != retrieval.ReasonError || time.Since(asked) > 0 {
				t.Errorf("%q, %v after %v", res.Reason, err, time.Since(asked))
				break
			}
			<-time.After(time.Millisecond)
		}
		if _, _, n := f.counts(); n > 0 {
			t.Errorf("%d searches of a store that does not answer", n)
		}

		f.set(func() { f.hangs = nil })
		back := time.Now()
		for _, err := search(b); err != nil; _, err = search(b) {
			<-time.After(time.Millisecond)
		}
		if took := time.Since(back); took > 2*time.Second || b.Skips() || b.Trouble() != nil {
			t.Errorf("used again after %v, skips %v, trouble %q", took, b.Skips(), b.Trouble())
		}
		for range 2 * services.MaxCalls { // all places are free again
			if _, err := search(b); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(DefaultTimeout) // hanging calls time out
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if open, _, _ := f.counts(); pending > 0 || open > 0 {
			t.Errorf("left: %d callers, %d requests", pending, open)
		}
	})
}

// A store that reports its state but does not answer searches gets one trial search at a time.
func TestStoreThatDoesNotSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := asking(t)
		f.set(func() { f.hangs = func(r *http.Request) bool { return r.Method == http.MethodPost } })
		start := time.Now()
		for time.Since(start) < 20*time.Second {
			go func() { _, _ = search(b) }()
			<-time.After(10 * time.Millisecond)
		}
		if _, _, n := f.counts(); n > services.MaxCalls+20 { // then about one a second
			t.Errorf("%d searches in 20 s", n)
		}
		f.set(func() { f.hangs = nil })
		back := time.Now()
		for _, err := search(b); err != nil; _, err = search(b) {
			<-time.After(time.Millisecond)
		}
		if took := time.Since(back); took > 3*time.Second { // the last trial search must time out first
			t.Errorf("used again after %v", took)
		}
		<-time.After(DefaultTimeout)
		synctest.Wait()
	})
}

// Five failures in a row open the breaker, and so do three over a second; fewer failures, and
// other outcomes, do not.
func TestWhatOpensTheBreaker(t *testing.T) {
	f := func(what string, opens bool, run func(b *Base, f *fake)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b, f := asking(t)
			run(b, f)
			synctest.Wait()
			if b.Skips() != opens {
				t.Errorf("%s: skips %v, want %v", what, b.Skips(), opens)
			}
			<-time.After(2 * DefaultTimeout)
			synctest.Wait()
		})
	}
	times := func(n int, b *Base) {
		for range n {
			_, _ = search(b)
		}
	}
	for _, status := range []int{500, 502, 503, 504, 429, -1} {
		f(fmt.Sprintf("five times %d", status), true, func(b *Base, f *fake) { f.answers(status); times(5, b) })
		f(fmt.Sprintf("four times %d", status), false, func(b *Base, f *fake) { f.answers(status); times(4, b) })
	}
	for _, status := range []int{400, 401, 403, 404, 422} {
		f(fmt.Sprintf("an answer of %d", status), false, func(b *Base, f *fake) { f.answers(status); times(20, b) })
	}
	f("three over a second", true, func(b *Base, f *fake) {
		f.answers(500)
		for range 3 {
			times(1, b)
			<-time.After(550 * time.Millisecond)
		}
	})
	f("two over a second", false, func(b *Base, f *fake) {
		f.answers(500)
		times(1, b)
		<-time.After(time.Second)
		times(1, b)
	})
	f("four, one that works, four", false, func(b *Base, f *fake) {
		f.answers(500)
		times(4, b)
		f.answers(200)
		times(1, b)
		f.answers(500)
		times(4, b)
	})
	ask := func(b *Base, n int, within time.Duration) {
		for range n {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			_, _ = b.Retrieve(ctx, retrieval.Query{Text: "leave"})
			cancel()
		}
	}
	f("callers whose time is up", true, func(b *Base, f *fake) { f.set(func() { f.hangs = hangAll }); ask(b, 5, 300*time.Millisecond) })
	f("callers who had none", false, func(b *Base, f *fake) { f.set(func() { f.hangs = hangAll }); ask(b, 20, 40*time.Millisecond) })
	f("callers who left", false, func(b *Base, f *fake) {
		f.set(func() { f.hangs = hangAll })
		for range 20 {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(500*time.Millisecond, cancel)
			_, _ = b.Retrieve(ctx, retrieval.Query{Text: "leave"})
		}
	})
}

// A store that is slow but answers is used: late answers are cached for the next request.
func TestSlowStoreIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := asking(t)
		f.set(func() { f.takes = 2 * time.Second })
		if _, err := search(b); err != nil { // alone: three failures are needed to open
			t.Fatal(err)
		}
		for range 5 {
			var all sync.WaitGroup
			for range services.MaxCalls {
				all.Go(func() {
					if _, err := search(b); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			<-time.After(10 * time.Second)
		}
	})
}

// Closing a base while its store is down leaves no goroutine behind.
func TestCloseWhileDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, f := asking(t)
		f.answers(-1)
		for range 5 {
			_, _ = search(b)
		}
		if !b.Skips() {
			t.Error("not open")
		}
	})
}
