package tools_test

import (
	"strings"
	"testing"

	"sidenote/retrieval/tools"
)

// Calls in code and reasoning do not count, and those after it do. In the answers below, $ stands
// for text that looks like a call but is none, and @ for a call.
func TestCode(t *testing.T) {
	const call = "<search><query>q</query></search>"
	for _, row := range []string{
		"```\n$\n```\n@",
		"```xml\r\n$\r\n```\r\n@",
		"~~~ xml `x`\n$\n~~~\n@",
		"   ```\n$\n   ``` \t\n@",
		"````\n```\n$\n````\n@",
		"```\n~~~\n$\n```\n@",
		"```\n``` x\n$\n```\n@",
		"```\n``` `\n$\n",
		"```\nx ```\n$\n```\n@",
		"```\n       ```\n$\n```\n@",
		"\t```\n       ```\n@",
		"1. Do:\n\n       ```sh\n       $\n       ```\n@",
		"- ```sh\n  $\n  ```\n@",
		"10) ~~~\n    $\n    ~~~\n@",
		"> ```\n> $\n> ```\n@",
		"```\n> ```\n$\n```\n@",
		"```\n- ```\n$\n```\n@",
		"\t```\n\t$\n\t```\n@",
		"```\n$",
		"``\n@",
		"~~\n@ ~~",
		"x ```\n@",
		"x ~~~\n@",
		"\\```\n@",
		"``` a ``` @",
		"``` a ` $ ```\n@",
		"``` ~~~\n$\n```\n@",
		"~~~`~~~ $\n~~~\n@",
		"`$`",
		"`` ` $ `` @",
		"`a` @ `b`",
		"`a $\n@",
		"it`s $\n\n@",
		"\\`@\\`",
		"\\\\`$`",
		"`\\` @ `",
		"`a ~` @",
		"a ~ `$` ~~~ @",
		"@ ```\n@\n",
		"@```\n@\n```\n",

		"<think>$</think>@",
		"\n <THINK a='b'>\n```\n$\n< / think >\n@",
		"<reasoning>a</reasoning>\n<thinking>$ </think> $</thinking>@",
		"\n `<think>$</think>",
		"\\<think>@</think>",
		"<think>$",
		"Well. <think>@</think>",
		"<thinker>@</thinker>",
		"@<think>@</think>",
	} {
		var s tools.XMLScanner
		s.Reset(all())
		answer := strings.NewReplacer("$", call, "@", call).Replace(row)
		text, calls := scan(t, &s, answer)
		if want := strings.NewReplacer("$", call, "@", "").Replace(row); text != want || len(calls) != strings.Count(row, "@") {
			t.Errorf("%q\n got %q and %d calls\nwant %q", row, text, len(calls), want)
		}
		everyCut(t, answer)
	}
}
