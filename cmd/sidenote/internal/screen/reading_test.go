package screen

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval/knowledge/folder"
)

// While a folder is read there is a line every ten seconds; short readings have none.
func TestFollowReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		readings := func() (list []server.Reading) {
			now := time.Since(began)
			if now < 35*time.Second {
				list = append(list, server.Reading{Progress: folder.Progress{Knowledge: "handbook", Files: 1000, Done: int(now.Seconds()) * 10, Chunks: 1}, Took: now})
			}
			return append(list, server.Reading{Progress: folder.Progress{Knowledge: "quick"}, Took: time.Second})
		}
		said := make(chan string, 99)
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			FollowReading(ctx, readings, func(r server.Reading) { said <- ReadingLine(r) })
		}()
		time.Sleep(2 * time.Minute)
		end()
		<-ended
		close(said)
		want := []string{
			"handbook  100 of 1,000 files  1 chunk  10/s  90 s left", "handbook  200 of 1,000 files  1 chunk  10/s  80 s left",
			"handbook  300 of 1,000 files  1 chunk  10/s  70 s left",
		}
		if got := slices.Collect(func(yield func(string) bool) {
			for line := range said {
				if !yield(line) {
					return
				}
			}
		}); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
	if got := ReadingLine(server.Reading{Progress: folder.Progress{Knowledge: "x"}, Took: time.Minute}); got != "x  looking for files" {
		t.Error(got)
	}
}
