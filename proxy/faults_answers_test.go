package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
)

// allocated returns how many bytes have been allocated since the process began.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// live returns how many bytes of the heap are in use.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Sidenote does not split answers into lines, so a line of 64 MiB needs no limit: memory usage
// stays flat.
func giantLine(t *testing.T) {
	const pieces, size = 1024, 64 << 10
	const most = pieces * size / 16
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n")
		piece := fmt.Appendf(nil, "%x\r\n%s\r\n", size, strings.Repeat("a", size))
		for range pieces {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		fmt.Fprint(w, "2\r\n\n\n\r\n0\r\n\r\n")
	})
	g := open(t, u, nil)
	before := live()
	_, r, _ := g.stream(t)
	first, err := io.CopyN(io.Discard, r, pieces*size*3/4)
	if err != nil {
		t.Fatal(err)
	}
	took := int64(live()) - int64(before)
	rest, err := io.Copy(io.Discard, r)
	if n, want := first+rest, int64(len("data: \n\n")+pieces*size); err != nil || n != want {
		t.Errorf("%d bytes of %d, %v", n, want, err)
	}
	if rep := g.reports.next(t); rep.Truncated {
		t.Error("reported as truncated")
	}
	t.Logf("%d KiB in use after %d KiB of a line", took>>10, first>>10)
	if took > most {
		t.Errorf("%d bytes in use", took)
	}
}

// An error inside a stream that began normally is relayed to the client. Nothing is learnt from
// such a stream, as it has no usage.
func errorInsideStream(t *testing.T) {
	const body = "data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n"
	g, learnt := sendSampled(t, 1, streamBody, "200 OK\r\nContent-Type: text/event-stream", body)
	if len(learnt) > 0 {
		t.Errorf("learnt %+v", learnt)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_upstream_truncated_total", "streaming"); n != 0 {
		t.Error("counted as truncated")
	}
}

// A decompression bomb is relayed unchanged. To find the usage, only a bounded part of an answer
// is decoded.
func compressedBomb(t *testing.T) {
	const members, most = 1024, 16 << 20
	var one bytes.Buffer // 1 MiB of zeros; gzip's members follow one another
	w := gzip.NewWriter(&one)
	w.Write(make([]byte, 1<<20))
	w.Close()
	bomb := bytes.Repeat(one.Bytes(), members)
	u := newUpstream(t, func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(bomb))
		w.Write(bomb)
	})
	g := open(t, u, nil)
	got := make([]byte, len(bomb))
	before := allocated()
	for range 5 { // some of these are sampled
		resp := g.raw(t, chatRequest(chatBody, "Accept-Encoding: identity", "Connection: close"))
		if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, bomb) || resp.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v, %v", resp.Header, err)
		}
		g.reports.next(t)
	}
	shutdown(t, g) // waits until the samples have been read
	took := allocated() - before
	t.Logf("%d KiB allocated for five times %d KiB that are %d MiB", took>>10, len(bomb)>>10, members)
	if took > most {
		t.Errorf("%d bytes allocated", took)
	}
}

// An answer whose end two readers could see in different places is refused, or is cut visibly.
// Bytes after it are not taken for another answer.
func wrongFraming(t *testing.T) {
	const ok, evil = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, c := range map[string]struct {
		answer, body string
		status       int
		cut          bool
	}{
		"longer than its length":  {ok + "Content-Length: 2\r\n\r\n{}" + evil, "{}", 200, false},
		"shorter than its length": {ok + "Content-Length: 9\r\n\r\n{}", "{}", 200, true},
		"no body, but one":        {"HTTP/1.1 204 No Content\r\n\r\n" + evil, "", 204, false},
		"bytes behind the chunks": {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + evil, "{}", 200, false},
		"chunk cut":               {ok + "Transfer-Encoding: chunked\r\n\r\n9\r\n{}", "{}", 200, true},
		"chunk too long":          {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n", "{}", 200, true},
		"no last chunk":           {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", "{}", 200, true},
		"both framings":           {ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "", 502, false},
		"two lengths":             {ok + "Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}", "", 502, false},
		"signed length":           {ok + "Content-Length: +2\r\n\r\n{}", "", 502, false},
		"folded line":             {ok + "A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}", "", 502, false},
		"not HTTP":                {"ICY 200 OK\r\n\r\n", "", 502, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(s seen, w io.Writer) {
				if s.header("X-Next") != "" {
					answerJSON("next")(s, w)
					return
				}
				io.WriteString(w, c.answer)
				if c.cut {
					w.(io.Closer).Close()
				}
			})
			g := open(t, u, nil)
			resp := g.raw(t, chatRequest(chatBody))
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || (err != nil) != c.cut || c.status < 300 && string(body) != c.body {
				t.Errorf("%d, %q, %v", resp.StatusCode, body, err)
			}
			if rep := g.reports.next(t); rep.Truncated != c.cut {
				t.Errorf("report: truncated %v", rep.Truncated)
			}
			if _, body := g.post(t, chatBody, "X-Next: 1"); body != "next" {
				t.Errorf("the next client got %q", body)
			}
		})
	}
}

// Interim answers, trailers and HTTP/1.0 work for clients of both versions of HTTP.
func oddHTTP(t *testing.T) {
	for name, answer := range map[string]string{
		"interim answers":      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole",
		"trailers":             "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\nX-Sum: 1\r\n\r\n",
		"1.0 with a length":    "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nwhole",
		"1.0 until the end":    "HTTP/1.0 200 OK\r\n\r\nwhole",
		"1.0 kept alive":       "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nwhole",
		"1.1 until the end":    "HTTP/1.1 200 OK\r\n\r\nwhole",
		"1.1 and close":        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nwhole",
		"bare line feeds":      "HTTP/1.1 200 OK\nContent-Length: 5\n\nwhole",
		"chunks and nothing":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;ext=\"a\"\r\nw\r\n4\r\nhole\r\n000\r\n\r\n",
		"no reason in the end": "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nwhole",
	} {
		closed := make(chan struct{}, 1)
		u := newUpstream(t, func(_ seen, w io.Writer) {
			io.WriteString(w, answer)
			w.(io.Closer).Close()
			closed <- struct{}{}
		})
		g := open(t, u, nil)
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			c := g.dial(t)
			fmt.Fprint(c, strings.Replace(chatRequest(chatBody), "HTTP/1.1", version, 1))
			r, hints := bufio.NewReader(c), 0
			resp, err := http.ReadResponse(r, nil)
			for ; err == nil && resp.StatusCode == http.StatusEarlyHints; resp, err = http.ReadResponse(r, nil) {
				hints += len(resp.Header.Values("Link"))
			}
			if err != nil {
				t.Fatalf("%s, %s: %v", name, version, err)
			}
			if want := name == "interim answers" && version == "HTTP/1.1"; want != (hints == 1) {
				t.Errorf("%s, %s: %d early hints", name, version, hints)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || string(body) != "whole" || resp.Header.Get("Link") != "" {
				t.Errorf("%s, %s: %d, %v, %q, %v", name, version, resp.StatusCode, resp.Header, body, err)
			}
			if version == "HTTP/1.0" && len(resp.TransferEncoding) > 0 {
				t.Errorf("%s: chunks for a client that knows none", name)
			}
			if got := resp.Trailer.Get("X-Sum"); version == "HTTP/1.1" && (name == "trailers") != (got == "1") {
				t.Errorf("%s: trailer %q", name, got)
			}
			wait(t, closed)
			if rep := g.reports.next(t); rep.Truncated || rep.Client != report.ClientCompleted {
				t.Errorf("%s, %s: truncated %v, client %s", name, version, rep.Truncated, rep.Client)
			}
		}
	}
}
