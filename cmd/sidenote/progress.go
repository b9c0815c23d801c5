package main

import (
	"context"
	"sync"

	"sidenote/cmd/internal/terminal"
)

// newProgress shows a command's progress on stderr until stop is called.
func newProgress(a *app) (show *terminal.Progress, stop func()) {
	term, _ := a.env("TERM")
	show = terminal.NewProgress(a.stderr, term)
	ctx, cancel := context.WithCancel(a.ctx)
	var repeating sync.WaitGroup
	repeating.Go(func() { show.Repeat(ctx) })
	return show, func() {
		cancel()
		repeating.Wait()
		show.Clear()
	}
}
