package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/cache/redis/redistest"
	"sidenote/cache/usage"
	"sidenote/proxy/admin"
)

// billedTenants is a configuration of two tenants: free has no limits and two keys, paying has
// limits.
func billedTenants(rest string) string {
	return fmt.Sprintf(`
tenants:
  free: {knowledge: [handbook], keys: [{sha256: %s, name: ci}, {sha256: %s, name: app}]}
  paying: {knowledge: [handbook], policy: capped, keys: [%s]}
policies: {capped: {max_output_tokens: 100, limits: {tokens_per_day: 1M, usd_per_month: 10}}}
prices: [{match: gpt-5-mini*, input: 0.25, output: 2}]
%s`, digestText("sk-ci-0123456789abcdef"), digestText("sk-app-0123456789abcdef"), digestOf("sk-pay-0123456789abcdef"), rest)
}

// digestText returns a key's digest in hex.
func digestText(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(digestOf(key), "{sha256: "), "}")
}

// ask sends n chats with a key and a model.
func (p *process) ask(t *testing.T, n int, key, model string) {
	t.Helper()
	for range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions",
			strings.NewReader(strings.Replace(leaveQuestion, `"gpt-4o"`, strconv.Quote(model), 1)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if body := answered(t, resp, err); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", resp.Status, body)
		}
	}
}

// monthUsage returns the lines of the CSV of the current month.
func monthUsage(t *testing.T, p *process) (lines []string) {
	t.Helper()
	out := done(t, "usage", "--admin", strings.TrimPrefix(p.admin, "http://"), "--month", string(usage.MonthOf(time.Now())), "--csv")
	all, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(all) == 0 || strings.Join(all[0], ",") != "month,tenant,kind,model,key,requests,tokens,injected_tokens,usd" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range all[1:] {
		lines = append(lines, strings.Join(line, ","))
	}
	return lines
}

// Tenants with and without limits have usage and cost by month, kind, model and key, across
// replicas and restarts, and each call counts once.
func TestUsageByMonth(t *testing.T) {
	for name, config := range map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string {
			return fmt.Sprintf("redis: {url: %q, timeout: 5s}\n", redistest.Start(t, durable...).URL())
		},
		"state folder": func(t *testing.T) string { return fmt.Sprintf("state: {path: %q}\n", t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			up := newRecorder(t)
			file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s\nknowledge: {handbook: %q}\n", up.URL, handbook(t))+billedTenants(config(t)))
			one := serve(t, "--config", file)
			two := one
			if name == "redis" {
				two = serve(t, "--config", file)
			}
			month := string(usage.MonthOf(time.Now()))
			one.ask(t, 2, "sk-ci-0123456789abcdef", "gpt-5-mini")
			two.ask(t, 1, "sk-ci-0123456789abcdef", "gpt-5-mini")
			two.ask(t, 1, "sk-app-0123456789abcdef", "gpt-4o")
			one.ask(t, 3, "sk-pay-0123456789abcdef", "gpt-5-mini")
			paid := two.settled(t, "paying", 3).Month.Spent
			_ = one.stop()
			if two == one {
				two = serve(t, "--config", file)
			}
			var lines []string
			eventually(t, func() string {
				lines = monthUsage(t, two)
				if strings.Contains(strings.Join(lines, "\n"), ",ci,3,") {
					return ""
				}
				return fmt.Sprintf("%q", lines)
			})
			row := func(a admin.UsageAmount) string {
				return fmt.Sprintf("%d,%d,%d,%s", a.Requests, a.Tokens, a.Injected, a.USD)
			}
			want := []string{
				month + ",free,chat,gpt-4o*,app,1,2,1,0",
				month + ",free,chat,gpt-5-mini*,ci,3,6,3,0.00000675",
				month + ",paying,chat,gpt-5-mini*,," + row(paid),
			}
			if strings.Join(lines, "\n") != strings.Join(want, "\n") {
				t.Errorf("got %q\nwant %q", lines, want)
			}
			var of admin.MonthUsage
			_, text := get(t, two.admin+admin.TenantUsagePath("free")+"?month="+month)
			if err := json.Unmarshal([]byte(text), &of); err != nil || of.Month != month || len(of.Rows) != 2 || of.Rows[1].Key != "ci" {
				t.Errorf("%v: %s", err, text)
			}
			table := done(t, "usage", "--admin", strings.TrimPrefix(two.admin, "http://"), "--month", month)
			if !strings.Contains(table, "TENANT  KIND  MODEL") || !strings.Contains(table, "0.00000675") {
				t.Error(table)
			}
		})
	}
}

// What is no month is refused, with the value and exit code 2, before anybody is asked.
func TestUsageOfWrongMonth(t *testing.T) {
	next := string(usage.MonthOf(time.Now().AddDate(0, 0, 32)))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--month", "2026-13", "--csv"}, `--month: "2026-13" is no month; write one as 2026-10`},
		{[]string{"--month", "last", "--csv"}, `--month: "last" is no month`},
		{[]string{"--month", next}, "--month: " + next + " has not begun"},
		{[]string{"--month", "1999-01"}, "--month: 1999-01 is not kept"},
		{[]string{"--csv"}, "--csv needs --month"},
		{[]string{"--csv", "--json", "--month", "2026-10"}, "--csv and --json exclude each other"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"usage", "--admin", "127.0.0.1:1"}, c.args...), strings.NewReader(""), &out, &errs, noEnv)
		if code != exitUsage || out.Len() > 0 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit code %d, %q; want %q", c.args, code, errs.String(), c.want)
		}
	}
	p := serve(t, "--upstream", newRecorder(t).URL, "--state", filepath.Join(t.TempDir(), "state"))
	for _, path := range []string{admin.UsagePath, admin.TenantUsagePath("default")} {
		if status, text := get(t, p.admin+path+"?month=2026-13"); status != http.StatusBadRequest || !strings.Contains(text, `\"2026-13\" is no month`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
