package record_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/proxy/record"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/followup"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

func all() *record.Redactor {
	return &record.Redactor{Emails: true, Numbers: true, Patterns: []*regexp.Regexp{regexp.MustCompile(`\bEMP-[0-9]{4}\b`)}}
}

// Emails, long numbers, keys and what patterns match are removed; what is none of these stays.
func TestRedactedTexts(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "",
		"Mail ann.lee+x@mail.example.co.uk.":         "Mail (an email).",
		"<ann@x.test>, bob@y-z.test":                 "<(an email)>, (an email)",
		"grün@bücher.test":                           "(an email)",
		"联系ann＠x.test":                               "(an email)",
		"+49\u200b30\u200b901820\u201155":            "(a number)",
		"q=ann%40x.test&r":                           "(an email)&r",
		"user@localhost and a@b, @ann, x @ y":        "user@localhost and a@b, @ann, x @ y",
		"a@x.test@y.test":                            "(an email)(an email)",
		`"ann lee"@x.test`:                           `"ann lee"(an email)`,
		"Call +49 (30) 901820-55.":                   "Call (a number).",
		"030/1234567":                                "(a number)",
		"4111-1111-1111-1111":                        "(a number)",
		"4111\u00a01111\u20091111\u20131111 .":       "(a number) .",
		"٠١٢٣٤٥٦٧":                                   "(a number)",
		"DE89 3704 0044 0532 0130 00":                "(a number)",
		"GB82 WEST 1234 5698 7654 32, please":        "(a number), please",
		"gb82west12345698765432":                     "(a number)",
		"In 2026, 16 weeks, 3.5 % of 120 000":        "In 2026, 16 weeks, 3.5 % of 120 000",
		"born 1990-01-31":                            "born (a number)",
		"123456":                                     "123456",
		"12 34\n56 78":                               "12 34\n56 78",
		"EMP-1234 and EMP-12345":                     "(redacted) and EMP-12345",
		"use sk-0123456789abcdef":                    "use (a key)",
		"Bearer abcdefgh12345":                       "(a key)",
		`see {"to":"ann\u0040x.test"} and so on`:     `see {"to":"(an email)"} and so on`,
		`"{\"to\":\"ann\\u0040x.test\"}"`:            `"{"to":"(an email)"}"`,
		`'{\"password\":\"hunter2\"}'`:               `'{"password":"(a key)"}'`,
		`\u0034\u0039\u0033\u0030\u0039\u0030\u0031`: "(a number)",
		"ann&#64;x.test, bob&commat;y.test":          "(an email), (an email)",
		`C:\temp\u0041 &amp; \"x\"`:                  `C:\temp\u0041 &amp; \"x\"`,
	} {
		if got := all().Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := new(record.Redactor).Text("ann@x.test 12345678 EMP-1234 sk-0123456789abcdef"); got != "ann@x.test 12345678 EMP-1234 (a key)" {
		t.Error(got)
	}
}

// In JSON the decoded strings, the names of members and the numbers are redacted, also in JSON within
// strings; data is left out, and its structure stays.
func TestRedactedJSON(t *testing.T) {
	long := strings.Repeat("QUJD", 200)
	for value, want := range map[string]string{
		`{"a":"ann\u0040x.test","ann@x.test":[1,"+49 30 901820"]}`: `{"a":"(an email)","(an email)":[1,"(a number)"]}`,
		`{"phone":4930901820,"seed":1.5,"n":null,"ok":true}`:       `{"phone":"(a number)","seed":1.5,"n":null,"ok":true}`,
		`{"model":"gpt-4o-2024-08-06","m":"gpt-4o-2024-08-06"}`:    `{"model":"gpt-4o-2024-08-06","m":"gpt-4o-(a number)"}`,
		`{"arguments":"{\"to\":\"ann\\u0040x.test\"}"}`:            `{"arguments":"{\"to\":\"(an email)\"}"}`,
		`{"api_key":"short","token":"[1]","password":["p"]}`:       `{"api_key":"(a key)","token":"(a key)","password":["p"]}`,
		`{"filters":{"key":"owner","value":"ann@x.test"}}`:         `{"filters":{"key":"owner","value":"(an email)"}}`,
		`["data:image/png;base64,` + long + `","` + long + `"]`:    `["(822 bytes of data)","(800 bytes of data)"]`,
		`[ ]`:            `[]`,
		`"ann@x.test"`:   `"(an email)"`,
		`{"a":`:          `null`,
		`{"a":"\ud800"}`: `{"a":"�"}`,
	} {
		if got := string(all().JSON([]byte(value))); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// Wherever an address or a number stands in a text, it does not stay, and JSON stays valid.
func TestNothingStays(t *testing.T) {
	const email, number = "canary@secret.test", "4111 1111 1111 1111"
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			" ", ", ", "(", ")", ".", "-", "+", "@", "%40", "a", "é", "7", "12", "\n", "{", "}", `"`, `\`, "GB82 WEST ", "sk-", "bearer ", "EMP-1234", email, number,
		}), 0, 30).Draw(t, "pieces")
		text := strings.Join(pieces, "")
		got := all().Text(text)
		encoded, err := json.Marshal(map[string]any{text: []any{text, map[string]string{"x": text}}})
		if err != nil {
			t.Fatal(err)
		}
		inJSON := all().JSON(encoded)
		for _, secret := range []string{"secret.test", "4111 1111", "1111 1111"} {
			if strings.Contains(got, secret) || strings.Contains(string(inJSON), secret) {
				t.Errorf("%q: %q, %s", text, got, inJSON)
			}
		}
		if !json.Valid(inJSON) {
			t.Errorf("%q: %s", text, inJSON)
		}
	})
}

// No text takes long.
func TestRedactionIsFast(t *testing.T) {
	for _, piece := range []string{"@", "%40", "a@", "a.", "a@b.", "1", "1 ", "12A ", "AB12 ", "AB12 CD ", "+", "(", "٣", "{", `"key":"`} {
		work := func(n int) time.Duration {
			text := strings.Repeat(piece, n/len(piece))
			start := time.Now()
			all().Text(text)
			return time.Since(start)
		}
		var ratios []float64 // the least is what no other work of the machine has delayed
		for len(ratios) < 20 && (ratios == nil || slices.Min(ratios) >= 16) {
			ratios = append(ratios, float64(work(256<<10))/float64(work(32<<10)))
		}
		if slices.Min(ratios) >= 16 {
			t.Errorf("%q: %.0f times the time of an eighth", piece, ratios)
		}
	}
}

// Nothing of a secret is in any file: neither of what is encrypted, nor the plain or encoded secret. It
// is in every text that a request can bring.
func TestCanaryIsNowhere(t *testing.T) {
	const canary, number, key = "canary@secret.test", "4930901820551", "sk-canary0123456789"
	secret := canary + " " + number + " " + key
	dir, s := t.TempDir(), everything(t)
	s.Requests, s.Redact = true, *all()
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
	f, err := filter.Parse([]byte(`{"type":"eq","key":"owner","value":"` + canary + `"}`))
	if err != nil {
		t.Fatal(err)
	}
	escaped := strings.ReplaceAll(secret, "@", `\u0040`)
	body := fmt.Appendf(nil, `{"model":"m %s","%s":1,"api_key":"%s","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":\"%s\"}"}}],"content":null},{"role":"user","content":[{"type":"text","text":"%s"}]}]}`,
		secret, secret, key, escaped, secret, strings.ReplaceAll(escaped, `\`, `\\`), secret)
	req, err := chat.Completions.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Begin("p", "t", "1")
	d.Ask(body, req, &rewrite.Options{Query: secret, Filter: f, Knowledge: []string{secret}, Earlier: []string{secret}})
	of := reported("p", "t", "1", time.Now(), "doc")
	l := &of.Rewrite.Ledger
	l.Filter, l.Sources[0].Name, l.Sources[0].Section = f, secret, secret
	of.Rewrite.Outcome = rewrite.Injected
	of.Rewrite.Edits = []rewrite.Edit{{Name: "inject", Insert: rewrite.EditText{[]byte(`"`), []byte(escaped), []byte(`"`)}}}
	d.Finish(of)
	r.end(t)
	list, _ := read(t, dir, map[string]*cache.Keys{"p": s.Keys}, record.Query{})
	text, err := json.Marshal(list)
	if err != nil || len(list) != 1 || list[0].Body == nil || list[0].Block == "" || len(list[0].Earlier) != 2 || list[0].Asked == nil || list[0].Filter == nil {
		t.Fatalf("%s, %v", text, err)
	}
	texts := map[string]string{"the records": string(text)}
	for _, path := range segments(t, dir, "p") {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = string(file)
	}
	for _, needle := range []string{"secret.test", number, "canary0123"} {
		for i := range 3 { // base64 of a text depends on where it begins
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + needle))
			for where, text := range texts {
				if strings.Contains(text, needle) || strings.Contains(text, encoded[4:len(encoded)-4]) {
					t.Errorf("%s: %q is in %q", where, needle, text)
				}
			}
		}
	}
}

// Of secrets at any place of a text that is too long, nothing is recorded: whether the body is recorded, is
// too large to be copied, or the upstream holds the text.
func TestSecretsAtTheEndsOfLongTexts(t *testing.T) {
	secrets := []string{`Bearer canary0123456789`, `sk-canary0123456789`, `"password" : "canary01 canary02 canary03"`, `canary@canary.test`, `4930 90182 0551`, `DE89 3704 0044 0532 0130 00`}
	needles := regexp.MustCompile(`canary|\.test|493|018|055|3704|0044|0130`)
	dir, s := t.TempDir(), everything(t)
	s.Redact = *all()
	r := newRecorder(t, dir, nil, map[string]record.Settings{"p": s})
	n := 0
	ask := func(content string, padding int, held ...string) {
		t.Helper()
		quoted, _ := json.Marshal(content)
		body := fmt.Appendf(nil, `{"x":%q,"model":"m","messages":[{"role":"user","content":%s},{"role":"user","content":%s}]}`, strings.Repeat("x", padding), quoted, quoted)
		req, err := chat.Completions.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		n++
		id := fmt.Sprintf("%06d", n)
		d := r.Begin("p", "t", id)
		d.Ask(body, req, &rewrite.Options{Query: chat.ClipQuestion(content), Earlier: held})
		d.Finish(reported("p", "t", id, time.Now()))
		if n%50 == 0 { // so that none is dropped
			r.counted(n)
		}
	}
	for _, secret := range secrets {
		for _, size := range []int{followup.MaxBytes, chat.MaxQuery} {
			for shift := -2; shift <= len(secret)+2; shift += size / followup.MaxBytes {
				// The first cut is after shift bytes of the first secret, the other one likewise.
				words := strings.Repeat("good words ", size/16)
				text := words[:size/2-shift-1] + " " + secret + " " + words[:100] + " " + secret + " " + words[:size/2-len(secret)+shift-1]
				ask(text, 0)
				ask("?", 0, followup.Clip(text))
				if shift%4 == 0 {
					ask(text, 256<<10)
				}
			}
		}
	}
	r.end(t)
	list, _ := read(t, dir, map[string]*cache.Keys{"p": s.Keys}, record.Query{})
	if len(list) != n {
		t.Errorf("%d records of %d", len(list), n)
	}
	for _, of := range list {
		for _, text := range append(of.Earlier, of.Question, of.Asked.Query) {
			if at := needles.FindStringIndex(text); at != nil {
				t.Fatalf("%s: %q", of.ID, text[max(0, at[0]-20):min(len(text), at[1]+20)])
			}
			if len(text) > 1 && !strings.HasPrefix(text, "good words ") {
				t.Fatalf("%s: %q", of.ID, text)
			}
		}
	}
}
