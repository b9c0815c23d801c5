package answer_test

import (
	"strings"
	"testing"

	"sidenote/proxy/answer"
)

// Answers are read whether the text is a string or a list of parts, with or without reasoning
// before it, with a byte order mark, and with data on several lines. Reasoning cites nothing.
func TestOddAnswersAreRead(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	thought := `{"type":"thinking","thinking":[{"type":"text","text":"Is it [1] or [9]?"}]}`
	parts := `[` + thought + `,{"type":"text","text":"It is 16 weeks [1], "},{"type":"text","text":"see [9]."}]`
	for name, c := range map[string]struct {
		whole  string // the content of a whole answer
		stream string
	}{
		"a list of parts":      {parts, delta(0, `[`+thought+`]`) + delta(0, `[{"type":"text","text":"It is 16 weeks [1"}]`) + delta(0, `[{"text":"], see ","type":"text"}]`) + delta(0, `"[9]."`)},
		"thoughts in tags":     {`"<think>Is it [1] or [9]? ~~~</think>\n\nIt is 16 weeks [1], see [9]."`, delta(0, `" <thi"`) + delta(0, `"nk>Is it [1] or [9]?\n~~~\n</thi"`) + delta(0, `"nk>It is 16 weeks [1], see [9]."`)},
		"thoughts in brackets": {`"[THINK]Is it [1]?[/THINK]It is 16 weeks [1], see [9]."`, delta(0, `"[THINK]Is it [1]?[/THINK]It is 16 weeks [1], see [9]."`)},
		"no thoughts":          {`"<thin [1], see [9]."`, delta(0, `"<thin [1], see [9]."`)},
		"a mark":               {`"It is 16 weeks [1], see [9]."`, mark + delta(0, `"It is 16 weeks [1], see [9]."`)},
		"several lines":        {`"It is 16 weeks [1], see [9]."`, strings.ReplaceAll(delta(0, `"It is 16 weeks [1], see [9]."`), `"delta"`, "\r\nid: 1\ndata: \"delta\"")},
	} {
		for _, remove := range []bool{false, true} {
			o := answer.CitationOptions{SourceByID: given, RemoveUnknown: remove}
			check := func(kind string, c *answer.CitationChecker, in, out string) {
				r := c.Report()
				if len(r.Cited) != 1 || r.Cited[0].ID != 1 || r.Cited[0].Times != 1 || r.Unknown != 1 || r.Unread != "" {
					t.Errorf("%s, %s: %+v", name, kind, r)
				}
				gone := strings.Count(in, "[9]") - strings.Count(out, "[9]")
				if want := map[bool]int{true: 1}[remove]; gone != want {
					t.Errorf("%s, %s: removed %d of unknown markers, want %d: %s", name, kind, gone, want, out)
				}
			}
			checker := answer.NewCitations(o)
			in := `{"choices":[{"message":{"content":` + c.whole + `}}]}`
			check("whole", checker, in, string(checker.JSON([]byte(in))))
			if strings.Count(c.stream, "data:") == 0 {
				t.Fatal("no stream")
			}
			checker = answer.NewCitations(o)
			in = c.stream + "data: [DONE]\n\n"
			check("streamed", checker, in, stream(t, checker, in, 7))
		}
	}
}
