package enginetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A process is an engine that deploy/engines.sh runs. The script stops it when its standard input is
// closed, so also when the test process ends, however it ends: that end of the pipe must stay
// reachable.
type process struct {
	url   string
	dir   string // of its data
	cmd   *exec.Cmd
	stdin io.Closer
}

// runEngine starts an engine with a data folder of its own.
func runEngine(name string) (*process, error) {
	script, err := scriptFile()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", name+"-of-tests-")
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(dir, "script.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }()
	p := &process{dir: dir, cmd: exec.Command("bash", script, name, "run", dir)}
	p.cmd.Env = environment()
	p.cmd.Stderr = said
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		why, _ := os.ReadFile(said.Name())
		p.end()
		return nil, fmt.Errorf("no %s for tests: %s", name, strings.TrimSpace(string(why)))
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

// environment returns the environment of an engine. With -short Java optimizes little, as that takes
// more time than it saves within a few minutes.
func environment() []string {
	if !testing.Short() {
		return nil // that of this process
	}
	const java = "JDK_JAVA_OPTIONS"
	return append(os.Environ(), java+"="+os.Getenv(java)+" -XX:TieredStopAtLevel=1")
}

// end stops the engine and removes its data.
func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Wait() // it stops an engine that may have been killed
	_ = os.RemoveAll(p.dir)
}

// restart starts the engine again in its folder. It may write at most most kilobytes to a file, or
// "unlimited".
func (p *process) restart(t testing.TB, name, most string) {
	t.Helper()
	script, err := scriptFile()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	const start = `ulimit -S -f "$1" && exec bash "$2" "$3" start "$4"`
	cmd := exec.CommandContext(ctx, "bash", "-c", start, "bash", most, script, name, p.dir)
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// signalTo sends a signal to the process in a pidFile.
func (p *process) signalTo(t testing.TB, pidFile string, signal syscall.Signal) {
	t.Helper()
	pid, ok := pidIn(t, pidFile)
	if !ok {
		return
	}
	if err := send(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// pidIn returns the number of a process, which is the first line of a file; ok is false if the
// process has ended.
func pidIn(t testing.TB, file string) (pid int, ok bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false
	}
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if pid, err = strconv.Atoi(first); err != nil {
		t.Fatal(err)
	}
	return pid, true
}

// scriptFile returns deploy/engines.sh of the module in which the tests run.
func scriptFile() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "deploy", "engines.sh")
		if _, missing := os.Stat(script); missing == nil {
			return script, nil
		}
	}
	return "", errors.Join(err, errors.New("deploy/engines.sh is not in a folder above"))
}

// missing skips the test; in CI it fails.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}
