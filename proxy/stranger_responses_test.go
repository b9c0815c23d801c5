package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// Requests of the Responses API in forms that people use: the model gets tools of ours beside what
// the request says, which goes up as it is in each round, or a reason why not is given.
func TestResponsesRequestsOfStrangers(t *testing.T) {
	const (
		search   = `call search_knowledge {"query":"parental leave"}`
		question = `"input":"How long is leave?"`
		custom   = `{"type":"custom","name":"search_knowledge"}`
		mcp      = `{"type":"mcp","server_label":"x","server_url":"https://example.com/"}`
	)
	for name, row := range map[string]struct {
		members   string // of the request
		call      string // in the first answer; "" for search
		unoffered string
	}{
		"input is a string":                {members: question},
		"no tools":                         {members: question + `,"tools":[]`},
		"tools are null":                   {members: question + `,"tools":null`},
		"a message without a type":         {members: `"input":[{"role":"user","content":[{"type":"input_text","text":"How long is leave?"}]}]`},
		"item references":                  {members: `"input":[{"role":"user","content":"Hi"},{"type":"item_reference","id":"rs_1"},{"type":"item_reference","id":"msg_1"},{"role":"user","content":"How long is leave?"}]`},
		"references without a type":        {members: `"input":[{"id":"msg_1"},{"role":"user","content":"How long is leave?"}]`},
		"tool_choice auto":                 {members: question + `,"tool_choice":"auto","tools":` + weatherTool},
		"tool_choice auto without tools":   {members: question + `,"tool_choice":"auto"`, unoffered: "tool-choice"},
		"tool_choice required":             {members: question + `,"tool_choice":"required","tools":` + weatherTool},
		"tool_choice none":                 {members: question + `,"tool_choice":"none","tools":` + weatherTool, unoffered: "tool-choice"},
		"a named function":                 {members: question + `,"tool_choice":{"type":"function","name":"weather"},"tools":` + weatherTool, unoffered: "tool-choice"},
		"a hosted tool":                    {members: question + `,"tool_choice":{"type":"web_search"},"tools":[{"type":"web_search"}]`, unoffered: "tool-choice"},
		"hosted tools":                     {members: question + `,"tools":[{"type":"web_search"},` + mcp + `]`},
		"allowed tools":                    {members: question + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]},"tools":` + weatherTool, unoffered: "tool-choice"},
		"one call at a time":               {members: question + `,"parallel_tool_calls":false,"max_tool_calls":1,"tools":` + weatherTool},
		"one call, no tools":               {members: question + `,"parallel_tool_calls":false`},
		"a tool with the name of ours":     {members: question + `,"tools":` + strings.Replace(weatherTool, "weather", "search_knowledge", 1), call: `call sidenote_search_knowledge {"query":"parental leave"}`},
		"a custom tool with that name":     {members: question + `,"tools":[` + custom + `]`, call: `call sidenote_search_knowledge {"query":"parental leave"}`},
		"not stored, reasoning is sealed":  {members: question + `,"store":false,"include":["reasoning.encrypted_content"]`},
		"no obfuscation":                   {members: question + `,"stream_options":{"include_obfuscation":false}`},
		"structured":                       {members: question + `,"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":{"type":"object"}},"verbosity":"low"}`},
		"in the background":                {members: question + `,"background":true`, unoffered: "background"},
		"a template, which may have tools": {members: question + `,"prompt":{"id":"pmpt_1","variables":{"a":"b"}}`, unoffered: "ambiguous"},
		"a template, and tools":            {members: question + `,"prompt":{"id":"pmpt_1"},"tools":` + weatherTool},
		"no template":                      {members: question + `,"prompt":null`},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, stream), func(t *testing.T) {
				t.Parallel()
				answers := []string{"reasoning Hm.\n" + search, "text Done."}
				if row.call != "" {
					answers[0] = row.call
				}
				if row.unoffered != "" {
					answers = answers[1:]
				}
				u := answertest.StartResponses(t, dialogueOf(t, answers...), answertest.ItemHabits()[0])
				g := start(t, remembersTurns(withTools(t, u.URL, nil)), nil)
				resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", strings.NewReader(fmt.Sprintf(`{"model":"m","stream":%t,%s}`, stream, row.members)))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				status := resp.Header.Get(report.HeaderStatus)
				if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "Done.") {
					t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
				}
				if got := strings.HasPrefix(status, "tools"); got != (row.unoffered == "") || row.unoffered != "" && !strings.Contains(status, "unoffered="+row.unoffered) {
					t.Errorf("%s, want unoffered=%s", status, row.unoffered)
				}
				if reads := strings.Contains(string(body), "search_knowledge") && !strings.Contains(row.members, "search_knowledge") || strings.Contains(string(body), "Hm."); reads {
					t.Errorf("the client reads what is not for it: %s", body)
				}
				for n, request := range u.Requests() {
					var all, asked map[string]json.RawMessage
					if err := json.Unmarshal(request, &all); err != nil {
						t.Fatal(err)
					}
					if err := json.Unmarshal([]byte("{"+row.members+"}"), &asked); err != nil {
						t.Fatal(err)
					}
					for member, value := range asked {
						got, want := strings.TrimSuffix(string(all[member]), "]"), strings.TrimSuffix(string(value), "]")
						if member == "tools" && want == "null" || member == "input" && want[0] == '"' {
							continue
						}
						if !strings.HasPrefix(got, want) {
							t.Errorf("request %d has %s: %s, want %s", n+1, member, got, want)
						}
					}
				}
			})
		}
	}
}

// A call in a namespace of the application's tools is the application's, whatever its name.
func TestResponsesNamespacedCall(t *testing.T) {
	const item = `{"id":"fc_1","type":"function_call","status":"completed","namespace":"crm","name":"search_knowledge","call_id":"call_1","arguments":"{}"}`
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":"resp_1","object":"response","status":"completed","output":[%s]}`, item)
	}))
	t.Cleanup(up.Close)
	g := start(t, withTools(t, up.URL, nil), nil)
	c := &responsesClient{t: t, addr: g.addr}
	resp, err := http.Post("http://"+c.addr+"/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"How long is leave?","tools":[{"type":"namespace","name":"crm","tools":[{"type":"function","name":"search_knowledge"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), item) {
		t.Errorf("%v: %s", err, body)
	}
}

// An upstream that does not know the previous response is asked once, and its error reaches the
// client.
func TestResponsesPreviousNotFound(t *testing.T) {
	const refusal = `{"error":{"message":"Previous response with id 'resp_x' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		var asked atomic.Int64
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				asked.Add(1)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, refusal)
		}))
		t.Cleanup(up.Close)
		g := start(t, remembersTurns(withTools(t, up.URL, nil)), nil)
		resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"How long is leave?","previous_response_id":"resp_x"}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != status || string(body) != refusal || asked.Load() != 1 {
			t.Errorf("%d: asked %d times, %d %s, %v", status, asked.Load(), resp.StatusCode, body, err)
		}
	}
}

// A conversation goes on after a request that failed in a later round: the upstream keeps the call
// of ours, and gets its result with the next request.
func TestConversationAfterFailure(t *testing.T) {
	const search = `call search_knowledge {"query":"parental leave"}`
	for name, failure := range map[string]string{
		"an error":    `status 500 {"error":{"message":"x"}}`,
		"overloaded":  `status 429 {"error":{"message":"x"}}`,
		"unavailable": `status 503 {"error":{"message":"x"}}`,
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, stream), func(t *testing.T) {
				t.Parallel()
				u := answertest.StartResponses(t, dialogueOf(t, search, failure, "text Done."), answertest.ItemHabits()[0])
				g := start(t, remembersTurns(withTools(t, u.URL, func(p *tenant.Policy) { p.Tools.MaxTokens = 16000 })), nil)
				body := fmt.Sprintf(`{"model":"m","stream":%t,"conversation":"conv_1","input":"How long is leave?"}`, stream)
				resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(resp.Body) // a stream is cut
				resp.Body.Close()
				if strings.Contains(string(text), "Done.") {
					t.Fatalf("the second round did not fail: %s", text)
				}
				c := &responsesClient{t: t, addr: g.addr, stream: stream, common: `,"conversation":"conv_1"`}
				var r responses.Response
				if r, _ = c.ask("Once more?", ""); r.OutputText() != "Done." {
					t.Errorf("it goes on with %q", r.OutputText())
				}
			})
		}
	}
}
