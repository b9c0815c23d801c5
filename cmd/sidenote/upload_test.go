package main

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval/knowledge/extract/extracttest"
)

// A formPart is a part of a form; a file if it has a name.
type formPart struct {
	field, name string
	content     []byte
}

// uploads sends a form to the admin port, and checks the status and parts of the answer.
func (p *process) uploads(t *testing.T, base string, status int, parts []formPart, want ...string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, part := range parts {
		var w io.Writer
		var err error
		if part.name == "" {
			w, err = form.CreateFormField(part.field)
		} else {
			w, err = form.CreateFormFile(part.field, part.name)
		}
		if err == nil {
			_, err = w.Write(part.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	req := p.request(t, "POST", "/v1/knowledge/"+base+"/documents", body.String())
	req.Header.Set("Content-Type", form.FormDataContentType())
	exchanged(t, req, status, want...)
}

// A file is uploaded over the admin port, read in a process of its own, and found at once; what is
// refused says why in the form of the API's errors.
func TestUpload(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", "docs="+handbook(t), "--state", state)
	p.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 201)
	one := func(name string, content []byte) []formPart { return []formPart{{"file", name, content}} }

	p.uploads(t, "notes", 200, one("house/pets.pdf", extracttest.PDF("Llamas are welcome on Fridays")),
		`"file":"house/pets.pdf","object":"knowledge.file","kb_id":"notes","documents":1,"created":1,"changed":1,"removed":0,"notes":[]`)
	p.asks(t, "POST", "/v1/search", `{"query":"llamas","knowledge":["notes"]}`, 200, `"doc_id":"house/pets.pdf"`)
	p.uploads(t, "notes", 200, one("house/pets.pdf", extracttest.PDF("Alpacas are welcome on Fridays")), `"created":0,"changed":1`)
	p.asks(t, "POST", "/v1/search", `{"query":"llamas","knowledge":["notes"]}`, 200, `"data":[]`)

	records := []byte(`{"id":"a","text":"Bees sting."}` + "\n" + `{"id":"b","text":"Wasps sting."}` + "\n{")
	p.uploads(t, "notes", 200, []formPart{{"attributes", "", []byte(`{"team":"hr"}`)}, {"file", "all.jsonl", records}, {"file", "x.png", []byte("png")}},
		`"documents":2,"created":2`, `{"code":"part","message":"line 3 is not JSON"}`, `"code":"file_unsupported"`, `"param":"file[1]"`)
	p.asks(t, "GET", "/v1/knowledge/notes/documents/all.jsonl%23a", "", 200, `"attributes":{"team":"hr"}`)
	p.uploads(t, "notes", 200, one("all.jsonl", []byte(`{"id":"b","text":"Wasps sting."}`)), `"changed":1,"removed":1`)

	p.uploads(t, "notes", 415, one("x.zip", []byte("PK")), `"code":"file_unsupported"`, "ZIP is not supported: an archive; unpack; what is read: Markdown, HTML", `"param":"file[0]"`)
	p.uploads(t, "notes", 413, one("x.txt", bytes.Repeat([]byte("ant bee\n"), 11<<17)), `"code":"file_too_large"`, "x.txt was not read: more than 10 MB; split.")
	p.uploads(t, "notes", 413, one("x.txt", make([]byte, 33<<20)), "The body is larger than 33554432 bytes")
	p.uploads(t, "notes", 422, one("x.docx", extracttest.ZipBomb(1<<30)), `"code":"file_broken"`)
	p.uploads(t, "notes", 422, one("x.pdf", []byte("%PDF-1.4 and no more")), `"code":"file_broken"`)
	p.uploads(t, "notes", 400, one("../x.md", []byte("ant")), "is a path without ..")
	p.uploads(t, "notes", 400, []formPart{{"file", "x.md", []byte("ant")}, {"attributes", "", []byte(`[1]`)}}, `"param":"attributes"`)
	p.uploads(t, "notes", 400, []formPart{{"file", "x.md", []byte("ant")}, {"owner", "", []byte("me")}}, `"param":"owner"`)
	p.uploads(t, "notes", 400, nil, "holds no file")
	p.uploads(t, "docs", 409, one("x.md", []byte("ant")), `"code":"from_folder"`)
	p.uploads(t, "none", 404, one("x.md", []byte("ant")), `There is no knowledge base \"none\".`)
	token := p.token
	p.token = "wrong"
	p.uploads(t, "notes", 401, one("x.md", []byte("ant")))
	p.token = token

	// The command does the same with what is no text.
	file := filepath.Join(t.TempDir(), "birds.pdf")
	if err := os.WriteFile(file, extracttest.PDF("Crows caw"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "", "knowledge", "put", "notes", file, "--state", state)
	p.asks(t, "POST", "/v1/search", `{"query":"crows","knowledge":["notes"]}`, 200, `"doc_id":"birds.pdf"`)
}

// A form that ends too early changes nothing.
func TestUploadCutShort(t *testing.T) {
	p := serve(t, "--upstream", newRecorder(t).URL, "--state", filepath.Join(t.TempDir(), "state"), "--knowledge", "docs="+handbook(t))
	p.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 201)
	req := p.request(t, "POST", "/v1/knowledge/notes/documents", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.md\"\r\n\r\nant bee")
	req.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d", resp.StatusCode)
	}
	p.asks(t, "GET", "/v1/knowledge/notes/documents", "", 200, `"data":[]`)
}
