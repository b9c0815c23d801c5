//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crowd opens connections to an address and sends an unfinished request on each.
func crowd(t *testing.T, address, beginning string, connections int) {
	t.Helper()
	for range connections {
		c, err := net.DialTimeout("tcp", address, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, beginning) // an error is a refusal
	}
}

// hold opens a connection that is certainly counted and has a request, as its server asks for the
// body, which never comes: a connection without a request is closed if another one needs room.
func hold(t *testing.T, address, path string) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: "+address+"\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	must(t, err)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%s%s: %q, %v", address, path, line, err)
	}
}

// C4, C6: a process with few descriptors answers probes and requests while strangers hold as many
// connections as they can to another port, or to the same one without a request.
func TestFewDescriptors(t *testing.T) {
	config := filepath.Join(writeFiles(t, map[string][]byte{"c.yaml": []byte("upstream: " + newRecorder(t).URL +
		"\nconnections: 5000\ntenants: {acme: {keys: [" + digestOf("sk-acme") + "]}}\n")}), "c.yaml")
	var addresses []string
	for range 3 {
		address, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, address)
	}
	data, admin, mcp := addresses[0], addresses[1], addresses[2]
	out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	cmd := exec.Command("sh", "-c", `ulimit -n 192 && exec "$0" serve "$@"`, released(t),
		"--config", config, "--listen", data, "--admin", admin, "--mcp", mcp, "--state", ":memory:")
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(out.ended)
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-out.ended
	}()
	out.until(t, "in this process")
	out.until(t, "connections: 5000 are more than the limit of open files, 192, allows; 48 are accepted at once")

	// A full port answers before it has read the request, which net/http's client does not accept
	// as an answer. So the test reads the connection itself, even if the request could not be sent.
	get := func(address, path string) (int, string) {
		t.Helper()
		c, err := net.DialTimeout("tcp", address, 30*time.Second)
		if err != nil {
			return 0, err.Error()
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+address+"\r\nAuthorization: Bearer sk-acme\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const half = "GET /v1/models HTTP/1.1\r\nHost: x"
	crowd(t, mcp, half, 300)
	if status, body := get(data, "/v1/models"); status != 200 {
		t.Errorf("the data port answers %d %s while that of MCP is full", status, body)
	}
	crowd(t, data, half, 300)
	for _, port := range []string{data, mcp} {
		// A port has room again when its connections have sent no complete head for some seconds.
		if status, body := get(port, "/v1/models"); status == 0 || status == 503 && !strings.Contains(body, `"code":"overloaded"`) {
			t.Errorf("a full port answers %d %s", status, body)
		}
	}
	for range 5 {
		if status, body := get(admin, "/healthz"); status != 200 {
			t.Fatalf("/healthz: %d %s", status, body)
		}
	}
	if _, body := get(admin, "/metrics"); !strings.Contains(body, `sidenote_shed_total{reason="connections"} `) || strings.Contains(body, `sidenote_shed_total{reason="connections"} 0`+"\n") {
		t.Error("nothing was shed")
	}
}

// max_connections_per_address is a limit for the data ports and the MCP port together, but not for
// the admin port.
func TestConnectionsPerAddress(t *testing.T) {
	config := filepath.Join(writeFiles(t, map[string][]byte{"c.yaml": []byte("upstream: " + newRecorder(t).URL + "\nmax_connections_per_address: 2\n")}), "c.yaml")
	mcp, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, "--config", config, "--state", ":memory:", "--mcp", mcp)
	data := strings.TrimSuffix(strings.TrimPrefix(p.data, "http://"), "/v1")
	hold(t, data, "/v1/chat/completions")
	hold(t, mcp, "/mcp")
	for _, address := range []string{data, mcp} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 503 || !strings.Contains(string(body), `"code":"too_many_connections"`) || !strings.Contains(string(body), "max_connections_per_address") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	crowd(t, strings.TrimPrefix(p.admin, "http://"), "GET ", 3)
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), `sidenote_shed_total{reason="address"} 2`+"\n") {
		t.Error("not counted")
	}
}
