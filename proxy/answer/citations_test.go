package answer_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sidenote/proxy/answer"
)

// given returns one of five sources, the third of which has no words in common with anything.
func given(id int) (answer.CitedSource, bool) {
	if id > 5 {
		return answer.CitedSource{}, false
	}
	text := [...]string{1: "Refunds take 5 days.", 2: "Shipping is free.", 3: "Nothing", 4: "Four", 5: "Five"}[id]
	return answer.CitedSource{Title: fmt.Sprint("Title ", id), URL: fmt.Sprint("https://kb/", id), Text: text}, true
}

func terms(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune(" .,!?*`\n-", r) })
}

// An annotation as a client decodes it.
type annotation struct {
	Type string
	URL  struct {
		Start int    `json:"start_index"`
		End   int    `json:"end_index"`
		Title string `json:"title"`
		URL   string `json:"url"`
	} `json:"url_citation"`
}

// cited formats annotations with the text they refer to: "[1]@7=1".
func cited(content string, list []annotation) (out []string) {
	runes := []rune(content)
	for _, a := range list {
		id := strings.TrimPrefix(a.URL.Title, "Title ")
		if a.Type != "url_citation" || a.URL.URL != "https://kb/"+id || a.URL.End > len(runes) {
			id = fmt.Sprintf("bad %+v", a)
		}
		out = append(out, fmt.Sprintf("%s@%d=%s", string(runes[a.URL.Start:min(a.URL.End, len(runes))]), a.URL.Start, id))
	}
	return out
}

// whole returns a whole answer with one choice.
func whole(content string) string {
	text, _ := json.Marshal(content)
	return `{"id":"a", "choices":[{"index":0,"message":{"role":"assistant","content":` + string(text) + ` },"finish_reason":"stop"}],"usage":{"total_tokens":5}}`
}

// checked returns the content and annotations of a checked answer.
func checked(t *testing.T, o answer.CitationOptions, content string) (string, []string, answer.CitationReport) {
	t.Helper()
	o.SourceByID, o.Terms = given, terms
	c := answer.NewCitations(o)
	ans := whole(content)
	out := c.JSON([]byte(ans))
	var a struct {
		Choices []struct {
			Message struct {
				Content     string
				Annotations []annotation
			}
		}
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(a.Choices[0].Message.Annotations) == 0 && a.Choices[0].Message.Content == content && string(out) != ans {
		t.Errorf("nothing is said, and %s became %s", ans, out)
	}
	m := a.Choices[0].Message
	return m.Content, cited(m.Content, m.Annotations), c.Report()
}

// markers are texts with their expected citations.
var markers = []struct {
	name, content, want string
	unknown             int
}{
	{"one", "Refunds take 5 days [1].", "[1]@20=1", 0},
	{"two", "A [1][2]. B [3]", "[1]@2=1 [2]@5=2 [3]@12=3", 0},
	{"a list", "A [1, 2;4].", "[1, 2;4]@2=1 [1, 2;4]@2=2 [1, 2;4]@2=4", 0},
	{"spaces", "A [ 1 ].", "[ 1 ]@2=1", 0},
	{"twice in one", "A [1, 1].", "[1, 1]@2=1", 0},
	{"wide", "退款需要五天【1】。送货免费【2】。ひらがな【 の。", "【1】@6=1 【2】@14=2", 0},
	{"code points", "Größe 🙂👍🏽 [1], e\u0301 [2]", "[1]@10=1 [2]@18=2", 0},
	{"unknown", "A [9], B [1][77].", "[1]@9=1", 2},
	{"no ids", "In [2024], [0], [01], [1000], [], [,], [1,], [x], [1.5], [-1], [^1], [1-2].", "", 0},
	{"a link", "A [1](https://x) [2] (see) ![3](y.png).", "[2]@17=2", 0},
	{"in the text of a link", "See [the page [1] here](https://x) and [the page [2]] and [[3]].", "[2]@49=2 [3]@59=3", 0},
	{"in a bracket that is never closed", "From [0, 1) it is so [1]\nand [2]", "[1]@21=1 [2]@29=2", 0},
	{"definitions", "See [1].\n\n[1]: https://x\n  [2]: https://y\nAs [3]: so", "[1]@4=1 [3]@45=3", 0},
	{"code", "Use `a[1]` and ``b ` [2]`` but c [3].", "[3]@33=3", 0},
	{"a backtick alone", "The ` key [1].\n\nAnd [2]` [3]", "[1]@10=1 [2]@20=2 [3]@25=3", 0},
	{"runs that differ", "``` a ` [1] `` [2] ` [3]", "[3]@21=3", 0},
	{"code over two lines", "Use `a\nb[1]` [2]", "[2]@13=2", 0},
	{"code does not go on in a list", "- a ` [1]\n- b ` [2]", "[1]@6=1 [2]@16=2", 0},
	{"a fence", "```go [5]\na[1]\n``\n````\nso [2]\n~~~\n[3]\n```\n~~~\n[4]", "[2]@26=2 [4]@46=4", 0},
	{"a fence in a list", "1. Do\n   ```sh\n   $x[1]\n   ``` \n   then [2]", "[2]@40=2", 0},
	{"a fence in a quote", "> ```\n> a[1]\n> ```\n> [2]", "[2]@21=2", 0},
	{"a fence without end", "[1]\n```\n[2]\n\n[3]", "[1]@0=1", 0},
	{"no fence", "```a``` [1] ``` [2]\n[3]", "[1]@8=1 [2]@16=2 [3]@20=3", 0},
	{"a fence behind a run", "a ` b\n```\n[1]\n```\n[2]", "[2]@18=2", 0},
	{"carriage returns", "```\r\n[1]\r\n```\r\n\r\n[2]\r\n", "[2]@17=2", 0},
	{"a fence at the end", "[1]\n```[2]", "[1]@0=1", 0},
	{"escapes", `A \[1] \\[2] \[3\] \` + "`[4]` `\\` [5]", `[2]@9=2 [4]@21=4 [5]@30=5`, 0},
	{"a task", "- [ ] a [1]\n- [x] b [2]", "[1]@8=1 [2]@20=2", 0},
	{"brackets in brackets", "[[1], [2]](x) [[3]", "[3]@15=3", 0},
}

func TestMarkers(t *testing.T) {
	for _, c := range markers {
		content, got, report := checked(t, answer.CitationOptions{}, c.content)
		if strings.Join(got, " ") != c.want || content != c.content || report.Unknown != c.unknown || report.Annotations != len(got) {
			t.Errorf("%s: %q: got %q, want %q; %+v", c.name, c.content, strings.Join(got, " "), c.want, report)
		}
	}
}

// Markers with unknown ids are removed with the space before them, and indices refer to the
// remaining text. Markers that may be in code or a link stay.
func TestUnknownIsRemoved(t *testing.T) {
	for _, c := range []struct {
		content, want, cited string
		unknown              int
	}{
		{"A [9]. B [1].", "A. B [1].", "[1]@5=1", 1},
		{"A [9][8] [1][7]", "A [1]", "[1]@2=1", 3},
		{"A [9, 1] [1, 9] [8, 1, 9, 2, 7].", "A [1] [1] [1, 2].", "[1]@2=1 [1]@6=1 [1, 2]@10=1 [1, 2]@10=2", 5},
		{"[9] A\n[8] [1]", " A\n [1]", "[1]@4=1", 2},
		{"五天【9】，六【 9，8】【9,1】", "五天，六【 9，8】【1】", "【1】@10=1", 2},
		{"A [9](x) `[9]` [1]", "A [9](x) `[9]` [1]", "[1]@15=1", 0},
		{"A ` [9] [1]", "A ` [9] [1]", "[1]@8=1", 1},
		{"A  [9]", "A ", "", 1},
		{"A [9", "A [9", "", 0},
	} {
		content, got, report := checked(t, answer.CitationOptions{RemoveUnknown: true}, c.content)
		if content != c.want || strings.Join(got, " ") != c.cited || report.Unknown != c.unknown {
			t.Errorf("%q: got %q, %q, want %q, %q; %+v", c.content, content, got, c.want, c.cited, report)
		}
	}
}

// Prompts may contain markers: an id that was never given refers to those, and a given id does
// after the same words.
func TestOwnMarkers(t *testing.T) {
	var own answer.PromptMarkers
	own.Add("As the paper says [12], and as I said before [1]. 【13】 arr[14] [15](x)")
	own.Add("")
	for content, want := range map[string]string{
		"The paper [12], arr[14], [13], [15].": "",
		"You wrote: as I said before [1].":     "",
		"I said [1].":                          "[1]@7=1",
		"Another [16].":                        "unknown 1",
	} {
		_, got, report := checked(t, answer.CitationOptions{PromptMarkers: own, RemoveUnknown: true}, content)
		if report.Unknown > 0 {
			got = append(got, fmt.Sprint("unknown ", report.Unknown))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	for range 5000 {
		own.Add("of many markers [17] some are kept, [999]")
	}
	if n := len(own[17]); n > 100 {
		t.Errorf("%d are kept", n)
	}
}

// Annotations are added to existing ones, and all other bytes stay.
func TestJSONKeepsBytes(t *testing.T) {
	const ours = `{"type":"url_citation","url_citation":{"start_index":2,"end_index":5,"title":"Title 1","url":"https://kb/1"}}`
	for in, want := range map[string]string{
		`{"choices":[{"message":{"content":"A [1]"}}]}`:                                              `{"choices":[{"message":{"content":"A [1]","annotations":[` + ours + `]}}]}`,
		`{"choices":[{"message":{"content":"A [1]","annotations":[]}}], "x":1.0}`:                    `{"choices":[{"message":{"content":"A [1]","annotations":[` + ours + `]}}], "x":1.0}`,
		`{"choices":[{"message":{"annotations": [ {"a":1} ] ,"content":"A [1]"}}]}`:                  `{"choices":[{"message":{"annotations": [ {"a":1} ,` + ours + `] ,"content":"A [1]"}}]}`,
		`{"choices":[{"message":{"content":"A [1]","annotations":null,"role":"a"}}]}`:                `{"choices":[{"message":{"content":"A [1]","annotations":[` + ours + `],"role":"a"}}]}`,
		`{"choices":[{"message":{"content":"A \u005b1\u005D"}}]}`:                                    `{"choices":[{"message":{"content":"A \u005b1\u005D","annotations":[` + ours + `]}}]}`,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":"[1]"}}]}}]}`: ``,
		`{"choices":[]}`:                               ``,
		`{"choices":[1,{"message":2}]}`:                ``,
		`{"error":{"message":"[1]"}}`:                  ``,
		`{"choices":[{"message":{"content":"A [1]"}}]`: ``,
		`[1]`: ``,
		``:    ``,
	} {
		got := string(answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true}).JSON([]byte(in)))
		if want == "" {
			want = in
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	c := answer.NewCitations(answer.CitationOptions{SourceByID: given, RemoveUnknown: true})
	const in, want = `{"choices":[{"message":{"content":"A\u0020\u005b9\u005d\u3010\u0039\u3011!"}}]}`, `{"choices":[{"message":{"content":"A!"}}]}`
	if got := string(c.JSON([]byte(in))); got != want {
		t.Errorf("of escapes %s is left", got)
	}
	c = answer.NewCitations(answer.CitationOptions{SourceByID: given, CountOnly: true})
	if got := string(c.JSON([]byte(whole("A [1] [9]")))); got != whole("A [1] [9]") || c.Report().Unknown != 1 || len(c.Report().Cited) != 1 {
		t.Errorf("counting makes %s, %+v", got, c.Report())
	}
}

// The reason why an answer was not read is reported.
func TestUnread(t *testing.T) {
	for want, body := range map[answer.CitationsUnread]string{
		answer.UnreadShape:    `{"error":"x"}`,
		answer.UnreadTooLarge: whole("A [1]" + strings.Repeat(" ", answer.MaxCitedJSON)),
		"":                    whole(""),
	} {
		c := answer.NewCitations(answer.CitationOptions{SourceByID: given})
		if got := string(c.JSON([]byte(body))); got != body || c.Report().Unread != want {
			t.Errorf("%s: unread is %q", want, c.Report().Unread)
		}
	}
}

// Support is the share of a statement's terms that its source contains.
func TestSupport(t *testing.T) {
	for content, want := range map[string]string{
		"Refunds take 5 days [1].":                        "1×1 1.00",
		"It rains. Refunds take long [1].":                "1×1 0.67",
		"Refunds take 5 days. [1] Shipping is free [2].":  "1×1 1.00 2×1 1.00",
		"**Refunds take 5 days.** [1][2]":                 "1×1 1.00 2×1 0.00",
		"Refunds take 5 days [1], shipping is free [2].":  "1×1 1.00 2×1 1.00",
		"Refunds take 5 days [1] [2].":                    "1×1 1.00 2×1 0.00",
		"Never 5.5 days [1]":                              "1×1 0.67",
		"- Shipping\n- Refunds take [1]\n\nDays pass [1]": "1×2 0.75",
		"[1]":                          "1×1 -",
		"```\nx\n```\n[2] Refunds [1]": "1×1 1.00 2×1 -",
		"Refunds [3]":                  "3×1 0.00",
		strings.Repeat("bla ", 3000) + ". Refunds days [1]": "1×1 1.00",
	} {
		_, _, report := checked(t, answer.CitationOptions{}, content)
		var got []string
		for _, c := range report.Cited {
			support := "-"
			if c.Support != nil {
				support = strconv.FormatFloat(*c.Support, 'f', 2, 64)
			}
			got = append(got, fmt.Sprintf("%d×%d %s", c.ID, c.Times, support))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.60q: got %q, want %q", content, got, want)
		}
	}
}
