package screen

import (
	"context"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/server"
)

const (
	// readingEvery is the interval between lines about folders that are being read.
	readingEvery = 10 * time.Second
	// readingLong is how long reading must have taken to get a line; most folders take less.
	readingLong = readingEvery / 2
)

// FollowReading calls say every ten seconds with each folder that has been read for a while, until
// ctx ends.
func FollowReading(ctx context.Context, readings func() []server.Reading, say func(server.Reading)) {
	ticks := time.NewTicker(readingEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		for _, r := range readings() {
			if r.Took >= readingLong {
				say(r)
			}
		}
	}
}

// ReadingLine formats the progress of reading a folder.
func ReadingLine(r server.Reading) string {
	work := terminal.Work{Name: r.Knowledge, Done: r.Done, Total: r.Files, Unit: "files", Note: terminal.Plural(r.Chunks, "chunk")}
	if r.Files == 0 {
		work.Note = "looking for files"
	}
	return terminal.Line(work, r.Took)
}
