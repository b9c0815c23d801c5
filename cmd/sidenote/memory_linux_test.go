package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/extract/extracttest"
)

// A boxed is a process that serves with the memory of a container.
type boxed struct {
	command     *exec.Cmd
	data, admin string
	limit       int64 // of the container, in bytes
	most        int64 // what it and its children took at most
	stop, ended chan struct{}
}

// contained serves a folder as in a container of that size, until all that fits is read. The memory
// limit is set directly, since a test cannot create a container.
func contained(t *testing.T, binary string, limit int64, docs, state string) *boxed {
	t.Helper()
	data, admin, out := free(t), free(t), &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
	c := &boxed{data: "http://" + data, admin: "http://" + admin, limit: limit, stop: make(chan struct{}), ended: make(chan struct{})}
	c.command = exec.Command(binary, "serve", "--upstream", echo(t), "--knowledge", "kb="+docs, "--state", state, "--listen", data, "--admin", admin)
	c.command.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", limit/100*goShare))
	c.command.Stderr = out
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go c.watch()
	exited := make(chan struct{})
	go func() {
		_ = c.command.Wait()
		close(out.ended)
		close(exited)
	}()
	t.Cleanup(func() { _ = c.command.Process.Kill(); <-exited })
	out.until(t, `"msg":"knowledge"`)
	return c
}

// watch measures the memory of the processes until it is stopped.
func (c *boxed) watch() {
	defer close(c.ended)
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			c.most = max(c.most, anonymous(c.command.Process.Pid))
		case <-c.stop:
			return
		}
	}
}

// held stops measuring, and checks that the processes stayed within the container's memory.
func (c *boxed) held(t *testing.T) {
	t.Helper()
	close(c.stop)
	<-c.ended
	t.Logf("it took at most %d MiB of %d", c.most>>20, c.limit>>20)
	if c.most > c.limit {
		t.Errorf("it took %d MiB in a container of %d", c.most>>20, c.limit>>20)
	}
}

// anonymous returns how much memory of a process and its children the kernel cannot reclaim.
func anonymous(pid int) (bytes int64) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			bytes += n << 10
		}
	}
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	tasks, _ := filepath.Glob(filepath.Join(dir, "task", "*", "children"))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(children)) {
			n, err := strconv.Atoi(child)
			own, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if err == nil && string(own) != string(line) { // else it has its parent's memory until it is another program
				bytes += anonymous(n)
			}
		}
	}
	return bytes
}

// get returns the answer of the process at a path.
func (c *boxed) get(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %s, %v", url, resp.StatusCode, text, err)
	}
	return string(text)
}

// finds reports whether a question finds a document.
func (c *boxed) finds(t *testing.T, question, document string) bool {
	t.Helper()
	return strings.Contains(c.get(t, http.MethodPost, c.admin+"/v1/search", `{"query": "`+question+`", "knowledge": ["kb"]}`), `"`+document+`"`)
}

// skipped returns how many files were not read for lack of memory.
func (c *boxed) skipped(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(c.get(t, http.MethodGet, c.admin+"/metrics", "")) {
		if rest, ok := strings.CutPrefix(line, `sidenote_ingest_files_total{knowledge="kb",result="memory"} `); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return n
}

// hostileFolder returns a folder of files that make their readers allocate, and one that does not.
func hostileFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) { writeFile(t, filepath.Join(dir, name), text) }
	repeat := func(s string, size int) string { return strings.Repeat(s, size/len(s)) }
	write("good.md", "# Valves\n\nValve seven is in the cellar.\n")
	write("good.pdf", string(extracttest.PDF("Valve nine is in the attic.")))
	bomb := string(extracttest.PDFBomb(200 << 20))
	for i := range 3 {
		write(fmt.Sprintf("bomb%d.pdf", i), bomb)
	}
	var attributes strings.Builder
	for i := 0; attributes.Len() < 4<<20-64; i++ {
		fmt.Fprintf(&attributes, `a%x="" `, uint32(i)*2654435761)
	}
	write("attributes.docx", string(extracttest.DOCX("<w:p "+attributes.String()+"><w:r><w:t>x</w:t></w:r></w:p>")))
	write("bomb.docx", string(extracttest.ZipBomb(200<<20)))
	write("attributes.html", repeat("<p a b c d e f g h i>x", 5<<20))
	write("tags.html", strings.Repeat("<p>a", 240_000))
	write("cells.csv", repeat(",", 10<<20))
	write("quoted.csv", `"`+repeat("a\n", 10<<20-8)+`"`)
	write("objects.json", "["+strings.Repeat(`{"a":1},`, 99_000)+"{}]")
	write("blank.txt", repeat("\n", 10<<20))
	write("line.jsonl", `{"text":"`+repeat("word ", 10<<20-64)+`"}`)
	line, err := os.Create(filepath.Join(dir, "line100.jsonl"))
	if err == nil {
		err = line.Truncate(100e6)
		_ = line.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whatever documents make their readers allocate, a process that serves stays within its
// container's memory, reads the others, and says what it did not read for lack of memory, in long
// runs also after a restart.
func TestDocumentsStayWithinMemory(t *testing.T) {
	docs, binary := hostileFolder(t), released(t)
	starts := 2
	if testing.Short() {
		starts = 1 // TestRecordsStayWithinMemory starts again
	}
	for _, limit := range []int64{256 << 20, 512 << 20} {
		t.Run(fmt.Sprint(limit>>20), func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			for range starts {
				c := contained(t, binary, limit, docs, state)
				if !c.finds(t, "Where is valve seven?", "good.md") {
					t.Error("the harmless document is not found")
				}
				if limit >= 512<<20 && !c.finds(t, "Where is valve nine?", "good.pdf") {
					t.Error("the harmless PDF is not found")
				}
				if n := c.skipped(t); n < 2 {
					t.Errorf("%d files were not read for want of memory", n)
				}
				c.get(t, http.MethodGet, c.data+"/healthz", "")
				c.held(t)
				_ = c.command.Process.Kill()
			}
		})
	}
}

// Forty thousand records are read within a container of 160 MiB, with SIDENOTE_LONG=1 two hundred
// thousand within 256 MiB, and again after a restart.
func TestRecordsStayWithinMemory(t *testing.T) {
	docs, binary := t.TempDir(), released(t)
	records, limit := 4000, int64(160<<20)
	if os.Getenv("SIDENOTE_LONG") != "" {
		records, limit = 20_000, 256<<20
	}
	for file := range 10 {
		var b strings.Builder
		for i := range records {
			fmt.Fprintf(&b, `{"id":"r%d-%d","title":"Record %d","text":"Valve %x is in hall %d of house %d.","lang":"en","year":%d}`+"\n", file, i, i, i*31+file, i%97, file, 1990+i%30)
		}
		writeFile(t, filepath.Join(docs, fmt.Sprintf("r%d.jsonl", file)), b.String())
	}
	state := filepath.Join(t.TempDir(), "state")
	for range 2 {
		c := contained(t, binary, limit, docs, state)
		if n := c.skipped(t); n != 0 || !c.finds(t, "Where is valve 1a5ed?", "r9.jsonl#r9-3484") {
			t.Errorf("%d files were not read, or not found", n)
		}
		c.held(t)
		_ = c.command.Process.Kill()
	}
}
