package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"sidenote/retrieval/knowledge/extract"
)

// A frame is the line "sidenote-extract 1 STATUS FORM NAME TEXT", where NAME and TEXT are
// lengths in bytes, followed by the name and the text. The lengths show whether a child
// was stopped before its end.
const (
	frameHead = "sidenote-extract 1 %s %d %d %d\n"
	maxHead   = 4 << 10 // bytes of the line and the name

	statusOK     = "ok"
	statusBroken = "broken" // the text says why
)

func writeFrame(w io.Writer, d extract.Document, err error) error {
	status := statusOK
	if err != nil {
		status, d = statusBroken, extract.Document{Text: errGaveUp.Error()}
		if broken := (*extract.Broken)(nil); errors.As(err, &broken) {
			d.Text = broken.Reason
		}
	}
	d.Name = d.Name[:min(len(d.Name), maxHead/2)]
	_, err = fmt.Fprintf(w, frameHead+"%s%s", status, d.Form, len(d.Name), len(d.Text), d.Name, d.Text)
	return err
}

func parseFrame(out []byte) (extract.Document, error) {
	head, rest, found := bytes.Cut(out, []byte("\n"))
	var status string
	var form extract.Form
	var name, text int
	if _, err := fmt.Sscanf(string(head)+"\n", frameHead, &status, &form, &name, &text); err != nil || !found {
		return extract.Document{}, errGaveUp
	}
	if name < 0 || text < 0 || form > extract.Markdown || len(rest) != name+text {
		return extract.Document{}, errGaveUp
	}
	d := extract.Document{Form: form, Name: string(rest[:name]), Text: string(rest[name:])}
	if status != statusOK {
		return extract.Document{}, &extract.Broken{Reason: d.Text}
	}
	return d, nil
}
