package budget_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sidenote/cache/budget"
)

// reservation returns a valid reservation.
func reservation(id string) budget.Reservation {
	return budget.Reservation{
		Tenant: "acme", ID: id, Kind: budget.Chat, Lease: time.Minute,
		Estimate: budget.Amount{Requests: 1, Tokens: 100, Injected: 10, Money: 1000},
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	if err := reservation("r1:1").Check(); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	for want, change := range map[string]func(*budget.Reservation){
		`tenant ""`:                       func(r *budget.Reservation) { r.Tenant = "" },
		`tenant "a}b"`:                    func(r *budget.Reservation) { r.Tenant = "a}b" },
		`id "a b"`:                        func(r *budget.Reservation) { r.ID = "a b" },
		`id "a,b"`:                        func(r *budget.Reservation) { r.ID = "a,b" },
		`id "` + strings.Repeat("x", 129): func(r *budget.Reservation) { r.ID = strings.Repeat("x", 129) },
		`kind "chats"`:                    func(r *budget.Reservation) { r.Kind = "chats" },
		"lease of 0s":                     func(r *budget.Reservation) { r.Lease = 0 },
		"lease of 25h0m0s":                func(r *budget.Reservation) { r.Lease = 25 * time.Hour },
		"tokens are -1":                   func(r *budget.Reservation) { r.Estimate.Tokens = -1 },
		"money are 1000000000000000000":   func(r *budget.Reservation) { r.Estimate.Money = 1e18 },
		"tokens_per_day is -5":            func(r *budget.Reservation) { r.Limits[budget.TokensPerDay] = -5 },
		"usd_per_month is 9007199254740992": func(r *budget.Reservation) {
			r.Limits[budget.MoneyPerMonth] = 1 << 53
		},
		"requests_per_minute is 10000000001": func(r *budget.Reservation) {
			r.Limits[budget.RequestsPerMinute] = budget.MaxPerMinute + 1
		},
	} {
		r := reservation("r1:1")
		change(&r)
		if err := r.Check(); !errors.Is(err, budget.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The names are used in metrics and configurations, so each window has its own.
func TestEachWindowHasAName(t *testing.T) {
	seen := map[string]bool{}
	for w := range budget.NumWindows {
		name := w.String()
		if seen[name] || strings.Contains(name, " ") || name == "" {
			t.Errorf("window %d is called %q", w, name)
		}
		seen[name] = true
	}
	if got := budget.NumWindows.String(); got != "window 8" {
		t.Errorf("none is called %q", got)
	}
}
