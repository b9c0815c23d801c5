package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A stub with --billing tells the usage by that rule, prints a line about each request and the
// totals at its end, and has them at GET /billing.
func TestStubBills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs, listening := io.Pipe()
	out := &strings.Builder{}
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"stub", "--listen", "127.0.0.1:0", "--billing", "anthropic"}, strings.NewReader(""), out, listening, func(string) (string, bool) { return "", false })
		_ = listening.Close()
	}()
	line, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(line, "http://")
	address, _, _ := strings.Cut(rest, "/v1")
	ask := func(body string) string {
		t.Helper()
		resp, err := http.Post("http://"+address+"/v1/messages", "application/json", strings.NewReader(body))
		return answered(t, resp, err)
	}
	const message = `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"TEXT","cache_control":{"type":"ephemeral"}}]}]}`
	long := strings.Replace(message, "TEXT", strings.Repeat("word ", 1200), 1)
	if got := ask(long); !strings.Contains(got, `"cache_creation_input_tokens":1205,"cache_read_input_tokens":0,"input_tokens":0,`) || !strings.Contains(got, `"ephemeral_5m_input_tokens":1205`) {
		t.Error(got)
	}
	if got := ask(long); !strings.Contains(got, `"cache_creation_input_tokens":0,"cache_read_input_tokens":1205,"input_tokens":0,`) {
		t.Error(got)
	}
	const refused = "messages.0.content.0.text: cache_control cannot be set for empty text blocks"
	if got, want := ask(strings.Replace(message, "TEXT", "", 1)), `{"error":{"message":"`+refused+`","type":"invalid_request_error"},"type":"error"}`; got != want {
		t.Error(got)
	}
	const totals = `{"rule":"anthropic","requests":2,"refused":1,"input":2410,"read":1205,"written":1205,"written_hour":0,"plain":0,"cost":1626.75}`
	resp, err := http.Get("http://" + address + "/billing")
	if got := answered(t, resp, err); got != totals {
		t.Error(got)
	}
	cancel()
	if got := <-code; got != exitDone {
		t.Errorf("exit code %d", got)
	}
	want := "claude  input 1205  read 0  written 1205  cost 1506\nclaude  input 1205  read 1205  written 0  cost 120\nclaude  refused: " + refused + "\n" + totals + "\n"
	if out.String() != want {
		t.Errorf("printed %s", out)
	}
}

// answered returns the body of an answer.
func answered(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
