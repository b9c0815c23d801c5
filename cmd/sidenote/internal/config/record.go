package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy"
	"sidenote/proxy/record"
)

// Record says what is recorded of the requests of a policy; without a key nothing is.
type Record struct {
	Share    percentage `yaml:"share,omitempty"`
	Bodies   string     `yaml:"bodies,omitempty" of:"questions|requests"`
	Keep     days       `yaml:"keep,omitempty" min:"1h" max:"3650d"`
	Max      Bytes      `yaml:"max,omitempty" min:"16MiB" max:"1024GiB"`
	Key      Secret     `yaml:"key,omitempty"` // lines of ID BASE64, see cache.ParseKeys
	Redact   []string   `yaml:"redact,omitempty,flow" of:"emails|numbers|none"`
	Patterns []redacted `yaml:"patterns,omitempty"`
}

// The defaults of a Record, and words of it.
const (
	defaultRecordShare = percentage(0.1)
	defaultRecordKeep  = 7 * day
	defaultRecordMax   = Bytes(1 << 30)

	recordRequests = "requests"
	redactEmails   = "emails"
	redactNumbers  = "numbers"
	redactNone     = "none"
)

// DecodeYAML reads a map, or off.
func (r *Record) DecodeYAML(d *strictyaml.Decoder, key string, n ast.Node) {
	if text, ok := strictyaml.Text(n); ok {
		if text != Off {
			d.Problem(n, key, "%q is not off; write a map with a share and a key", text)
		}
		*r = Record{}
		return
	}
	d.Structure(key, n, reflect.ValueOf(r).Elem())
}

// days is a duration that can be written in days.
type days time.Duration

const day = days(24 * time.Hour)

// UnmarshalText reads a whole number of days, such as 7d, or a duration.
func (d *days) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "d")
	if n, err := strconv.ParseUint(number, 10, 16); ok && err == nil {
		*d = days(n) * day
		return nil
	}
	value, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write 7d or 12h", text)
	}
	*d = days(value)
	return nil
}

// MarshalText writes whole days as such.
func (d days) MarshalText() ([]byte, error) { return []byte(Age(time.Duration(d))), nil }

// Age returns a duration as it is written in configurations: whole days as such.
func Age(d time.Duration) string {
	if d%time.Duration(day) == 0 {
		return strconv.FormatInt(int64(d/time.Duration(day)), 10) + "d"
	}
	return d.String()
}

// redacted is a regular expression for what is redacted.
type redacted string

// UnmarshalText refuses expressions that do not compile, or that match an empty text.
func (r *redacted) UnmarshalText(text []byte) error {
	expr, err := regexp.Compile(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a regular expression: %s", text, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if expr.MatchString("") {
		return fmt.Errorf("%q matches an empty text, and so every place; write what must be there", text)
	}
	*r = redacted(text)
	return nil
}

// readRecords reads the keys of records.
func (c loader) readRecords(src Source) {
	c.recordKeys = map[Name]Secret{}
	for _, name := range sortedKeys(c.Policies) {
		key := "policies." + string(name) + ".record.key"
		s := c.Policies[name].Record.Key
		if text := c.secretText(src, key, &s); text != "" {
			if _, err := cache.ParseKeys([]byte(text)); err != nil {
				c.problem(key, "%v", err)
			}
			s.Value = proxy.NewSecret(text)
		}
		if _, written := c.places[key]; written {
			c.recordKeys[name] = s
		}
	}
}

// inheritRecordKey gives an expanded policy the key of the first of chain that has one.
func (c checker) inheritRecordKey(p *Policy, chain []Name) {
	if p.Record.Key == (Secret{}) {
		return
	}
	for _, link := range chain {
		if s, ok := c.recordKeys[link]; ok {
			p.Record.Key = s
			return
		}
	}
}

// checkRecord refuses what cannot be recorded.
func (c checker) checkRecord(key string, r Record) {
	m, written := c.places[key]
	if written && !c.may(key, mayAll) {
		c.forbidden(key, mayAll, "writes to the state folder")
	}
	if reflect.DeepEqual(r, Record{}) {
		return // also record: off
	}
	if written && m.Text() != Off && r.Key == (Secret{}) && !refused(c.Config, key+".key") {
		c.problem(key+".key", "is missing; name a file whose lines are an id and 32 bytes in base64")
	}
	if _, written := c.places[key+".share"]; written && r.Share == 0 && !refused(c.Config, key+".share") {
		c.problem(key+".share", "records nothing; write record: off, or a share above 0%%")
	}
	if slices.Contains(r.Redact, redactNone) && len(r.Redact) > 1 {
		c.problem(key+".redact", "says none and more; keep one")
	}
	if c.State.Path == StateMemory && !c.State.Default {
		c.problem(key, "keeps records in the state folder, and state is in memory; name a folder")
	}
}

// on reports whether anything is recorded.
func (r Record) on() bool { return r.Key != Secret{} }

// settings returns what is recorded. The keys are nil if they were not read.
func (r Record) settings() record.Settings {
	s := record.Settings{
		Share: float64(cmp.Or(r.Share, defaultRecordShare)), Requests: r.Bodies == recordRequests,
		Keep: time.Duration(cmp.Or(r.Keep, defaultRecordKeep)), Max: int64(cmp.Or(r.Max, defaultRecordMax)),
		Redact: record.Redactor{
			Emails:  r.Redact == nil || slices.Contains(r.Redact, redactEmails),
			Numbers: r.Redact == nil || slices.Contains(r.Redact, redactNumbers),
		},
	}
	if text := r.Key.Value.Reveal(); text != "" {
		keys, err := cache.ParseKeys([]byte(text))
		if err != nil {
			panic("BUG: record.key was not checked: " + err.Error())
		}
		s.Keys = keys
	}
	for _, expr := range r.Patterns {
		s.Redact.Patterns = append(s.Redact.Patterns, regexp.MustCompile(string(expr)))
	}
	return s
}

// Records returns what is recorded, by policy.
func Records(c *Config) map[string]record.Settings {
	all := map[string]record.Settings{}
	for name, p := range c.Policies {
		if p.Record.on() {
			all[string(name)] = p.Record.settings()
		}
	}
	return all
}

// RecordKeys returns the keys of records, by policy.
func RecordKeys(c *Config) map[string]*cache.Keys {
	all := map[string]*cache.Keys{}
	for name, s := range Records(c) {
		if s.Keys != nil {
			all[name] = s.Keys
		}
	}
	return all
}

// recordsFolder is the folder of records in the state folder.
const recordsFolder = "records"

// RecordsFolder returns the folder of records.
func (c *Config) RecordsFolder() string { return filepath.Join(c.State.Path, recordsFolder) }
