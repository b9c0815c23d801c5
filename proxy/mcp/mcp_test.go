package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"sidenote/proxy"
	"sidenote/proxy/mcp"
	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/tools"
	"sidenote/retrieval/tools/toolstest"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// Protocol versions, one with sessions and one without.
const (
	withSessions = "2025-11-25"
	sessionless  = "2026-07-28"
)

// A rig is a server with the tenants staff and board. Both see the same base, and board also its
// secret part. Their keys are k-staff and k-board.
type rig struct {
	*mcp.Server
	url     string
	options mcp.Options
	tenants tenant.Tenants
	port    transport.Listener

	mu      sync.Mutex
	calls   []mcp.Call
	refused []mcp.Refusal
}

type models struct{ tokens.Counter }

func (m models) Model(string) model.Model {
	return model.Model{Encoding: "o200k_base", Counter: m.Counter}
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	staff := append(toolstest.Staff(), chunk.Document{
		ID: "linked.md", Text: "# Canteen\n\nThe canteen serves dumplings on Fridays.", Markdown: true, Attributes: map[string]any{"url": "https://example.com/canteen"},
	})
	k, as := toolstest.Open(t, map[string][]chunk.Document{"staff": staff})
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name string, f *filter.Filter) *tenant.Policy {
		p := rewrite.DefaultPolicy()
		p.Mode, p.Tenant, p.Knowledge, p.Filter, p.Search = rewrite.Inject, name, []string{"staff"}, f, as.Settings
		return &tenant.Policy{Name: "default", Tenant: name, Rewrite: p}
	}
	key := func(name string, p *tenant.Policy) tenant.Key {
		return tenant.Key{SHA256: sha256.Sum256([]byte("k-" + name)), Name: "laptop", Policy: p}
	}
	r := &rig{tenants: tenant.Tenants{Keys: []tenant.Key{key("staff", policy("staff", as.Filter)), key("board", policy("board", nil))}}}
	r.options = mcp.Options{
		Knowledge: mcp.Knowledge{
			Tools:  &tools.Box{Knowledge: *k, Bases: func() []tools.Base { return []tools.Base{{ID: "staff", Description: "rules of the house"}} }},
			Models: models{counter}, Planners: func() *proxy.Planners { return nil }, Version: "test",
			Link: func(_, doc string) string {
				if doc == "linked.md" {
					return "https://example.com/canteen"
				}
				return ""
			},
			OnCall: func(c mcp.Call) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.calls = append(r.calls, c)
			},
			Panicked: func(value any, stack []byte) { t.Errorf("panic: %v\n%s", value, stack) },
		},
		Refused: func(f mcp.Refusal) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.refused = append(r.refused, f)
		},
	}
	if change != nil {
		change(r)
	}
	directory := tenant.NewDirectory(r.tenants)
	r.options.Callers = func() *tenant.Directory { return directory }
	r.Server = mcp.NewServer(r.options)
	if r.port.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + r.port.Addr().String() + mcp.Path
	served := make(chan error, 1)
	go func() { served <- r.Serve(&r.port) }()
	t.Cleanup(func() {
		if h, ok := r.options.Knowledge.Tools.Retriever.(hanging); ok {
			close(h.over)
		}
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if n := r.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
	return r
}

// as is a set of header lines that are sent with each request.
type as map[string]string

func (h as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns an SDK client session that sends these header lines.
func (r *rig) connect(t *testing.T, version string, head as) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: head}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// call calls a tool and returns its text.
func call(t *testing.T, s *sdk.ClientSession, tool string, arguments any) (text string, res *sdk.CallToolResult) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Content) != 1 {
		t.Fatalf("%s: %d texts", tool, len(res.Content))
	}
	return res.Content[0].(*sdk.TextContent).Text, res
}

// structured decodes the structured content of a result.
func structured[T any](t *testing.T, res *sdk.CallToolResult) (v T) {
	t.Helper()
	text, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var staffKey = as{"Authorization": "Bearer k-staff"}

// The SDK's client lists the tools and calls each, with and without a session.
func TestTools(t *testing.T) {
	for _, version := range []string{withSessions, sessionless} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, nil)
			s := r.connect(t, version, staffKey)
			if got, want := s.InitializeResult().ProtocolVersion, version; got != want {
				t.Errorf("version %s, want %s", got, want)
			}
			if want := map[string]int{withSessions: 1}[version]; r.Sessions() != want {
				t.Errorf("%d sessions, want %d", r.Sessions(), want)
			}
			listed, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range listed.Tools {
				names = append(names, tool.Name)
				if !strings.Contains(tool.Description, "Knowledge bases: staff (rules of the house).") || !tool.Annotations.ReadOnlyHint {
					t.Errorf("%+v", tool)
				}
			}
			if !slices.Equal(names, mcp.Names()) {
				t.Errorf("%q, want %q", names, mcp.Names())
			}
			_, res := call(t, s, "search_knowledge", map[string]any{"query": "which badge do tricycles need", "top_k": 2})
			hits := structured[tools.FoundHits](t, res).Hits
			if len(hits) == 0 || !strings.HasPrefix(hits[0].RefID, "staff:guide.md:") {
				t.Fatalf("%+v", hits)
			}
			text, res := call(t, s, "read_knowledge", map[string]any{"refs": []string{hits[0].RefID}})
			if !strings.HasPrefix(text, `<source id="1"`) || !strings.Contains(text, "velocity") || structured[tools.ToolTexts](t, res).Sources[0].RefID == "" {
				t.Error(text)
			}
			if text, res := call(t, s, "search_files", map[string]any{"query": "tricycles"}); !strings.Contains(text, "guide.md") || res.IsError {
				t.Error(text)
			}
			if text, _ := call(t, s, "recall", map[string]any{"query": "tricycles badge", "max_tokens": 100}); !strings.Contains(text, "velocity") {
				t.Error(text)
			}
			if _, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "rm"}); err == nil || !strings.Contains(err.Error(), `unknown tool "rm"`) {
				t.Error(err)
			}
			for _, c := range r.calls {
				if c.Result != mcp.Done || c.Caller.Key != "laptop" || c.Caller.By != "key" || c.Caller.Policy.Tenant != "staff" || c.Caller.Name != "default" || c.Took <= 0 {
					t.Errorf("%+v", c)
				}
			}
			if len(r.calls) != 4 {
				t.Errorf("%d calls are told of", len(r.calls))
			}
		})
	}
}

// search and fetch have the shape that OpenAI documents, as text and as structured content.
func TestConnector(t *testing.T) {
	s := newRig(t, nil).connect(t, "", staffKey)
	type hit struct{ ID, Title, URL string }
	for query, want := range map[string]struct{ title, url, text string }{
		"dumplings in the canteen": {"Canteen", "https://example.com/canteen", "dumplings"},
		"tricycles badge":          {"Guide > Garage", "sidenote://staff/guide.md#", "velocity"},
	} {
		text, res := call(t, s, mcp.Search, map[string]any{"query": query})
		var found, same struct{ Results []hit }
		if err := json.Unmarshal([]byte(text), &found); err != nil || len(found.Results) == 0 {
			t.Fatal(text, err)
		}
		if same = structured[struct{ Results []hit }](t, res); fmt.Sprint(same) != fmt.Sprint(found) {
			t.Errorf("%v, for programs %v", found, same)
		}
		first := found.Results[0]
		if first.Title != want.title || !strings.HasPrefix(first.URL, want.url) {
			t.Errorf("%+v", first)
		}
		text, res = call(t, s, mcp.Fetch, map[string]any{"id": first.ID})
		var read struct {
			hit
			Text     string
			Metadata map[string]string
		}
		if err := json.Unmarshal([]byte(text), &read); err != nil || res.StructuredContent == nil {
			t.Fatal(text, err)
		}
		if read.hit != first || !strings.Contains(read.Text, want.text) || read.Metadata["knowledge"] != "staff" {
			t.Errorf("%+v", read)
		}
	}
	if text, _ := call(t, s, mcp.Search, map[string]any{"query": "merger with Zephyr"}); text != `{"results":[]}` {
		t.Error(text)
	}
}

// Wrong arguments are reported to the model, which can go on; they are not protocol errors.
func TestArguments(t *testing.T) {
	r := newRig(t, nil)
	s := r.connect(t, withSessions, staffKey)
	rows := []struct {
		tool      string
		arguments any
		want      string
	}{
		{"search_knowledge", map[string]any{"query": "x", "top_k": 0}, "top_k is 0; it goes from 1 to 50"},
		{"search_knowledge", []string{"x"}, "the arguments are no JSON object"},
		{"read_knowledge", map[string]any{"refs": []string{"../../etc/passwd"}}, `a reference is`},
		{"recall", nil, "query is missing or empty"},
		{mcp.Search, nil, "query is missing or empty"},
		{mcp.Search, map[string]any{"query": 7}, "query is a JSON number; it takes text"},
		{mcp.Search, "x", "the arguments are no JSON object"},
		{mcp.Search, map[string]any{"query": strings.Repeat("x", 100_000)}, "they have at most 65536"},
		{mcp.Fetch, nil, "id must be a string"},
		{mcp.Fetch, map[string]any{"id": 7}, "id must be a string"},
		{mcp.Fetch, map[string]any{"id": "../../etc/passwd"}, `id has "../../etc/passwd"; a reference is "kb:doc:chunk"`},
	}
	for _, row := range rows {
		text, res := call(t, s, row.tool, row.arguments)
		if !res.IsError || res.StructuredContent != nil || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), row.want) {
			t.Errorf("%s %v: %s", row.tool, row.arguments, text)
		}
	}
	for _, c := range r.calls {
		if c.Result != mcp.Refused || c.Err != nil {
			t.Errorf("%+v", c)
		}
	}
	if len(r.calls) != len(rows) {
		t.Errorf("%d calls are told of", len(r.calls))
	}
}

// Documents that a caller may not see are reported exactly like missing ones.
func TestHidden(t *testing.T) {
	r := newRig(t, nil)
	staff, board := r.connect(t, "", staffKey), r.connect(t, "", as{"X-Api-Key": "k-board"})
	hidden, missing := "staff:secret.md:0", "staff:nowhere.md:0"
	if text, res := call(t, board, mcp.Fetch, map[string]any{"id": hidden}); res.IsError || !strings.Contains(text, "Zephyr") {
		t.Errorf("board: %s", text)
	}
	for _, tool := range []string{mcp.Fetch, "read_knowledge"} {
		told := map[string]bool{}
		for _, ref := range []string{hidden, missing} {
			text, res := call(t, staff, tool, map[string]any{map[string]string{mcp.Fetch: "id"}[tool] + map[string]string{"read_knowledge": "refs"}[tool]: map[bool]any{true: ref, false: []string{ref}}[tool == mcp.Fetch]})
			told[fmt.Sprint(strings.ReplaceAll(text, ref, "REF"), res.IsError)] = true
		}
		if len(told) != 1 {
			t.Errorf("%s: %v", tool, told)
		}
	}
	if text, _ := call(t, staff, mcp.Search, map[string]any{"query": "merger with Zephyr"}); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// Unauthorized callers are refused in OpenAI's error format, and no tool is called.
func TestCallers(t *testing.T) {
	unknown := func(r *rig) { r.tenants.Unknown = r.tenants.Keys[0].Policy }
	trusted := func(r *rig) { r.tenants.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	for name, row := range map[string]struct {
		change func(*rig)
		head   as
		status int
		code   string
	}{
		"a key":                          {nil, staffKey, 200, ""},
		"no key":                         {nil, nil, 401, "invalid_api_key"},
		"an unknown key":                 {nil, as{"Authorization": "Bearer k-nobody"}, 401, "invalid_api_key"},
		"two keys":                       {nil, as{"Authorization": "Bearer k-staff", "Api-Key": "k-board"}, 400, "ambiguous_credentials"},
		"a tenant by an untrusted peer":  {nil, as{"Sidenote-Tenant": "staff"}, 401, "invalid_api_key"},
		"a tenant by a trusted peer":     {trusted, as{"Sidenote-Tenant": "staff"}, 200, ""},
		"and another's key":              {trusted, as{"Sidenote-Tenant": "staff", "Authorization": "Bearer k-board"}, 401, "invalid_api_key"},
		"a tenant with another spelling": {trusted, as{"Sidenote_Tenant": "staff"}, 401, "invalid_api_key"},
		"no key where none is needed":    {unknown, nil, 200, ""},
		"a foreign page":                 {unknown, as{"Origin": "https://evil.example"}, 403, "foreign_origin"},
		"a page of this machine":         {unknown, as{"Origin": "http://localhost:6274"}, 200, ""},
		"a page with a key":              {nil, as{"Origin": "https://evil.example", "Authorization": "Bearer k-staff"}, 200, ""},
		"a foreign name":                 {unknown, as{"Host": "evil.example"}, 421, "unknown_host"},
		"the port's tenant":              {func(r *rig) { r.port.Tenant = "board" }, nil, 200, ""},
		"a port of nobody":               {func(r *rig) { r.port.Tenant = "gone" }, staffKey, 401, "invalid_api_key"},
		"an unknown option":              {nil, as{"Authorization": "Bearer k-staff", "Sidenote-Knowlege": "staff"}, 400, "invalid_option"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, row.change)
			res := r.post(t, row.head, initialize)
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			var answer struct {
				Error struct{ Code, Message, Type string }
			}
			if err := json.Unmarshal(body, &answer); err != nil || res.StatusCode != row.status || answer.Error.Code != row.code {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if row.status != 200 {
				if len(r.refused) != 1 || r.Sessions() != 0 || r.refused[0].Error.Status() != row.status {
					t.Errorf("%+v, %d sessions", r.refused, r.Sessions())
				}
				if row.status == 401 != (res.Header.Get("WWW-Authenticate") == "Bearer") || bytes.Contains(body, []byte("nobody")) {
					t.Errorf("%v %s", res.Header, body)
				}
			}
		})
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + withSessions + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

const search = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search","arguments":{"query":"tricycles"}}}`

// post sends one message.
func (r *rig) post(t *testing.T, head as, body string) *http.Response {
	t.Helper()
	return r.send(t, http.MethodPost, head, strings.NewReader(body))
}

func (r *rig) send(t *testing.T, method string, head as, body io.Reader) *http.Response {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, r.url, body)
	req.RequestURI = ""
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := head.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// A session belongs to its tenant: with another tenant's credential it is unknown.
func TestSessionOfAnother(t *testing.T) {
	r := newRig(t, nil)
	with := func(head as, id string) as {
		all := maps.Clone(head)
		all["Mcp-Session-Id"] = id
		return all
	}
	boardKey := as{"Authorization": "Bearer k-board"}
	res := r.post(t, staffKey, initialize)
	id := res.Header.Get("Mcp-Session-Id")
	if id == "" || res.StatusCode != 200 {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	told := map[string]bool{}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for _, head := range []as{with(boardKey, id), with(staffKey, "made-up"), with(boardKey, "made-up")} {
			res := r.send(t, method, head, strings.NewReader(search))
			body, _ := io.ReadAll(res.Body)
			told[fmt.Sprint(res.StatusCode, string(body))] = true
		}
	}
	if len(told) != 1 || !strings.HasPrefix(slices.Collect(maps.Keys(told))[0], `404{"error":{"message":"There is no such session`) {
		t.Errorf("%v", told)
	}
	// It still exists for its own tenant.
	if res := r.post(t, with(staffKey, id), search); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if res := r.send(t, http.MethodDelete, with(staffKey, id), nil); res.StatusCode != 204 {
		t.Error(res.Status)
	}
	if res := r.post(t, with(staffKey, id), search); res.StatusCode != 404 || r.Sessions() != 0 {
		t.Error(res.Status, r.Sessions())
	}
	for _, c := range r.calls {
		if c.Caller.Policy.Tenant != "staff" {
			t.Errorf("%+v", c)
		}
	}
}

// Each call uses the claims of its own token, even in a session that another token of the tenant
// opened; without claims nothing is called.
func TestClaims(t *testing.T) {
	signer := tenanttest.NewSigner(t)
	r := newRig(t, func(r *rig) {
		p := *r.tenants.Keys[0].Policy
		p.Rewrite.Filter = &filter.Filter{Type: filter.Eq, Key: "audience", Value: filter.Claim("audience")}
		r.tenants.Keys = nil
		r.tenants.Named, r.tenants.Issuers = []*tenant.Policy{&p}, []tenant.Issuer{signer.Trusted()}
		r.tenants.Rules = []tenant.ClaimRule{{Issuer: tenanttest.Name, Tenant: "staff", Claims: map[string][]string{"groups": {"g"}}}}
	})
	token := func(more map[string]any) as {
		more["groups"] = "g"
		return as{"Authorization": "Bearer " + signer.Token(tenanttest.Claims(time.Now(), more))}
	}
	res := r.post(t, token(map[string]any{}), initialize)
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 403 || !bytes.Contains(body, []byte(`"code":"missing_claim"`)) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	board := token(map[string]any{"audience": "board"})
	id := r.post(t, board, initialize).Header.Get("Mcp-Session-Id")
	for _, row := range []struct {
		head as
		want bool
	}{{board, true}, {token(map[string]any{"audience": "office"}), false}} {
		row.head["Mcp-Session-Id"] = id
		res := r.post(t, row.head, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search","arguments":{"query":"merger with Zephyr"}}}`)
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 200 || bytes.Contains(body, []byte("secret.md")) != row.want {
			t.Errorf("want %v: %d %s", row.want, res.StatusCode, body)
		}
	}
}

// Bodies that could exhaust the server are refused, and the connection stays usable or is closed.
func TestBodies(t *testing.T) {
	r := newRig(t, nil)
	for name, row := range map[string]struct {
		body   io.Reader
		status int
		told   string
	}{
		"huge":         {io.LimitReader(endless{}, 5<<20), 413, "too_large"},
		"huge, told":   {strings.NewReader(strings.Repeat(" ", 2<<20)), 413, "too_large"},
		"a batch":      {strings.NewReader(" [" + search + "]"), 400, "one JSON object"},
		"no JSON":      {strings.NewReader("{"), 400, ""},
		"nothing":      {strings.NewReader(""), 400, ""},
		"no method":    {strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"rm"}`), 400, ""},
		"not a number": {strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}`), 200, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			res := r.send(t, http.MethodPost, staffKey, row.body)
			if body, _ := io.ReadAll(res.Body); res.StatusCode != row.status || !bytes.Contains(body, []byte(row.told)) {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
	if res := r.send(t, http.MethodGet, staffKey, nil); res.StatusCode != 405 || res.Header.Get("Allow") != "POST, DELETE" {
		t.Error(res.Status, res.Header)
	}
	r.url = strings.TrimSuffix(r.url, mcp.Path) + "/v1/chat/completions"
	if res := r.post(t, staffKey, search); res.StatusCode != 404 {
		t.Error(res.Status)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// hanging is knowledge whose searches end only with their context.
type hanging struct {
	began chan context.Context
	over  chan struct{} // closed at the end of the test
}

func (h hanging) Retrieve(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
	h.began <- ctx
	select {
	case <-ctx.Done():
	case <-h.over:
	}
	return retrieval.Result{Reason: retrieval.ReasonTimeout}, retrieval.ErrUnavailable
}

// A client that leaves ends its call, and nothing of it stays.
func TestClientLeaves(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for _, version := range []string{withSessions, sessionless} {
		t.Run(version, func(t *testing.T) {
			h := hanging{make(chan context.Context), make(chan struct{})}
			r := newRig(t, func(r *rig) {
				r.options.Knowledge.Tools = &tools.Box{Knowledge: tools.Knowledge{Retriever: h, Terms: strings.Fields}}
			})
			s := r.connect(t, version, staffKey)
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: mcp.Search, Arguments: map[string]any{"query": "x"}})
				ended <- err
			}()
			running := <-h.began
			leave()
			if err := <-ended; err == nil {
				t.Error("the call has succeeded")
			}
			select {
			case <-running.Done():
			case <-time.After(10 * time.Second):
				t.Error("the search goes on")
			}
		})
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

// The same without a cancel message from the client.
func TestClientHangsUp(t *testing.T) {
	before := goleak.IgnoreCurrent()
	h := hanging{make(chan context.Context), make(chan struct{})}
	r := newRig(t, func(r *rig) {
		r.options.Knowledge.Tools = &tools.Box{Knowledge: tools.Knowledge{Retriever: h, Terms: strings.Fields}}
	})
	begun := r.post(t, staffKey, initialize)
	id := begun.Header.Get("Mcp-Session-Id")
	_ = begun.Body.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(search))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	ended := make(chan error)
	go func() {
		_, err := as{"Authorization": "Bearer k-staff", "Mcp-Session-Id": id}.RoundTrip(req)
		ended <- err
	}()
	running := <-h.began
	hangUp()
	if err := <-ended; err == nil {
		t.Error("the call has succeeded")
	}
	select {
	case <-running.Done():
	case <-time.After(10 * time.Second):
		t.Error("the search goes on")
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if len(r.calls) != 1 || r.calls[0].Result != mcp.Failed {
		t.Errorf("%+v", r.calls)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

// A port may have TLS, and a trusted client certificate identifies the tenant.
func TestTLS(t *testing.T) {
	authority := transporttest.NewAuthority()
	server, gateway, stranger := authority.Issue(time.Now().Add(time.Hour)), authority.Issue(time.Now().Add(time.Hour), "gateway.test"), authority.Issue(time.Now().Add(time.Hour), "stranger.test")
	r := newRig(t, func(r *rig) {
		r.port.TLS = &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientCAs: authority.Pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"}}
		r.tenants.Certificates = []string{"gateway.test"}
	})
	for _, row := range []struct {
		shown  transporttest.Pair
		status int
	}{{gateway, 200}, {stranger, 401}} {
		client := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{row.shown.TLS()}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(r.url, "http:", "https:", 1), strings.NewReader(initialize))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Sidenote-Tenant": {"board"}}
		res, err := client.RoundTrip(req)
		if err != nil || res.StatusCode != row.status || res.ProtoMajor != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		_ = res.Body.Close()
		client.CloseIdleConnections()
	}
}

// A panic in a call ends the call.
func TestPanic(t *testing.T) {
	panicked := make(chan any, 1)
	r := newRig(t, func(r *rig) {
		r.options.Knowledge.Tools = &tools.Box{}
		r.options.Knowledge.Panicked = func(value any, _ []byte) { panicked <- value }
	})
	s := r.connect(t, withSessions, staffKey)
	for range 2 {
		if text, res := call(t, s, mcp.Search, map[string]any{"query": "x"}); !res.IsError || text != "The call failed." {
			t.Error(text)
		}
		<-panicked
	}
	if r.calls[0].Result != mcp.Failed || r.calls[0].Err == nil {
		t.Errorf("%+v", r.calls[0])
	}
}

// Tools of a tenant whose mode is off say so.
func TestOff(t *testing.T) {
	r := newRig(t, func(r *rig) { r.tenants.Keys[0].Policy.Rewrite.Mode = rewrite.Off })
	text, res := call(t, r.connect(t, "", staffKey), mcp.Search, map[string]any{"query": "tricycles"})
	if !res.IsError || text != "The knowledge is switched off." || r.calls[0].Result != mcp.Off {
		t.Error(text)
	}
	lowered := r.connect(t, "", as{"Authorization": "Bearer k-board", "Sidenote-Mode": "off"})
	if text, _ := call(t, lowered, mcp.Search, map[string]any{"query": "tricycles"}); text != "The knowledge is switched off." {
		t.Error(text)
	}
	none := r.connect(t, "", as{"Authorization": "Bearer k-board", "Sidenote-Knowledge": "none"})
	if text, _ := call(t, none, mcp.Search, map[string]any{"query": "tricycles"}); text != `{"results":[]}` {
		t.Error(text)
	}
}

// Over a pipe a single caller is served until its input ends.
func TestServe(t *testing.T) {
	before := goleak.IgnoreCurrent()
	r := newRig(t, nil)
	_ = r.Shutdown(t.Context())
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error)
	go func() {
		served <- r.options.Knowledge.Serve(t.Context(), &mcp.Caller{Policy: r.tenants.Keys[0].Policy.Rewrite}, in, out)
	}()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, res := call(t, s, mcp.Search, map[string]any{"query": "tricycles"}); res.IsError || !strings.Contains(text, "guide.md") {
		t.Error(text)
	}
	_ = s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
