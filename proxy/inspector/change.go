package inspector

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
	"sidenote/proxy/transport"
)

// Documents changes the documents of bases, as an admin.Manager does.
type Documents interface {
	// Changeable returns why no documents of a base can be added or deleted, or nil.
	Changeable(ctx context.Context, base string) error
	PutFile(ctx context.Context, base string, file admin.NewFile) (admin.WrittenFile, error)
	Remove(ctx context.Context, base, id string) error
}

const (
	maxUpload     = 32 << 20 // bytes of a form with files
	uploadWait    = time.Minute
	changeWait    = time.Minute
	maxDeleteForm = 16 << 10
)

// A changeView says whether documents of a base can be changed, and what became of the last change.
type changeView struct {
	May     bool
	Why     string // they cannot be changed: why
	SignIn  string // where to sign in to change them; "" if the visitor has
	Wrong   string // why nothing was added
	Written []admin.WrittenFile
}

func (i *Inspector) changeView(v *visit) changeView {
	if i.data.Documents == nil {
		return changeView{Why: "there is no state folder that keeps them."}
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeWait)
	defer cancel()
	if err := i.data.Documents.Changeable(ctx, v.name); err != nil {
		return changeView{Why: err.Error()}
	}
	if v.in == nil || !v.in.MayChange() {
		return changeView{SignIn: signInPath + "?next=" + url.QueryEscape(baseAddress(v.name))}
	}
	return changeView{May: true}
}

// mayChange returns an error unless the visitor may change documents of the base in the path.
func (i *Inspector) mayChange(v *visit) error {
	if i.data.Knowledge == nil || !slices.Contains(i.data.Knowledge.Bases(), v.name) {
		return &problem{fasthttp.StatusNotFound, fmt.Sprintf("There is no knowledge base %s.", cut(v.name, "").Text)}
	}
	switch c := i.changeView(v); {
	case c.Why != "":
		return &problem{fasthttp.StatusConflict, "Documents cannot be added or deleted here: " + c.Why}
	case !c.May:
		return &problem{fasthttp.StatusForbidden, "Sign in with the admin token to add or delete documents; this session may only read."}
	}
	return nil
}

// upload writes the documents of files, and shows the base with what became of each.
func (i *Inspector) upload(v *visit) error {
	if err := i.mayChange(v); err != nil {
		v.SetConnectionClose() // the body was not read
		return err
	}
	body, whole, err := transport.ReadBody(v.RequestCtx, maxUpload, uploadWait, nil)
	if err != nil || !whole {
		v.SetConnectionClose()
		return &problem{fasthttp.StatusBadRequest, fmt.Sprintf("The files did not arrive whole, or are more than %d MB together; try again.", maxUpload>>20)}
	}
	var written []admin.WrittenFile
	files, wrong := admin.ReadFiles(string(v.Request.Header.ContentType()), body)
	ctx, cancel := context.WithTimeout(context.Background(), changeWait)
	defer cancel()
	for _, f := range files {
		done, err := i.data.Documents.PutFile(ctx, v.name, f)
		i.record(v, admin.Ended(audit.Event{Action: audit.Upload, Object: v.name, Documents: []string{f.Name}}, err))
		if err != nil {
			done = admin.WrittenFile{File: f.Name, Error: &admin.FileProblem{FileNote: admin.FileNote{Message: messageOf(err)}}}
		}
		written = append(written, done)
	}
	data, err := basePage(i, v)
	if err != nil {
		return err
	}
	view, ok := data.(*baseView)
	if !ok {
		panic("BUG: the page of a base has other data")
	}
	view.Change.Written, view.Live = written, false // only a GET can be repeated
	if wrong != nil {
		view.Change.Wrong = "Nothing was added: " + messageOf(wrong)
	}
	if wrong != nil || !slices.ContainsFunc(written, func(w admin.WrittenFile) bool { return w.Error == nil }) {
		v.Response.SetStatusCode(fasthttp.StatusBadRequest)
	}
	return i.show(v, page{path: knowledgePath + "/{name}", title: "Knowledge base", file: "base.html"}, view)
}

// A deleteView is the data of delete.html.
type deleteView struct{ Base, ID string }

// deletePage asks whether a document is to be deleted.
func deletePage(i *Inspector, v *visit) (any, error) {
	if err := i.mayChange(v); err != nil {
		return nil, err
	}
	return deleteView{v.name, string(v.QueryArgs().Peek("id"))}, nil
}

// deleteDocument deletes a document and goes back to its base.
func (i *Inspector) deleteDocument(v *visit) error {
	form, err := readForm(v, maxDeleteForm)
	if err != nil {
		return err
	}
	if err := i.mayChange(v); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeWait)
	defer cancel()
	id := string(form.Peek("id"))
	err = i.data.Documents.Remove(ctx, v.name, id)
	i.record(v, admin.Ended(audit.Event{Action: audit.Delete, Object: v.name, Documents: []string{id}}, err))
	if err != nil {
		return &problem{fasthttp.StatusConflict, messageOf(err)}
	}
	redirect(v.RequestCtx, baseAddress(v.name))
	return nil
}
