package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/extract"
)

// knowledgeCmd holds the commands that manage bases.
type knowledgeCmd struct {
	List      basesCmd     `cmd:"" help:"List the bases."`
	Show      showCmd      `cmd:"" help:"Show a base."`
	Create    createCmd    `cmd:"" help:"Make an empty base."`
	Delete    deleteCmd    `cmd:"" help:"Delete a base with all its documents."`
	Documents documentsCmd `cmd:"" help:"List the documents of a base."`
	Get       getCmd       `cmd:"" help:"Print a document as it was cut."`
	Put       putCmd       `cmd:"" help:"Write documents to a base that is read from no folder."`
	Remove    removeCmd    `cmd:"" help:"Remove documents from a base."`
	Forget    forgetCmd    `cmd:"" help:"Remove documents with all that is left of them."`
	Init      initCmd      `cmd:"" help:"Create the tables or indexes of a base in Postgres or OpenSearch."`
}

// Help shows how knowledge is used.
func (knowledgeCmd) Help() string {
	return "Works on the state folder itself, or through the admin port of the serve that writes it, and says which.\n\n" +
		"sidenote knowledge create notes\n\nsidenote knowledge put notes meeting.md\n\nsidenote knowledge documents notes"
}

type basesCmd struct{ baseFlags }

// Run lists the bases.
func (c *basesCmd) Run(a *app) error {
	return c.manage(a, false, func(at *client.Admin) error {
		bases, err := client.List[explain.Base](a.ctx, at, client.KnowledgePath())
		if err != nil {
			return err
		}
		return c.print(a, map[string]any{"object": "list", "data": bases}, func(w io.Writer) {
			for _, b := range bases {
				fmt.Fprintln(w, baseLine(b))
			}
		})
	})
}

func baseLine(b explain.Base) string {
	line := fmt.Sprintf("%-20s  %-9s  %s, %s", b.ID, b.Status, terminal.Plural(b.Documents, "document"), terminal.Plural(b.Chunks, "chunk"))
	if e := b.Embeddings; e != nil {
		line += ", " + terminal.Thousands(e.Embedded) + " embedded"
		if e.DenseWeight != nil {
			line += fmt.Sprintf(", dense weight %.2f", *e.DenseWeight)
		}
		if e.Useless() {
			line += " (vectors are not used)"
		}
	}
	if b.Path != "" {
		line += "  " + terminal.Clean(b.Path)
	}
	if b.Reason != "" {
		line += "  (" + terminal.Clean(b.Reason) + ")"
	}
	return line
}

type showCmd struct {
	ID string `arg:"" help:"Id of the base."`
	baseFlags
}

// Run prints a base.
func (c *showCmd) Run(a *app) error {
	return c.manage(a, false, func(at *client.Admin) error {
		b, err := at.Base(a.ctx, c.ID)
		if err != nil {
			return err
		}
		return c.print(a, b, func(w io.Writer) { printBase(w, b) })
	})
}

func printBase(w io.Writer, b explain.Base) {
	status := string(b.Status)
	if b.Reason != "" {
		status += ": " + terminal.Clean(b.Reason)
	}
	fmt.Fprintf(w, "%s\nstatus      %s\nholds       %s, %s, %s bytes of text\ngeneration  %s\n", b.ID, status,
		terminal.Plural(b.Documents, "document"), terminal.Plural(b.Chunks, "chunk"), terminal.Thousands(int(b.Bytes)), cmp.Or(b.Generation, "none"))
	if b.ChangedAt != nil {
		fmt.Fprintf(w, "changed     %s\n", time.Unix(*b.ChangedAt, 0).Format(time.RFC3339))
	}
	if b.Path != "" {
		name := "folder"
		if b.Source != nil {
			name = "source"
		}
		fmt.Fprintf(w, "%-10s  %s\n", name, terminal.Clean(b.Path))
	}
	if s := b.Source; s != nil {
		fmt.Fprintf(w, "fetched     %s\n", terminal.Clean(s.Text))
		for _, note := range s.Notes {
			fmt.Fprintf(w, "            %s\n", terminal.Clean(note))
		}
	}
	screen.Embeddings(w, b.Embeddings)
	i := b.Ingest
	if i != nil && i.Running {
		fmt.Fprintf(w, "reading     %s of %s\n", terminal.Thousands(i.Done), terminal.Plural(i.Files, "file"))
	}
	if i != nil && i.Report != nil {
		fmt.Fprint(w, "last read   ")
		screen.Ingested(w, b.ID, i.TookMS, i.Report, screen.MaxUnread)
	}
}

type createCmd struct {
	ID string `arg:"" help:"Id of the base: a-z, 0-9, _ and -."`
	baseFlags
}

// Run creates an empty base.
func (c *createCmd) Run(a *app) error {
	return c.manage(a, true, func(at *client.Admin) error {
		var b explain.Base
		if err := at.Do(a.ctx, http.MethodPost, client.KnowledgePath(), map[string]string{"id": c.ID}, &b); err != nil {
			return err
		}
		return c.print(a, b, func(w io.Writer) { fmt.Fprintln(w, baseLine(b)) })
	})
}

type deleteCmd struct {
	ID string `arg:"" help:"Id of the base."`
	baseFlags
}

// Run deletes a base.
func (c *deleteCmd) Run(a *app) error {
	return c.manage(a, true, func(at *client.Admin) error {
		var gone json.RawMessage
		if err := at.Do(a.ctx, http.MethodDelete, client.KnowledgePath(c.ID), nil, &gone); err != nil {
			return err
		}
		return c.print(a, gone, func(w io.Writer) { fmt.Fprintln(w, "deleted "+c.ID) })
	})
}

// print writes answer as JSON, or calls show for a person.
func (f baseFlags) print(a *app, answer any, show func(io.Writer)) error {
	if f.JSON {
		return printJSON(a.stdout, answer)
	}
	show(a.stdout)
	return nil
}

type documentsCmd struct {
	ID string `arg:"" help:"Id of the base."`
	baseFlags
}

// Run lists the documents of a base.
func (c *documentsCmd) Run(a *app) error {
	return c.manage(a, false, func(at *client.Admin) error {
		list, err := client.List[admin.Document](a.ctx, at, client.KnowledgePath(c.ID, "documents"))
		if err != nil {
			return err
		}
		return c.print(a, map[string]any{"object": "list", "data": list}, func(w io.Writer) {
			for _, d := range list {
				fmt.Fprintln(w, documentLine(d))
			}
		})
	})
}

func documentLine(d admin.Document) string {
	return fmt.Sprintf("%s  %s, %s", terminal.Clean(d.ID), terminal.Clean(d.Name), terminal.Plural(d.Chunks, "chunk"))
}

type getCmd struct {
	ID  string `arg:"" help:"Id of the base."`
	Doc string `arg:"" help:"Of the document."`
	baseFlags
}

// Run prints a document, chunk by chunk.
func (c *getCmd) Run(a *app) error {
	return c.manage(a, false, func(at *client.Admin) error {
		var d admin.Document
		if err := at.Do(a.ctx, http.MethodGet, client.KnowledgePath(c.ID, "documents", c.Doc), nil, &d); err != nil {
			return err
		}
		return c.print(a, d, func(w io.Writer) {
			fmt.Fprintln(w, documentLine(d))
			for _, chunk := range d.Content {
				fmt.Fprintf(w, "\n--- %d  %s\n%s\n", chunk.Chunk, chunk.Section, strings.TrimRight(chunk.Text, "\n"))
			}
		})
	})
}

type removeCmd struct {
	ID   string   `arg:"" help:"Id of the base."`
	Docs []string `arg:"" name:"doc" help:"Of the documents."`
	baseFlags
}

// Run removes the documents; an error with one does not keep the others.
func (c *removeCmd) Run(a *app) error {
	return c.manage(a, true, func(at *client.Admin) error {
		gone, errs := []json.RawMessage{}, []error(nil)
		for _, doc := range c.Docs {
			var answer json.RawMessage
			if err := at.Do(a.ctx, http.MethodDelete, client.KnowledgePath(c.ID, "documents", doc), nil, &answer); err != nil {
				errs = append(errs, err)
				continue
			}
			gone = append(gone, answer)
		}
		failed := errors.Join(errs...)
		if len(gone) == 0 {
			return failed
		}
		if err := c.print(a, gone, func(w io.Writer) { fmt.Fprintln(w, "removed "+terminal.Plural(len(gone), "document")) }); err != nil {
			return err
		}
		if failed != nil {
			return partError{failed}
		}
		return nil
	})
}

type forgetCmd struct {
	ID   string   `arg:"" help:"Id of the base."`
	Docs []string `arg:"" name:"doc" help:"Of the documents, which may have been removed before."`
	baseFlags
}

// Help says what is reached.
func (forgetCmd) Help() string {
	return "Removes the documents that are still there, and writes the database and the index anew, so that no file of the state " +
		"folder has their texts. A document that comes from a file is refused: delete the file first. Kept bodies of requests are " +
		"dropped, vectors that nothing uses too, and the records of requests that were given one of them."
}

// Run forgets the documents.
func (c *forgetCmd) Run(a *app) error {
	return c.manage(a, true, func(at *client.Admin) error {
		done, err := at.Forget(a.ctx, c.ID, c.Docs)
		if err != nil {
			return err
		}
		return c.print(a, done, func(w io.Writer) { printForgotten(w, done, c.Docs) })
	})
}

func printForgotten(w io.Writer, done admin.Forgotten, asked []string) {
	for _, id := range asked {
		was := "was not there any more"
		if slices.Contains(done.Removed, id) {
			was = "removed"
		}
		fmt.Fprintf(w, "%s  %s\n", terminal.Clean(id), was)
	}
	fmt.Fprintf(w, "written anew: the database, and %s of the index\n", terminal.Plural(done.Segments, "file"))
	fmt.Fprintf(w, "dropped: %s, %s of requests that were kept, and %s of requests\n", terminal.Plural(done.Vectors, "unused vector"), terminal.Plural(done.Bodies, "text"), terminal.Plural(done.Records, "record"))
	fmt.Fprintf(w, "not reached: %s\n", strings.Join(done.Beyond, "; "))
}

type putCmd struct {
	ID    string   `arg:"" help:"Id of the base."`
	Files []string `arg:"" name:"file" help:"To write, each under its name, such as PDF; - is the standard input."`
	DocID string   `name:"doc-id" placeholder:"ID" help:"Of the document, in place of the name of the one file."`
	Name  string   `placeholder:"TITLE" help:"Title of the one document (its first heading)."`
	baseFlags
}

// A putFile is a file to write: the text of a document, or a file that is read where it is written.
type putFile struct {
	id   string
	raw  []byte
	text bool
}

// Run writes documents with one request each, as the size of a request is limited. Documents
// written before an error stay.
func (c *putCmd) Run(a *app) error {
	if len(c.Files) > 1 && c.DocID+c.Name != "" {
		return usageError{errors.New("--doc-id and --name go with one file")}
	}
	var files []putFile
	for _, name := range c.Files {
		f, err := c.read(a, name)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return c.manage(a, true, func(at *client.Admin) error {
		done := []any{}
		documents, changed, removed := 0, 0, 0
		for _, f := range files {
			if f.text {
				w, err := c.putText(a, at, f)
				if err != nil {
					return err
				}
				if done, documents = append(done, w), documents+1; w.Changed {
					changed++
				}
				continue
			}
			w, err := at.PutFile(a.ctx, c.ID, f.id, c.Name, f.raw)
			if err != nil {
				return err
			}
			for _, n := range w.Notes {
				fmt.Fprintf(a.stderr, "%s: %s\n", terminal.Clean(f.id), terminal.Clean(n.Message))
			}
			done, documents, changed, removed = append(done, w), documents+w.Documents, changed+w.Changed, removed+w.Removed
		}
		return c.print(a, done, func(w io.Writer) {
			fmt.Fprintf(w, "%s new or changed, %d as before", terminal.Plural(changed, "document"), documents-changed)
			if removed > 0 {
				fmt.Fprintf(w, ", %d of an earlier file removed", removed)
			}
			fmt.Fprintln(w)
		})
	})
}

// putText writes one document.
func (c *putCmd) putText(a *app, at *client.Admin, f putFile) (w admin.Written, err error) {
	body := map[string]string{"text": strings.TrimPrefix(string(f.raw), "\ufeff")}
	if c.Name != "" {
		body["name"] = c.Name
	}
	return w, at.Do(a.ctx, http.MethodPut, client.KnowledgePath(c.ID, "documents", f.id), body, &w)
}

// maxPut is one byte more than a document may have, so that longer ones are noticed.
const maxPut = 10<<20 + 1

// read reads a file. A text is written as it is, and any other file as the documents in it.
func (c *putCmd) read(a *app, name string) (f putFile, err error) {
	in := io.NopCloser(a.stdin)
	if f.id = c.DocID; name == "-" && f.id == "" {
		return f, usageError{errors.New("the standard input has no name; give one by --doc-id")}
	}
	if name != "-" {
		if f.id == "" {
			f.id = filepath.Base(name)
		}
		if in, err = os.Open(name); err != nil {
			return f, err
		}
	}
	defer func() { _ = in.Close() }()
	if f.raw, err = io.ReadAll(io.LimitReader(in, maxPut)); err != nil {
		return f, fmt.Errorf("read %s: %w", name, err)
	}
	f.text = utf8.Valid(f.raw) && !extract.Of(f.id).Packed()
	return f, nil
}
