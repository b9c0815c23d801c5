package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A work is a case: the request that is sent to each server.
type work struct {
	name    string
	request []byte
	status  string  // expected prefix of Sidenote-Status in Sidenote's answers
	events  int     // expected in each answer
	bar     float64 // target of the ratio to the relay; 0: none
	fresh   bool    // each request has a new question, see newQuestion
	rate    int     // requests per second on all connections together; 0: as fast as they are answered
	calls   int     // upstream calls for one request of Sidenote, compared with as many relayed requests; 0: one
	relayed []byte  // the relayed request to compare the cost with; nil: request
	here    bool    // Sidenote itself relays that, in mode off
}

const (
	kib             = 1 << 10
	mainSources     = 6  // of about 1 KB each
	mainConnections = 32 // in the growth table

	stages      = 4                   // of the preset medical
	stageSize   = 10 * kib            // approximate size of a stage's request, of which the sources are two thirds
	stagedModel = "gpt-4o-2024-08-06" // model whose chats are answered in stages
)

var injected = fmt.Sprintf("injected; sources=%d;", mainSources)

// works returns the cases of the table.
func works() []work {
	const off = "Sidenote-Mode: off"
	chat := func(name string, size int, bar float64) work {
		return work{name: name, request: chatRequest(chatOf(size, answerWhole), answerWhole), status: injected, bar: bar}
	}
	stream := func(name string, size int, answer string) work {
		return work{name: name, request: chatRequest(chatOf(size, answer), answer), status: injected, events: streamEvents, bar: 1.3}
	}
	fresh := chat("1 KB chat, never asked before", 1*kib, 3)
	fresh.request, fresh.fresh = chatRequest(bytes.Replace(chatOf(1*kib, answerWhole), []byte(question), []byte(newQuestion), 1), answerWhole), true
	steady := fresh
	steady.name, steady.rate = "1 KB chat, never asked, 2,000 a second", 2000
	staged := chat("staged, to 4 by the relay", 1*kib, 1.5)
	staged.request = chatRequest(bytes.Replace(chatOf(1*kib, answerWhole), []byte(model), []byte(stagedModel), 1), answerWhole)
	staged.status, staged.calls = fmt.Sprintf("staged; stages=%[1]d; sources=%[2]d;", stages, mainSources), stages
	staged.relayed = chatRequest(chatOf(stageSize, answerWhole), answerWhole)
	own := staged
	own.name, own.here, own.relayed = "staged, to 4 relayed here", true, chatRequest(chatOf(stageSize, answerWhole), answerWhole, off)
	embeddings := []byte(`{"model":"text-embedding-3-small","input":"` + strings.Repeat("Parents take leave. ", kib/20) + `"}`)
	return []work{
		chat("1 KB chat", 1*kib, 1.3),
		fresh,
		steady,
		chat("1 KB chat, cache full of others", 1*kib, 1.3),
		chat("20 KB chat", 20*kib, 1.3),
		chat("200 KB chat", 200*kib, 1.7),
		stream("stream, 1 KB, burst", 1*kib, answerBurst),
		stream("stream, 20 KB, burst", 20*kib, answerBurst),
		stream("stream, 1 KB, paced", 1*kib, answerPaced),
		own,
		staged,
		{name: "pass-through, 1 KB embeddings", request: request("/v1/embeddings", embeddings, answerWhole), bar: 1.1},
		{name: "pass-through, 20 KB chat, off", request: chatRequest(chatOf(20*kib, answerWhole), answerWhole, off), status: "untouched; reason=off", bar: 1.1},
	}
}

// A growth is one row of the growth table.
type growth struct {
	what, value string
	request     []byte
	connections int
	documents   int // all of them become sources
}

// growths returns the rows of the growth table, by what grows.
func growths() []growth {
	var rows []growth
	add := func(what string, value any, body []byte, connections, documents int) {
		rows = append(rows, growth{what, fmt.Sprint(value), chatRequest(body, answerWhole), connections, documents})
	}
	chat := func(kb int) []byte { return chatOf(kb*kib, answerWhole) }
	for _, kb := range []int{1, 5, 20, 50, 200, 450} { // more exceeds the window of 128k tokens
		add("body", fmt.Sprintf("%d KB", kb), chat(kb), mainConnections, mainSources)
	}
	for _, n := range []int{3, 10, 50, 200, 1000} {
		add("messages, 50 KB", n, chatOfMessages(n, 50*kib), mainConnections, mainSources)
	}
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		add("connections, 20 KB", n, chat(20), n, mainSources)
	}
	for _, n := range []int{1, 3, 6, 12, 24} {
		add("sources, 20 KB", n, chat(20), mainConnections, n)
	}
	return rows
}
