package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/identity"
)

// issuers have the keys of those who sign tokens, by their name in the configuration.
type issuers struct {
	keys    map[string]*identity.KeySet
	inFiles []string // of which issuers the keys are in files
	monitor monitor
}

func newIssuers(cfg *config.Config, m monitor) *issuers {
	s := &issuers{keys: map[string]*identity.KeySet{}, monitor: m}
	for name, i := range cfg.Identity.JWT {
		s.keys[string(name)] = identity.NewKeySet(i.Source())
		if i.JWKSFile != "" {
			s.inFiles = append(s.inFiles, string(name))
		}
	}
	return s
}

// start keeps the keys up to date. Those in files are there when it returns.
func (s *issuers) start(t *tasks) {
	for _, name := range s.inFiles {
		_ = s.keys[name].Read(context.Background()) // Run reads it again at once, and tells of an error
	}
	for name, set := range s.keys {
		line := ofIssuer(name, "the keys could not be read")
		t.start(func(ctx context.Context) {
			set.Run(ctx, func(err error) {
				if err == nil {
					s.monitor.tell(slog.LevelInfo, "over: "+line)
					return
				}
				s.monitor.tell(slog.LevelWarn, ofIssuer(name, set.Trouble()))
			})
		})
	}
}

// fill gives the issuers of t their keys.
func (s *issuers) fill(t *proxy.Tenants) {
	for i := range t.Issuers {
		t.Issuers[i].Keys = s.keys[t.Issuers[i].Name]
	}
}

// pending names the issuers whose keys have been asked for and are not there yet. Until then
// every token is refused, which clients take for final.
func (s *issuers) pending() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		if s.keys[name].Pending() {
			lines = append(lines, ofIssuer(name, "the keys are being fetched"))
		}
	}
	return lines
}

// problems says which keys could not be read.
func (s *issuers) problems() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.keys)) {
		if why := s.keys[name].Trouble(); why != "" {
			lines = append(lines, ofIssuer(name, why))
		}
	}
	return lines
}

func ofIssuer(name, line string) string { return "identity.jwt." + name + ": " + line }
