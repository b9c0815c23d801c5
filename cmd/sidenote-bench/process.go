package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A server is a process that serves on addr.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// startRole starts this program in a role.
func startRole(ctx context.Context, name string, args ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{name: name, cmd: exec.CommandContext(ctx, self, append([]string{name}, args...)...)}
	s.cmd.Stderr = os.Stderr
	if _, err = s.cmd.StdinPipe(); err != nil { // the role ends with this process
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start: %w", name, err), s.stop())
	}
	s.addr = strings.TrimSpace(line)
	go s.wait()
	return s, nil
}

func (s *server) start() error {
	s.done = make(chan struct{})
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	s.cmd.WaitDelay = 5 * time.Second
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	return nil
}

func (s *server) wait() {
	defer close(s.done)
	_ = s.cmd.Wait() // requests show if it ended too early
}

// stop ends the process.
func (s *server) stop() error {
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// buildSidenote builds sidenote from the source in the current folder.
func buildSidenote(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "sidenote")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "sidenote/cmd/sidenote").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build sidenote: %w: %s; run this in the source folder, or give --sidenote FILE", err, strings.TrimSpace(string(out)))
	}
	return path, nil
}

// A program says how to start sidenote.
type program struct {
	upstream  string
	documents int    // each a source of about 1 KB
	staged    bool   // answers chats of stagedModel in stages; older builds lack stages and are not started with it
	admin     string // address of its admin port; "": none
}

// startSidenote starts sidenote with a folder of documents, and waits until requests get all of
// them as sources.
func (b *bench) startSidenote(ctx context.Context, file string, p program) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, fmt.Sprintf("with-%d-", p.documents))
	if err != nil {
		return nil, err
	}
	config, err := b.writeConfig(dir, p)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	s := &server{name: "sidenote", addr: addr, cmd: exec.CommandContext(ctx, file,
		"serve", "--config", config, "--listen", addr, "--admin", cmp.Or(p.admin, "off"), "--state", ":memory:")}
	s.cmd.Stderr = log
	if err := s.start(); err != nil {
		return nil, err
	}
	go s.wait()
	if err := s.ready(ctx, p.documents); err != nil {
		const enough = 2 << 10
		said, _ := os.ReadFile(log.Name())
		said = bytes.TrimSpace(said[max(0, len(said)-enough):])
		return nil, errors.Join(fmt.Errorf("%w; it said: %s", err, said), s.stop())
	}
	return s, nil
}

// ready waits until a request gets so many sources.
func (s *server) ready(ctx context.Context, sources int) error {
	want := fmt.Sprintf("injected; sources=%d;", sources)
	give := time.Now().Add(time.Minute)
	for {
		status, err := askStatus(s.addr)
		if err == nil && strings.HasPrefix(status, want) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return errors.New("sidenote ended")
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(give) {
			return fmt.Errorf("sidenote is not ready: %w, status %q", err, status)
		}
	}
}

// askStatus sends one chat request and returns its Sidenote-Status.
func askStatus(addr string) (string, error) {
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.exchange(chatRequest(chatOf(1<<10, answerWhole), answerWhole)); err != nil {
		return "", err
	}
	return c.status, nil
}

// others is the number of documents that do not answer the question.
const others = 60

// writeConfig writes the configuration of a program, and its documents.
func (b *bench) writeConfig(dir string, p program) (path string, err error) {
	docs := filepath.Join(dir, "handbook")
	if err := os.MkdirAll(docs, 0o700); err != nil {
		return "", err
	}
	for i := range p.documents {
		if err := os.WriteFile(filepath.Join(docs, fmt.Sprintf("leave-%02d.md", i)), document(i), 0o600); err != nil {
			return "", err
		}
	}
	for i := range others {
		if err := os.WriteFile(filepath.Join(docs, fmt.Sprintf("office-%02d.md", i)), other(i), 0o600); err != nil {
			return "", err
		}
	}
	path = filepath.Join(dir, "sidenote.yaml")
	overrides := ""
	if p.staged {
		overrides = fmt.Sprintf("    overrides: [{models: [%s], mode: staged, stages: medical}]\n", stagedModel)
	}
	yaml := fmt.Sprintf(`upstream: http://%s
knowledge: {handbook: %q}
policies:
  default:
    context_tokens: %d
    retrieval: {top_k: %d, deadline: 5s, score_threshold: 0.0001}
%stelemetry: {log: {format: json, requests: %s}}
concurrency: 32k
`, p.upstream, docs, 400*p.documents+400, p.documents, overrides, b.Log)
	return path, os.WriteFile(path, []byte(yaml), 0o600)
}

// freeAddress returns an address that is not in use at the moment.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// releaseStreams makes the upstream end the streams that it holds open.
func releaseStreams(addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.close()
	return c.exchange([]byte("GET " + releasePath + " HTTP/1.1\r\nHost: h\r\n\r\n"))
}
