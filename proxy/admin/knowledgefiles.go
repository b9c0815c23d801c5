package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A NewFile is a file whose documents are to be written.
type NewFile struct {
	Name       string // slash-separated path, see fs.ValidPath; the extension tells the format
	Raw        []byte
	Title      string         // of a file that is one document; "" takes it from the file
	Attributes map[string]any // of each of its documents, as decoded from JSON
}

// A WrittenFile is the result of writing the documents of a file.
type WrittenFile struct {
	File      string       `json:"file"`
	Object    string       `json:"object"` // "knowledge.file"
	Knowledge string       `json:"kb_id"`
	Documents int          `json:"documents"` // in the file
	Created   int          `json:"created"`
	Changed   int          `json:"changed"` // including created ones
	Removed   int          `json:"removed"` // of an earlier file of this name
	Notes     []FileNote   `json:"notes"`   // what was not read of the file, or is uncertain
	Error     *FileProblem `json:"error,omitempty"`
}

// A FileNote says what was not read of a file, or is uncertain.
type FileNote struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// A FileProblem says why a file was not read, when others of its form were.
type FileProblem struct {
	FileNote
	Param string `json:"param"` // names the part of the form
}

// A fileBatch is the result of writing the files of a form.
type fileBatch struct {
	Object string        `json:"object"` // "list"
	Data   []WrittenFile `json:"data"`   // in the order of the request
}

// maxFiles is the most files in a form.
const maxFiles = 100

// A fileForm is a form with files.
type fileForm struct {
	files      []NewFile
	title      string
	attributes map[string]any
}

// ReadFiles returns the files of the form in a body; contentType is that of the request. Its parts
// are file, once or more, name and attributes, a JSON object. It refuses other parts: one of them
// could be a rule about who may read a document.
func ReadFiles(contentType string, body []byte) ([]NewFile, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return nil, formError("it has no boundary")
	}
	var form fileForm
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, formError("it is broken or ends too early")
		}
		if err := form.add(part); err != nil {
			return nil, err
		}
	}
	switch {
	case len(form.files) == 0:
		return nil, optionError("file", "The form holds no file.")
	case len(form.files) > 1 && form.title != "":
		return nil, optionError("name", "name goes with one file.")
	}
	for i := range form.files {
		form.files[i].Title, form.files[i].Attributes = form.title, form.attributes
	}
	return form.files, nil
}

func formError(detail string) error {
	return &tenant.APIError{Reason: rewrite.ReasonNotJSON, Message: fmt.Sprintf("The body is not a form: %s.", detail)}
}

// add adds a part of the form.
func (f *fileForm) add(part *multipart.Part) error {
	raw, err := io.ReadAll(part)
	if err != nil {
		return formError("it is broken or ends too early")
	}
	switch name := part.FormName(); name {
	case "file":
		return f.addFile(part, raw)
	case "name":
		if len(raw) > maxName {
			return optionError("name", "name has %d bytes; it may have %d.", len(raw), maxName)
		}
		f.title = string(raw)
	case "attributes":
		if len(raw) == 0 {
			return nil
		}
		if err := json.Unmarshal(raw, &f.attributes); err != nil {
			return optionError("attributes", "attributes is no JSON object: %s.", jsonProblem(err))
		}
	default:
		return optionError(name, "The form holds %q; it may hold file, name and attributes.", name)
	}
	return nil
}

func (f *fileForm) addFile(part *multipart.Part, raw []byte) error {
	param := fmt.Sprintf("file[%d]", len(f.files))
	_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name := params["filename"] // unlike part.FileName with its folders
	switch {
	case name == "":
		return optionError(param, "A file of the form has no filename, so its format is not known.")
	case len(f.files) == maxFiles:
		return optionError(param, "The form holds more than %d files.", maxFiles)
	case !fs.ValidPath(name) || name == ".":
		return optionError(param, "The filename %q is none: it is a path without .., and does not begin with /.", name)
	}
	if err := checkDocumentID(name, param); err != nil {
		return err
	}
	f.files = append(f.files, NewFile{Name: name, Raw: raw})
	return nil
}

// putFiles writes the documents of the files of a form. A file that is refused does not keep the
// others, unless it is the only one.
func (m management) putFiles(ctx context.Context, rc *fasthttp.RequestCtx) error {
	b, err := body(rc)
	if err != nil {
		return err
	}
	files, err := ReadFiles(string(rc.Request.Header.ContentType()), b)
	if err != nil {
		return err
	}
	out := fileBatch{Object: "list"}
	var refused []error
	for i, f := range files {
		done, err := m.PutFile(ctx, m.base, f)
		if err != nil {
			refusal := refusalOf(err, fmt.Sprintf("file[%d]", i))
			refused = append(refused, refusal)
			done = WrittenFile{File: f.Name, Object: "knowledge.file", Knowledge: m.base, Notes: []FileNote{}, Error: &FileProblem{FileNote{refusal.Code, refusal.Message}, refusal.Param}}
		}
		out.Data = append(out.Data, done)
	}
	if len(refused) == len(files) {
		return refused[0]
	}
	return writeJSON(rc, fasthttp.StatusOK, out)
}

// refusalOf returns an error of a Manager as a Refusal of a file.
func refusalOf(err error, param string) *Refusal {
	r := Refusal{Status: fasthttp.StatusInternalServerError, Code: "internal", Message: err.Error(), Err: err}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		r = *refusal
	}
	r.Param = cmp.Or(r.Param, param)
	return &r
}
