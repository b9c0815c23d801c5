package redis_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
	"sidenote/retrieval"
)

// A falseRedis stores what it is given. When it lies, it answers reads with what lie makes of the
// true value and of another key's, and the greeting with one reply too many.
type falseRedis struct {
	mu    sync.Mutex
	data  map[string]string
	lie   func(truth, other string) string
	greet func(other string) string
	told  int
}

func (f *falseRedis) answer(args []string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch strings.ToLower(args[0]) {
	case "hello":
		if f.greet != nil {
			f.told++
			return []byte("*0\r\n" + f.greet(f.other("")))
		}
	case "set":
		if !strings.Contains(args[1], ":probe:") {
			f.data[args[1]] = args[2]
		}
	case "getrange":
		truth := f.data[args[1]]
		if f.lie == nil || strings.Contains(args[1], ":probe:") {
			return []byte(bulk(truth))
		}
		f.told++
		return []byte(f.lie(truth, f.other(args[1])))
	}
	return answers(args)
}

// other returns the value of any other key.
func (f *falseRedis) other(key string) string {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(f.data)), func(k string) bool { return k == key })
	if len(keys) == 0 {
		return ""
	}
	return f.data[keys[rand.IntN(len(keys))]]
}

func (f *falseRedis) lies(lie func(truth, other string) string, greet func(other string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lie, f.greet = lie, greet
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// says returns a lie that does not depend on the stored values.
func says(reply string) func(string, string) string {
	return func(string, string) string { return reply }
}

// forgets is a near tier that keeps nothing.
type forgets struct{}

func (forgets) Get(context.Context, string) ([]byte, error)              { return nil, nil }
func (forgets) Set(context.Context, string, []byte, time.Duration) error { return nil }

// Whatever a Redis replies, the results are right.
func TestLiesNeverShow(t *testing.T) {
	half := func(s string) string { return s[:len(s)/2] }
	flipped := func(s string) string {
		b := []byte(s)
		if len(b) > 0 {
			b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		}
		return string(b)
	}
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		lie   func(truth, other string) string
		greet func(other string) string
		mixed bool // an intact value of another key is returned, which must be detected
	}{
		"another key's":         {mixed: true, lie: func(_, other string) string { return bulk(other) }},
		"half":                  {lie: func(truth, _ string) string { return half(bulk(truth)) }},
		"half, as if whole":     {lie: func(truth, _ string) string { return bulk(half(truth)) }},
		"half, then another":    {lie: func(truth, other string) string { return half(bulk(truth)) + bulk(other) + bulk(other) }},
		"halves of two":         {lie: func(truth, other string) string { return bulk(half(truth) + other[len(other)/2:]) }},
		"two as one":            {lie: func(truth, other string) string { return bulk(truth + other) }},
		"two":                   {mixed: true, lie: func(truth, other string) string { return bulk(other) + bulk(truth) }},
		"two, the right first":  {lie: func(truth, other string) string { return bulk(truth) + bulk(other) }},
		"one reply behind":      {mixed: true, greet: bulk},
		"one reply and a half":  {greet: func(other string) string { return half(bulk(other)) }},
		"a flipped bit":         {lie: func(truth, _ string) string { return bulk(flipped(truth)) }},
		"a flipped bit, framed": {lie: func(truth, _ string) string { return flipped(bulk(truth)) }},
		"noise":                 {lie: func(truth, _ string) string { return bulk(noise(len(truth))) }},
		"noise without a frame": {lie: func(truth, _ string) string { return noise(len(truth)) }},
		"a longer frame": {lie: func(truth, other string) string {
			return fmt.Sprintf("$%d\r\n%s\r\n%s", len(truth)+20, truth, bulk(other))
		}},
		"a shorter frame": {lie: func(truth, _ string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(truth)-20, truth) }},
		"as status": {lie: func(_, other string) string {
			return "+" + strings.NewReplacer("\r", "", "\n", "").Replace(other) + "\r\n"
		}},
		"in an array":     {lie: func(_, other string) string { return "*2\r\n" + bulk(other) + bulk(other) }},
		"in arrays":       {lie: func(_, other string) string { return "*1\r\n*1\r\n*1\r\n" + bulk(other) }},
		"nil":             {lie: says("$-1\r\n")},
		"nil array":       {lie: says("*-1\r\n")},
		"empty":           {lie: says("$0\r\n\r\n")},
		"integer":         {lie: says(":7\r\n")},
		"OK":              {lie: says("+OK\r\n")},
		"an error":        {lie: says("-ERR no\r\n")},
		"an empty error":  {lie: says("-\r\n")},
		"moved nowhere":   {lie: says("-MOVED\r\n")},
		"moved":           {lie: says("-MOVED 1 127.0.0.1:1\r\n")},
		"asked":           {lie: says("-ASK x y z\r\n")},
		"RESP3":           {lie: func(_, other string) string { return "=" + bulk("txt:" + other)[1:] }},
		"pushed":          {lie: func(truth, other string) string { return ">2\r\n+invalidate\r\n" + bulk(other) + bulk(truth) }},
		"with attributes": {lie: func(truth, _ string) string { return "|1\r\n+a\r\n+b\r\n" + bulk(truth) }},
		"HTTP":            {lie: says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")},
		"nothing":         {lie: says("")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &falseRedis{data: map[string]string{}}
			if n := testLie(t, f, func() { f.lies(c.lie, c.greet) }); c.mixed && n == 0 {
				t.Error("nothing was found to be another key's")
			}
		})
	}
}

// testLie asks questions before, while and after f lies, and returns how many values were of
// another key.
func testLie(t *testing.T, f *falseRedis, begin func()) (mixed int) {
	addr := redistest.Lie(t, f.answer)
	fault := redistest.NewFault(t, addr)
	s := working(t, redis.Options{URL: "redis://" + fault.Addr(), Timeout: 100 * time.Millisecond})
	var mu sync.Mutex
	events := map[cache.Outcome]int{}
	r := cache.NewRetriever(retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Bases: q.Bases, Sources: []retrieval.Source{{Type: "rag", Knowledge: "docs", Doc: "d", Text: answerTo(q)}}}, nil
	}), cache.Candidates, []cache.Tier{
		{Name: "near", Store: forgets{}},
		{Name: "redis", Store: cache.NewCodecStore(s, nil), TTL: time.Hour, Wait: time.Second},
	}, func(e cache.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Tier == "redis" {
			events[e.Result]++
			if e.Mismatch == cache.MismatchKey || e.Mismatch == cache.MismatchTenant {
				mixed++
			}
		}
	})
	ask := func() {
		t.Helper()
		for _, tenant := range []string{"acme", "evil"} {
			for i := range 8 {
				q := retrieval.Query{Tenant: tenant, Text: fmt.Sprint("question ", i), Bases: []retrieval.Ref{{Knowledge: "docs", Generation: "ab"}}}
				res, err := r.Retrieve(t.Context(), q)
				if err != nil || len(res.Sources) != 1 || res.Sources[0].Text != answerTo(q) {
					t.Errorf("%s of %s: got %v, %v", q.Text, tenant, res.Sources, err)
				}
			}
		}
	}
	ask() // writes the values
	ask()
	if events[cache.Hit] == 0 {
		t.Fatalf("no hits while it is honest: %v", events)
	}
	begin()
	fault.Reset() // so that the next connection sends a greeting
	for range 3 {
		ask()
	}
	f.mu.Lock()
	told := f.told
	f.mu.Unlock()
	if told == 0 {
		t.Error("no lie was told")
	}
	f.lies(nil, nil)
	fault.Reset()
	await(t, "the store to work", func() bool { return !s.Open() })
	before := events[cache.Hit]
	for range 3 { // the first call may find a value
		ask()
	}
	if events[cache.Hit] == before {
		t.Errorf("no hits once it is honest again: %v", events)
	}
	return mixed
}

func answerTo(q retrieval.Query) string {
	return strings.Repeat("The answer to "+q.Text+" of "+q.Tenant+". ", 20)
}

// Replies about the location of data may be wrong, too. Then nothing is found, within the time
// limit, and nothing panics.
func TestLiesOfMaps(t *testing.T) {
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	for name, c := range map[string]struct {
		url   string // part after the host
		reply string // to the request for the map; % is our port
		want  string // "works", "fails", or "" for either
	}{
		"the truth":              {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%\r\n", "works"},
		"no slots":               {"?cluster=true", "*0\r\n", ""},
		"nil":                    {"?cluster=true", "*-1\r\n", ""},
		"an integer":             {"?cluster=true", ":1\r\n", "fails"},
		"slots of nobody":        {"?cluster=true", "*1\r\n*2\r\n:0\r\n:16383\r\n", ""},
		"slots without an end":   {"?cluster=true", "*1\r\n*1\r\n:0\r\n", "fails"},
		"an empty range":         {"?cluster=true", "*1\r\n*0\r\n", "fails"},
		"a node without a port":  {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*1\r\n$9\r\n127.0.0.1\r\n", "fails"},
		"a node without a name":  {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$-1\r\n:%\r\n", ""},
		"a node of too much":     {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*5\r\n$9\r\n127.0.0.1\r\n:1\r\n+id\r\n*1\r\n+a\r\n+b\r\n", "fails"},
		"an empty node":          {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*0\r\n", "fails"},
		"a text for a slot":      {"?cluster=true", "*1\r\n*3\r\n+a\r\n+b\r\n*2\r\n$9\r\n127.0.0.1\r\n:%\r\n", "fails"},
		"slots below the first":  {"?cluster=true", "*1\r\n*3\r\n:-5\r\n:-1\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n", ""},
		"slots beyond the last":  {"?cluster=true", "*1\r\n*3\r\n:99999999\r\n:9223372036854775807\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n", ""},
		"slots upside down":      {"?cluster=true", "*1\r\n*3\r\n:16383\r\n:0\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n", ""},
		"a port that is none":    {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:-1\r\n", "fails"},
		"a name that is none":    {"?cluster=true", "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$3\r\n]:[\r\n:1\r\n", "fails"},
		"the master":             {"?master_name=m", "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%\r\n", "works"},
		"no master":              {"?master_name=m", "*-1\r\n", "fails"},
		"an empty address":       {"?master_name=m", "*0\r\n", "fails"},
		"half an address":        {"?master_name=m", "*1\r\n$9\r\n127.0.0.1\r\n", "fails"},
		"an address and a half":  {"?master_name=m", "*3\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n$1\r\n1\r\n", "fails"},
		"an address of nils":     {"?master_name=m", "*2\r\n$-1\r\n$-1\r\n", "fails"},
		"an address of texts":    {"?master_name=m", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "fails"},
		"an address of arrays":   {"?master_name=m", "*2\r\n*1\r\n+a\r\n*1\r\n+b\r\n", "fails"},
		"an address as an error": {"?master_name=m", "-127.0.0.1 1\r\n", "fails"},
		"an address as a number": {"?master_name=m", ":1\r\n", "fails"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := ""
			addr = redistest.Lie(t, func(args []string) []byte {
				if name := strings.ToLower(args[0]); name == "cluster" || name == "sentinel" {
					return []byte(strings.ReplaceAll(c.reply, "%", port(addr)))
				}
				return answers(args)
			})
			db := open(t, redis.Options{URL: "redis://" + addr + c.url, Timeout: 200 * time.Millisecond})
			s := db.Store("test")
			asked(t, s)
			if c.want == "works" && (s.Open() || db.Trouble() != nil) || c.want == "fails" && (!s.Open() || len(db.Trouble()) != 1) {
				t.Errorf("open %v, trouble %q", s.Open(), db.Trouble())
			}
			if got, err := s.Get(t.Context(), "k"); got != nil || err == nil && s.Open() {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A node that redirects its clients in circles, or elsewhere, costs only the time of the call.
func TestLiesOfNodes(t *testing.T) {
	for name, reply := range map[string]string{
		"in circles": "-MOVED 0 %\r\n", "asks in circles": "-ASK 0 %\r\n", "away": "-MOVED 0 127.0.0.1:1\r\n", "asks away": "-ASK 0 127.0.0.1:1\r\n",
		"nowhere": "-MOVED 0 :\r\n", "to nobody": "-MOVED 0 \r\n", "to no port": "-MOVED 0 127.0.0.1\r\n", "to noise": "-MOVED \x00\xff ]:[\r\n", "bare": "-MOVED\r\n",
		"not now": "-TRYAGAIN no\r\n", "down": "-CLUSTERDOWN no\r\n", "loading": "-LOADING no\r\n", "replica": "-READONLY no\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := ""
			addr = redistest.Lie(t, func(args []string) []byte {
				switch strings.ToLower(args[0]) {
				case "cluster":
					host, port, _ := strings.Cut(addr, ":")
					return fmt.Appendf(nil, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n%s:%s\r\n", bulk(host), port)
				case "getrange", "set":
					if !strings.Contains(args[1], ":probe:") {
						return []byte(strings.ReplaceAll(reply, "%", addr))
					}
				}
				return answers(args)
			})
			const timeout = 200 * time.Millisecond
			s := working(t, redis.Options{URL: "redis://" + addr + "?cluster=true", Timeout: timeout})
			for range 4 {
				if got, err := s.Get(t.Context(), "k"); err == nil {
					t.Errorf("got %q", got)
				}
			}
		})
	}
}
