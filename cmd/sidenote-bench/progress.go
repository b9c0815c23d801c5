package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A progress shows a person what is being measured, in one line of a terminal that
// is written over. Elsewhere it shows nothing.
type progress struct {
	w io.Writer // nil where nobody looks

	mu    sync.Mutex
	last  time.Time
	name  string
	shown int // columns
}

const redrawEvery = 100 * time.Millisecond

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return &progress{}
	}
	return &progress{w: w}
}

// show says how far something is; of is 0 where that is not known.
func (p *progress) show(name string, done, of int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if name == p.name && now.Sub(p.last) < redrawEvery {
		return
	}
	p.name, p.last = name, now
	text := name
	if of > 0 {
		text = fmt.Sprintf("%s  %d %%", name, 100*done/of)
	}
	p.draw(text)
}

// clear empties the line.
func (p *progress) clear() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw("")
	fmt.Fprint(p.w, "\r")
}

func (p *progress) draw(text string) {
	fmt.Fprint(p.w, "\r"+text+strings.Repeat(" ", max(0, p.shown-len(text))))
	p.shown = len(text)
}
