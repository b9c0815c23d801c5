package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// A fleet is what the replicas of a test share: documents, an upstream that records requests, and a
// Redis.
type fleet struct {
	t      *testing.T
	dir    string
	docs   string
	up     *recorder
	server *redistest.Server
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{t: t, dir: t.TempDir(), docs: handbook(t), up: newRecorder(t), server: redistest.Start(t)}
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// replica starts one more replica. redis is added to the redis section of its configuration, rest
// to the whole. It waits longer for Redis than users would: the machine may be busy, and a hit must
// remain a hit.
func (f *fleet) replica(redis, rest string) *process {
	f.t.Helper()
	f.write("sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\nredis: {url: %q, timeout: 5s%s}\n%s", f.up.URL, f.docs, f.server.URL(), redis, rest))
	p := serve(f.t, "--config", filepath.Join(f.dir, "sidenote.yaml"))
	says(f.t, p.out, "shared on redis "+f.server.Addr()) // else a miss below would prove nothing
	return p
}

// says waits until the log contains a text.
func says(t *testing.T, log *announced, want string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		log.mu.Lock()
		text := log.text.String()
		log.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never said %q: %s", want, text)
		}
	}
}

// Questions that the handbook answers, each from another document.
const (
	leaveQuestion  = `{"model":"gpt-4o", "messages":[{"role":"user","content":"How many weeks of parental leave do I get?"}],"temperature":0.10}`
	travelQuestion = `{"model":"gpt-4o", "messages":[{"role":"user","content":"Do flights need approval?"}],"seed":12345678901234567890}`
)

// ask sends a question to p and returns the cache status ("hit", "miss") and the request that went
// upstream, with its sources.
func (f *fleet) ask(p *process, key, body string) (cache string, sent []byte) {
	f.t.Helper()
	before := f.up.count()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	status := resp.Header.Get("Sidenote-Status")
	found := regexp.MustCompile(`^injected; .*; cache=(\w+);`).FindStringSubmatch(status)
	if resp.StatusCode != http.StatusOK || found == nil || f.up.count() != before+1 {
		f.t.Fatalf("%s: Sidenote-Status %q", resp.Status, status)
	}
	return found[1], f.up.last(f.t).body
}

// kept waits until Redis holds n answers under prefix, each with the candidates that it was
// selected from. They are written after the client has its answer.
func (f *fleet) kept(prefix string, n int) {
	f.t.Helper()
	for _, kind := range []string{"selected", "candidates"} {
		f.server.WaitFor(fmt.Sprint(n), "EVAL", "return #redis.call('KEYS', ARGV[1])", "0", prefix+":v*:"+kind+":*")
	}
}

// values returns all values on the server.
func (f *fleet) values() string {
	f.t.Helper()
	var all strings.Builder
	for key := range strings.Lines(f.server.Do("KEYS", "*")) {
		all.WriteString(f.server.Do("GET", strings.TrimSpace(key)))
	}
	return all.String()
}

// mismatches returns how many values with another encryption p has met.
func (f *fleet) mismatches(p *process) string {
	f.t.Helper()
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `sidenote_integrity_mismatch_total{kind="encryption"} `)
	n, _, _ := strings.Cut(rest, "\n")
	return n
}

func (f *fleet) expect(got, want string, sent, wantSent []byte) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("cache=%s, want %s", got, want)
	}
	if !bytes.Equal(sent, wantSent) {
		f.t.Errorf("sent\n%s\nwant\n%s", sent, wantSent)
	}
}

// What one replica found, the other sends upstream without a search, byte for byte.
func TestRedisSecondReplicaHits(t *testing.T) {
	f := newFleet(t)
	one, two := f.replica("", ""), f.replica("", "")
	for i, c := range []struct{ body, source string }{{leaveQuestion, "16 weeks of parental leave"}, {travelQuestion, "approval of your manager"}} {
		cache, want := f.ask(one, "", c.body)
		f.expect(cache, "miss", want, want)
		f.kept("sidenote", i+1)
		cache, sent := f.ask(two, "", c.body)
		f.expect(cache, "hit", sent, want)
		if !bytes.Contains(sent, []byte(c.source)) {
			t.Errorf("%q is not in %s", c.source, sent)
		}
	}
}

// A change of documents purges nothing: results from the old ones are under keys that are not used
// again.
func TestRedisDocumentsChange(t *testing.T) {
	f := newFleet(t)
	one, two := f.replica("", ""), f.replica("", "")
	f.ask(one, "", leaveQuestion)
	f.ask(two, "", travelQuestion)
	f.kept("sidenote", 2)
	one.stop()
	two.stop()
	for name, text := range map[string]string{
		"leave.md":  "# Leave policy\n\n## Parental leave\n\nEvery parent may take 20 weeks of parental leave on full pay.\n",
		"travel.md": "# Travel\n\n## Booking\n\nFlights need the approval of the board.\n",
	} {
		if err := os.WriteFile(filepath.Join(f.docs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two = f.replica("", ""), f.replica("", "")
	for _, c := range []struct {
		p         *process
		body      string
		now, then string
	}{
		{one, leaveQuestion, "20 weeks", "16 weeks"}, {two, travelQuestion, "approval of the board", "manager"},
	} {
		cache, sent := f.ask(c.p, "", c.body)
		f.expect(cache, "miss", sent, sent)
		if !bytes.Contains(sent, []byte(c.now)) || bytes.Contains(sent, []byte(c.then)) {
			t.Errorf("want %q and not %q in %s", c.now, c.then, sent)
		}
	}
	f.kept("sidenote", 4)
}

// Installations that share a Redis are separated by their prefixes.
func TestRedisPrefixes(t *testing.T) {
	f := newFleet(t)
	cache, want := f.ask(f.replica(", prefix: blue", ""), "", leaveQuestion)
	f.expect(cache, "miss", want, want)
	f.kept("blue", 1)
	cache, sent := f.ask(f.replica(", prefix: green", ""), "", leaveQuestion)
	f.expect(cache, "miss", sent, want)
	f.kept("green", 1)
	cache, sent = f.ask(f.replica(", prefix: blue", ""), "", leaveQuestion)
	f.expect(cache, "hit", sent, want)
}

// Tenants with the same documents and the same question share no values.
func TestRedisTenants(t *testing.T) {
	f := newFleet(t)
	tenants := fmt.Sprintf("tenants:\n  acme: {keys: [\"%x\"], knowledge: [handbook]}\n  umbra: {keys: [\"%x\"], knowledge: [handbook]}\n",
		sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey)))
	one, two, three := f.replica("", tenants), f.replica("", tenants), f.replica("", tenants)
	cache, want := f.ask(one, acmeKey, leaveQuestion)
	f.expect(cache, "miss", want, want)
	f.kept("sidenote", 1)
	cache, sent := f.ask(two, umbraKey, leaveQuestion)
	f.expect(cache, "miss", sent, want)
	f.kept("sidenote", 2)
	for _, key := range []string{acmeKey, umbraKey} {
		cache, sent = f.ask(three, key, leaveQuestion)
		f.expect(cache, "hit", sent, want)
	}
}

// encryptionKeys returns the lines of a key file, each key of one repeated letter.
func encryptionKeys(letters string) string {
	var lines strings.Builder
	for _, c := range letters {
		fmt.Fprintf(&lines, "key-%c %s\n", c, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(string(c)), 32)))
	}
	return lines.String()
}

const encrypted = ", encryption_keys: {file: keys}"

// With encryption keys Redis holds no text of the documents, and a replica without the key neither
// reads the values nor fails because of them.
func TestRedisEncrypted(t *testing.T) {
	f := newFleet(t)
	f.write("keys", encryptionKeys("a"))
	cache, want := f.ask(f.replica(encrypted, ""), "", leaveQuestion)
	f.expect(cache, "miss", want, want)
	f.kept("sidenote", 1)
	const name = "leave.md"
	texts := []string{"16 weeks of parental leave", "parental"}
	stored := f.values()
	for _, word := range append(texts, name) {
		if strings.Contains(stored, word) {
			t.Errorf("%q can be read on Redis", word)
		}
	}
	reader := f.replica(encrypted, "")
	cache, sent := f.ask(reader, "", leaveQuestion)
	f.expect(cache, "hit", sent, want)
	if n := f.mismatches(reader); n != "" {
		t.Errorf("%s mismatches with the key", n)
	}
	f.write("keys", encryptionKeys("b"))
	for what, keys := range map[string]string{"another key": encrypted, "no key": ""} {
		stranger := f.replica(keys, "")
		cache, sent = f.ask(stranger, "", leaveQuestion)
		f.expect(cache, "miss", sent, want)
		if n := f.mismatches(stranger); n != "2" { // the answer and its candidates
			t.Errorf("%s: %q mismatches, want 2", what, n)
		}
		says(t, stranger.out, "cache: a value in redis was not what its key says (encryption), and was not used")
		stranger.stop()
	}
	// Without a key the name would have been found; the texts stay in the base.
	f.ask(f.replica(", prefix: plain", ""), "", leaveQuestion)
	f.kept("plain", 1)
	stored = f.values()
	if !strings.Contains(stored, name) {
		t.Errorf("%q cannot be found on Redis without a key either", name)
	}
	for _, word := range texts {
		if strings.Contains(stored, word) {
			t.Errorf("%q is on Redis, where no text is to be", word)
		}
	}
}

// Rotating keys causes no miss: the new one is added below, then moved to the top, then the old one
// is removed.
func TestRedisKeyRotation(t *testing.T) {
	f := newFleet(t)
	replica := func(keys string) *process {
		f.write("keys", encryptionKeys(keys))
		return f.replica(encrypted, "")
	}
	_, leave := f.ask(replica("a"), "", leaveQuestion)
	f.kept("sidenote", 1)
	turned := replica("ba")
	cache, sent := f.ask(turned, "", leaveQuestion)
	f.expect(cache, "hit", sent, leave)
	_, travel := f.ask(turned, "", travelQuestion)
	f.kept("sidenote", 2)
	// A replica that is not restarted yet reads what was written with the new key.
	late := replica("ab")
	cache, sent = f.ask(late, "", travelQuestion)
	f.expect(cache, "hit", sent, travel)
	for _, p := range []*process{turned, late} {
		if n := f.mismatches(p); n != "" {
			t.Errorf("%s mismatches while both keys are there", n)
		}
	}
	done := replica("b")
	cache, sent = f.ask(done, "", travelQuestion)
	f.expect(cache, "hit", sent, travel)
	cache, sent = f.ask(done, "", leaveQuestion)
	f.expect(cache, "miss", sent, leave)
}
