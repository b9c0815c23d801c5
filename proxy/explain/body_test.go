package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
)

const chatJSON = `{"model":"gpt-5", "messages":[{"role":"user","content":"My \"secret\" \\"}, {"role":"assistant","content":null,` +
	`"tool_calls":[{"type":"function","function":{"name":"pay","arguments":"{\"to\":\"Ann\"}"}}]}],"temperature":0.50,"stream":true,"x":{"type":["Ann"]}}`

// kept returns what a Ring keeps of a body.
func kept(bodies explain.Bodies, pieces ...[]byte) (received, sent *explain.Body) {
	r := explain.New(1, bodies)
	of := &report.Report{ID: "a", Outcome: "injected"}
	r.Received(of, bytes.Join(pieces, nil))
	r.Sent(of, [][]byte{[]byte("another")})
	r.Sent(of, pieces)
	r.Record(of)
	e, _, _ := r.Find("a")
	return e.Received, e.Sent
}

func TestBodies(t *testing.T) {
	const structure = `{"model":"gpt-5","messages":[{"role":"user","content":"(16 bytes)"},{"role":"assistant","content":null,` +
		`"tool_calls":[{"type":"function","function":{"name":"(3 bytes)","arguments":"(16 bytes)"}}]}],"temperature":0.50,"stream":true,"x":{"type":["(3 bytes)"]}}`
	long, deep := strings.Repeat("long ", 20), strings.Repeat("[", 100)
	for _, c := range []struct{ body, full, redacted string }{
		{chatJSON, chatJSON, structure},
		{"", "", ""},
		{" [1,\n-2.5e+3, \"\", true,false,null] ", " [1,\n-2.5e+3, \"\", true,false,null] ", `[1,-2.5e+3,"(0 bytes)",true,false,null]`},
		{`{"` + long + `":1,"role":"` + long + `"}`, `{"` + long + `":1,"role":"` + long + `"}`, `{"(100 bytes)":1,"role":"(100 bytes)"}`},
		{`My secret`, `My secret`, " …"},
		{`"My secret"`, `"My secret"`, `"(9 bytes)"`},
		{`{"role" My secret}`, `{"role" My secret}`, `{"role" …`},
		{`{"content":"My secr`, `{"content":"My secr`, `{"content": …`},
		{`{"n":` + strings.Repeat("9", 65) + `}`, `{"n":` + strings.Repeat("9", 65) + `}`, `{"n": …`},
		{`[1]]`, `[1]]`, `[1] …`},
		{`{1]`, `{1]`, `{1 …`},
		{deep, deep, deep + " …"},
	} {
		for bodies, want := range map[explain.Bodies]string{explain.BodiesFull: c.full, explain.BodiesRedacted: c.redacted} {
			received, sent := kept(bodies, []byte(c.body))
			for _, b := range []*explain.Body{received, sent} {
				if b == nil || b.Text != want || b.Bytes != len(c.body) {
					t.Errorf("%s of %q: %+v", bodies, c.body, b)
				}
			}
		}
	}
	if received, sent := kept(explain.BodiesOff, []byte(chatJSON)); received != nil || sent != nil {
		t.Errorf("off: %v, %v", received, sent)
	}
}

// Anything that looks like a key is masked, in every form of Bodies.
func TestKeysAreMasked(t *testing.T) {
	const key = "sk-sidenote-AAAABBBBCCCC"
	for body, want := range map[string]string{
		`{"messages":[{"content":"use ` + key + ` now"}]}`:                                                                        `{"messages":[{"content":"use (a key) now"}]}`,
		`{"api_key": "top","x-api-key":"a\"b","apiKey":"top"}`:                                                                    `{"api_key": "(a key)","x-api-key":"(a key)","apiKey":"(a key)"}`,
		`{"Authorization":"Bearer abcdefgh.ijkl"}`:                                                                                `{"Authorization":"(a key)"}`,
		`{"content":"curl -H 'Authorization: Bearer abcdefgh.ijkl'"}`:                                                             `{"content":"curl -H 'Authorization: (a key)'"}`,
		`{"authentication":{"type":"api_key","key":"abc"},"access_token":"abc","connection_string":"a;b","keys":"k","token":"t"}`: `{"authentication":{"type":"api_key","key":"(a key)"},"access_token":"(a key)","connection_string":"(a key)","keys":"k","token":"(a key)"}`,
		`{"client_secret":"cut off h`:                                                                                             `{"client_secret":"(a key)`,
		`{"content":"task-force and ask-me"}`:                                                                                     `{"content":"task-force and ask-me"}`,
	} {
		if _, sent := kept(explain.BodiesFull, []byte(body)); sent.Text != want {
			t.Errorf("%s is shown as %s", body, sent.Text)
		}
	}
	if _, sent := kept(explain.BodiesRedacted, []byte(`{"`+key+`":"`+key+`"}`)); sent.Text != `{"(a key)":"(24 bytes)"}` {
		t.Errorf("redacted: %s", sent.Text)
	}
}

// Of a long body both ends are kept, and of many bodies the last ones.
func TestBodiesAreBounded(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdef", 1<<14)) // 256 KiB
	_, sent := kept(explain.BodiesFull, text[:100_000], text[100_000:100_001], text[100_001:])
	if want := string(text[:32<<10]) + "\n… 196608 bytes …\n" + string(text[:32<<10]); sent.Text != want || sent.Bytes != len(text) {
		t.Errorf("%d bytes of %d", len(sent.Text), sent.Bytes)
	}
	many := []byte("[" + strings.Repeat("1,", 1<<20) + "1]")
	if _, sent = kept(explain.BodiesRedacted, many); len(sent.Text) > 64<<10 || len(sent.Text) < 60<<10 || !strings.HasSuffix(sent.Text, " …") {
		t.Errorf("%d bytes of a long list", len(sent.Text))
	}
	huge := []byte(`["` + strings.Repeat("x", 2<<20) + `",1]`)
	if _, sent = kept(explain.BodiesRedacted, huge); sent.Text != "[ …" {
		t.Errorf("%s of a text that is too long", sent.Text)
	}

	r := explain.New(1000, explain.BodiesFull)
	for i := range 1000 {
		of := &report.Report{ID: fmt.Sprint(i), Outcome: "injected"}
		r.Received(of, text)
		r.Record(of)
	}
	for id, want := range map[string]bool{"0": false, "488": false, "489": true, "999": true} { // 511 of a little more than 64 KiB are 32 MiB
		if e := find(t, r, id); (e.Received != nil) != want {
			t.Errorf("%s: %v", id, e.Received)
		}
	}
}

// A body is shown only with the report of its own tenant.
func TestBodiesOfOtherTenants(t *testing.T) {
	r := explain.New(10, explain.BodiesFull)
	r.Received(&report.Report{ID: "a", Tenant: "acme"}, []byte("of acme"))
	r.Record(&report.Report{ID: "a", Tenant: "other", Outcome: "injected"})
	if e := find(t, r, "a"); e.Received != nil {
		t.Errorf("other is shown %q", e.Received.Text)
	}
}

// Redaction depends neither on the pieces nor on white space. Redacted JSON is JSON; of any input
// it shows no text except short names and the values of three members.
func FuzzRedacted(f *testing.F) {
	for _, seed := range []string{chatJSON, `{"a" "b":"c"}`, `["\`, `{"role":"user"`, `{"role":{"x":"y"}}`, `tru e`, `"a"b"c"`} {
		f.Add([]byte(seed), uint64(1))
	}
	shown := regexp.MustCompile(`^(?:[\[\]{}:,]|"(?:[^"\\]|\\.){0,64}"|-?[0-9.eE+-]{1,64}|true|false|null)*(?: …)?$`)
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		received, whole := kept(explain.BodiesRedacted, body)
		random := rand.New(rand.NewPCG(seed, 1))
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := min(1+random.IntN(8), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if _, cut := kept(explain.BodiesRedacted, pieces...); cut.Text != whole.Text || received.Text != whole.Text {
			t.Fatalf("in pieces %q, whole %q", cut.Text, whole.Text)
		}
		if !bytes.Contains(body, []byte("\n")) && !shown.MatchString(strings.ToValidUTF8(whole.Text, "?")) {
			t.Errorf("%q is shown as %q", body, whole.Text)
		}
		var value any
		if json.Unmarshal(body, &value) != nil || strings.HasSuffix(whole.Text, " …") || strings.Contains(whole.Text, "(a key)") {
			return
		}
		if !json.Valid([]byte(whole.Text)) {
			t.Errorf("%q is shown as %q, which is no JSON", body, whole.Text)
		}
		checkHidden(t, whole.Text)
	})
}

// checkHidden checks each string that is a value.
func checkHidden(t *testing.T, text string) {
	length := regexp.MustCompile(`^\([0-9]+ bytes\)$`)
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			if !length.MatchString(v) && name != "role" && name != "type" && name != "model" {
				t.Errorf("%s: %q is shown", text, v)
			}
		case []any:
			for _, v := range v {
				walk("", v)
			}
		case map[string]any:
			for name, v := range v {
				walk(name, v)
			}
		}
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err == nil {
		walk("", value)
	}
}

func BenchmarkBodies(b *testing.B) {
	body := []byte(`{"model":"gpt-5","messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat("some words ", 40)+`"},`, 100) + `{}]}`)
	for _, bodies := range []explain.Bodies{explain.BodiesFull, explain.BodiesRedacted} {
		b.Run(string(bodies), func(b *testing.B) {
			r := explain.New(1000, bodies)
			of := &report.Report{ID: "a"}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Received(of, body)
			}
		})
	}
}

// The text of an answer is kept like bodies: masked, as its length, or not at all; it counts as a
// body.
func TestAnswers(t *testing.T) {
	const said = "Use sk-sidenote-1234 [1]."
	long := strings.Repeat("y", answer.MaxText)
	for _, c := range []struct {
		bodies explain.Bodies
		said   answer.Text
		want   *explain.Answer
	}{
		{explain.BodiesOff, answer.Text{Bytes: 25, Text: said}, nil},
		{explain.BodiesRedacted, answer.Text{Bytes: 25, Text: said, Finish: "stop"}, &explain.Answer{Bytes: 25, Text: "(25 bytes)", Finish: "stop"}},
		{explain.BodiesFull, answer.Text{Bytes: 25, Text: said, Finish: "stop"}, &explain.Answer{Bytes: 25, Text: "Use (a key) [1].", Finish: "stop"}},
		{explain.BodiesFull, answer.Text{Unread: answer.TextCompressed}, &explain.Answer{Unread: answer.TextCompressed}},
		{explain.BodiesRedacted, answer.Text{Unread: answer.TextCompressed}, &explain.Answer{Unread: answer.TextCompressed}},
		{explain.BodiesFull, answer.Text{Bytes: 1 << 20, Text: long}, &explain.Answer{Bytes: 1 << 20, Text: long + "\n… 983040 bytes …"}},
		{explain.BodiesRedacted, answer.Text{Bytes: 1 << 20, Text: long}, &explain.Answer{Bytes: 1 << 20, Text: "(1048576 bytes)"}},
	} {
		r, of := explain.New(2, c.bodies), &report.Report{ID: "a", Tenant: "t", Outcome: "injected"}
		r.Answered(&report.Report{ID: "a", Tenant: "another"}, answer.Text{Text: "not theirs"})
		r.Answered(of, c.said)
		r.Answered(&report.Report{ID: "a", Tenant: "another"}, answer.Text{Text: "not theirs"})
		r.Record(of)
		e, _, _ := r.Find("a")
		if diff := cmp.Diff(c.want, e.Answer); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.bodies, diff)
		}
	}
}

// Answers take no more memory than other bodies: the oldest are dropped.
func TestAnswersAreBounded(t *testing.T) {
	const answers, fit = 600, 32 << 20 / answer.MaxText
	r := explain.New(answers, explain.BodiesFull)
	for i := range answers {
		of := &report.Report{ID: fmt.Sprint(i), Outcome: "injected"}
		r.Answered(of, answer.Text{Bytes: answer.MaxText, Text: strings.Repeat("y", answer.MaxText)})
		r.Record(of)
	}
	first := 0
	for ; first < answers; first++ {
		if e, _, _ := r.Find(fmt.Sprint(first)); e.Answer != nil {
			break
		}
	}
	if first != answers-fit {
		t.Errorf("%d answers are kept, of %d that fit", answers-first, fit)
	}
}

// Ends reports what is missing of a body, and nothing if all is kept.
func TestEndsOfBodies(t *testing.T) {
	long := strings.Repeat("a", 40<<10) + strings.Repeat("b", 40<<10)
	fake := "x\n… 7 bytes …\ny"
	for body, want := range map[string][3]any{
		"short": {"short", "", 0}, fake: {fake, "", 0}, long: {long[:32<<10], long[48<<10:], 16 << 10},
	} {
		r := explain.New(1, explain.BodiesFull)
		of := &report.Report{ID: "a"}
		r.Received(of, []byte(body))
		r.Record(of)
		e, _, _ := r.Find("a")
		if head, tail, lost := e.Received.Ends(); [3]any{head, tail, lost} != want {
			t.Errorf("%.20s: %.20q, %.20q and %d", body, head, tail, lost)
		}
	}
	b := explain.Body{Bytes: 9, Text: `{"a": …`}
	if head, tail, lost := b.Ends(); head != `{"a":` || tail != "" || lost != -1 {
		t.Errorf("redacted: %q, %q, %d", head, tail, lost)
	}
	said := explain.Answer{Bytes: 70 << 10, Text: "a\n… 6144 bytes …"}
	if head, _, lost := (&explain.Body{Bytes: said.Bytes, Text: said.Text}).Ends(); head != "a" || lost != 6144 {
		t.Errorf("an answer: %q, %d", head, lost)
	}
}
