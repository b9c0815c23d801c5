package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
)

// Values of another type at our keys are not overwritten.
func wrongType(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	const some = 5
	var lists []string
	for key := range s.found {
		if strings.Contains(key, ":selected:") && len(lists) < some {
			lists = append(lists, key)
		}
	}
	for _, key := range lists {
		r.server.Do("DEL", key)
		r.server.Do("LPUSH", key, "theirs")
	}
	answers := r.drive(cycle, nil)
	t.Logf("%d requests lost %v; %.0f met a list", len(answers), lostBy(answers), r.mismatches("type"))
	for _, key := range lists {
		if got := r.server.Do("LRANGE", key, "0", "-1"); got != "theirs" {
			t.Errorf("%s holds %q", key, got)
		}
	}
	if n := r.mismatches("type"); n != some {
		t.Errorf("counted %.0f, want %d", n, some)
	}
	if n := strings.Count(said(r.p), `"msg":"cache: a value in redis was not what its key says (type), and was not used`); n != 1 {
		t.Errorf("said %d times", n)
	}
	if r.saw(func(g glimpse) bool { return !g.well() }) {
		t.Error("taken for a fault of Redis")
	}
	r.released()
}

// mismatches returns how many values were wrong in the given way.
func (r *rig) mismatches(kind string) float64 {
	return r.count("integrity_mismatch_total", `kind="`+kind+`"`)
}

// Damaged values are never used as answers, and good ones replace them.
func corrupted(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	damaged := 0
	for key := range s.found {
		damage(r.server, key, damaged)
		damaged++
	}
	answers := r.drive(cycle, nil)
	t.Logf("%d requests lost %v; damage by kind: version %.0f, checksum %.0f, size %.0f", len(answers), lostBy(answers),
		r.mismatches("version"), r.mismatches("checksum"), r.mismatches("size"))
	if n := r.count("integrity_mismatch_total"); n != float64(damaged) {
		t.Errorf("%.0f of %d damaged values noticed", n, damaged)
	}
	for _, kind := range []string{"version", "checksum", "size"} {
		if r.mismatches(kind) == 0 {
			t.Errorf("none of kind %s", kind)
		}
	}
	r.until("no write waiting", func(glimpse) bool { return r.unlike() == 0 })
	hits := r.hits("selected")
	allHit(t, r.drive(cycle/2, nil))
	if n := r.hits("selected") - hits; n != cycle/2 {
		t.Errorf("%.0f of %d answers from Redis", n, cycle/2)
	}
	r.released()
}

// unlike returns how many keys hold something else than a replica stored there.
func (r *rig) unlike() int {
	n := 0
	for key, value := range r.found {
		if r.server.Do("STRLEN", key) != strconv.Itoa(len(value)) || r.server.Do("GET", key) != value {
			n++
		}
	}
	return n
}

// damage damages the value of a key in one of several ways.
func damage(server *redistest.Server, key string, way int) {
	value := []byte(server.Do("GET", key))
	at := rand.N(len(value))
	switch {
	case way%64 == 0: // as large as memory lasts
		server.Do("SETRANGE", key, strconv.Itoa(64<<20), "x")
	case way%8 == 1: // another release's
		server.Do("SETRANGE", key, "2", "\x63")
	case way%8 == 2: // cut
		server.Do("SET", key, string(value[:1+at%(len(value)-1)]))
	case way%8 == 3: // continued
		server.Do("APPEND", key, "\x00")
	default:
		server.Do("SETRANGE", key, strconv.Itoa(at), string(value[at]^1<<rand.N(8)))
	}
}

// A value stored at another tenant's key, by a restore or on purpose, is not used.
func othersValues(t *testing.T, s *stage) {
	r := s.bare(t)
	for _, name := range []string{"acme", "umbra"} {
		r.write(t, name+"/bonus.md", "# Bonus\n\nThe bonus of everybody at "+name+" is four thousand euros.\n")
	}
	tenants := fmt.Sprintf("knowledge: {acme: acme, umbra: umbra}\ntenants:\n"+
		"  acme: {keys: [\"%x\"], knowledge: [acme]}\n  umbra: {keys: [\"%x\"], knowledge: [umbra]}\n",
		sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey)))
	plain, shared := r.write(t, "plain.yaml", tenants), r.write(t, "shared.yaml", tenants+"redis: {"+steady+"}\n")
	with := func(config, url string) *process {
		return serve(t, "--config", config, "--upstream", r.upstream, "--redis", url)
	}
	want := sentUp(t, with(plain, ""))
	asks := func(p *process) {
		t.Helper()
		for name, got := range sentUp(t, p) {
			if got != want[name] || !strings.Contains(got, "at "+name+" is") {
				t.Errorf("for %s, the upstream is sent\n%s\nwant\n%s", name, got, want[name])
			}
		}
	}
	first := with(shared, r.server.URL())
	asks(first)
	first.stop() // which writes what is not written yet
	moved := 0
	for _, kind := range []string{"selected", "candidates"} {
		a, b := keys(r.server, kind+":{acme}:*"), keys(r.server, kind+":{umbra}:*")
		if len(a) != 1 || len(b) != 1 {
			t.Fatalf("keys %q and %q", a, b)
		}
		acmes, umbras := r.server.Do("GET", a[0]), r.server.Do("GET", b[0])
		r.server.Do("SET", a[0], umbras)
		r.server.Do("SET", b[0], acmes)
		moved += 2
	}
	r.p = with(shared, r.server.URL())
	asks(r.p)
	if n := r.mismatches("tenant"); n != float64(moved) {
		t.Errorf("%.0f of %d values noticed", n, moved)
	}
	r.p.stop()
	r.p = with(shared, r.server.URL())
	asks(r.p)
	if n := r.count("integrity_mismatch_total"); n > 0 || r.hits("selected") != 2 {
		t.Errorf("later, %.0f values were wrong and %.0f right", n, r.hits("selected"))
	}
}

// sentUp returns what reaches the upstream for one question of each tenant.
func sentUp(t *testing.T, p *process) map[string]string {
	t.Helper()
	sent := map[string]string{}
	for name, key := range map[string]string{"acme": acmeKey, "umbra": umbraKey} {
		_, sent[name] = posted(t, p.data+"/v1/chat/completions", key, bonusQuestion)
	}
	return sent
}

// Clients that leave during a call of Redis leave nothing behind, and no connection from which the
// next request could read their answer.
func clientsLeave(t *testing.T, s *stage) {
	r := s.rig(t, steady)
	r.fault.Latency(300*time.Microsecond, 300*time.Microsecond)
	const many = 2000
	addr := strings.TrimPrefix(r.p.data, "http://")
	each(many, 24, func(i int) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		body := chatAbout(i % (many / 4))
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: sidenote\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		<-time.After(time.Microsecond + rand.N(300*time.Microsecond))
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	r.until("idle", func(glimpse) bool { return r.count("requests_in_flight") == 0 })
	// For clients that leave while sources are searched, nothing is sent to the upstream.
	left := r.count("upstream_cancelled_total") + r.count("requests_total", `outcome="relayed"`)
	if left < many/2 {
		t.Errorf("%.0f of %d clients were seen to leave", left, many)
	}
	r.fault.Latency(0, 0)
	answers := r.burst(2*cycle, 16, func(i int) int { return i })
	again := r.drive(cycle/2, nil)
	t.Logf("%.0f of %d clients were seen to leave, %.0f calls failed; then %d requests lost %v",
		left, many, r.errors(), len(answers)+len(again), lostBy(again))
	allHit(t, again)
	if n := r.count("integrity_mismatch_total"); n > 0 {
		t.Errorf("%.0f replies were to other requests", n)
	}
	r.released()
}

// On a cluster, all keys of a tenant are on one node.
func oneSlot(t *testing.T, s *stage) {
	r := s.bare(t)
	node := redistest.StartCluster(t, 1)[0]
	r.begin(steady, "redis://"+node.Addr()+"?cluster=true")
	r.drive(cycle, nil)
	allHit(t, r.drive(cycle/4, nil))
	if hits := r.hits("selected"); hits < cycle/8 {
		t.Errorf("%.0f answers from the cluster", hits)
	}
	all := keys(node, "*")
	slot := node.Do("CLUSTER", "KEYSLOT", all[0])
	for _, key := range all {
		if got := node.Do("CLUSTER", "KEYSLOT", key); got != slot {
			t.Errorf("%s is in slot %s, %s in %s", key, got, all[0], slot)
		}
	}
	t.Logf("%d keys in slot %s", len(all), slot)
	if len(all) < 2*cycle || r.errors() > 0 {
		t.Errorf("%d keys, %.0f errors %q", len(all), r.errors(), r.glimpse().reasons)
	}
	r.released()
}
