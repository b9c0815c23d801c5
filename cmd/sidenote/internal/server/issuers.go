package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
)

// Issuers hold the keys of token issuers by their configured name. A value is immutable: a reload
// makes a new one.
type Issuers struct {
	byName map[string]*issuer
	tell   func(level slog.Level, line string)
}

// A StartIssuers runs f in the background and cancels its context at the end.
type StartIssuers func(f func(ctx context.Context))

// An issuer signs tokens. Its keys are kept up to date until end is called.
type issuer struct {
	*tenant.KeySet
	config config.Issuer
	ended  context.Context
	end    context.CancelFunc
}

func newIssuer(c config.Issuer) *issuer {
	i := &issuer{KeySet: tenant.NewKeySet(c.Source()), config: c}
	i.ended, i.end = context.WithCancel(context.Background())
	return i
}

// NewIssuers returns the issuers of a configuration. tell is called when keys cannot be read.
func NewIssuers(cfg *config.Config, tell func(level slog.Level, line string)) *Issuers {
	s := &Issuers{byName: map[string]*issuer{}, tell: tell}
	for name, c := range cfg.Identity.JWT {
		s.byName[string(name)] = newIssuer(c)
	}
	return s
}

// Begin reads keys from files, and starts to keep all keys up to date.
func (s *Issuers) Begin(start StartIssuers) {
	for name, i := range s.byName {
		if i.config.JWKSFile != "" {
			_ = i.Read(context.Background()) // Run reads it again at once and reports the error
		}
		s.start(start, name)
	}
}

// start keeps the keys of an issuer up to date.
func (s *Issuers) start(in StartIssuers, name string) {
	i, line := s.byName[name], ofIssuer(name, "the keys could not be read")
	in(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(i.ended, cancel)()
		i.Run(ctx, func(err error) {
			if err == nil {
				s.tell(slog.LevelInfo, "over: "+line)
				return
			}
			s.tell(slog.LevelWarn, ofIssuer(name, i.Trouble()))
		})
	})
}

// Next returns the issuers of cfg. Issuers with an unchanged key source keep their keys; other
// keys are read now. That fails if keys cannot be read for an issuer whose tokens are accepted at
// present, as they would be refused.
func (s *Issuers) Next(ctx context.Context, cfg *config.Config) (*Issuers, error) {
	next, accepted := &Issuers{byName: map[string]*issuer{}, tell: s.tell}, map[string]bool{}
	for _, i := range s.byName {
		accepted[i.config.Issuer] = true
	}
	reading, ctx := errgroup.WithContext(ctx)
	for name, c := range cfg.Identity.JWT {
		name := string(name)
		if old := s.byName[name]; old != nil && old.config.From() == c.From() {
			next.byName[name] = &issuer{old.KeySet, c, old.ended, old.end}
			continue
		}
		i := newIssuer(c)
		next.byName[name] = i
		reading.Go(func() error {
			if err := i.Read(ctx); err != nil && accepted[c.Issuer] {
				return fmt.Errorf("identity.jwt.%s: its keys cannot be read, so tokens that are accepted now would be refused: %w", name, err)
			}
			return nil // Run tries again and reports the error
		})
	}
	return next, reading.Wait()
}

// Replace puts s in place of old, and stops updating the keys that only old has.
func (s *Issuers) Replace(old *Issuers, start StartIssuers) {
	for name, i := range s.byName {
		if was := old.byName[name]; was == nil || was.KeySet != i.KeySet {
			s.start(start, name)
		}
	}
	for name, was := range old.byName {
		if i := s.byName[name]; i == nil || was.KeySet != i.KeySet {
			was.end()
		}
	}
}

// Fill sets the keys of the issuers of t.
func (s *Issuers) Fill(t *tenant.Tenants) {
	for n := range t.Issuers {
		t.Issuers[n].Keys = s.byName[t.Issuers[n].Name].KeySet
	}
}

// Pending names the issuers whose keys were requested but have not arrived. Until then every token
// is refused, which clients take as final.
func (s *Issuers) Pending() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if s.byName[name].Pending() {
			lines = append(lines, ofIssuer(name, "the keys are being fetched"))
		}
	}
	return lines
}

// Ages returns how long ago the keys in use were read, in seconds, by issuer; infinite if there are
// none.
func (s *Issuers) Ages(now time.Time) map[string]float64 {
	ages := map[string]float64{}
	for name, i := range s.byName {
		ages[name] = math.Inf(1)
		if at := i.ReadAt(); !at.IsZero() {
			ages[name] = now.Sub(at).Seconds()
		}
	}
	return ages
}

// Problems reports keys that could not be read.
func (s *Issuers) Problems() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if why := s.byName[name].Trouble(); why != "" {
			lines = append(lines, ofIssuer(name, why))
		}
	}
	return lines
}

func ofIssuer(name, line string) string { return "identity.jwt." + name + ": " + line }
