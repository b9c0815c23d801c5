package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/cmd/internal/terminal"
)

const stressConnections = 64

// measureStress streams chats as fast as the upstream writes them. A chat is lost if its status is
// not 200, if events are missing, or if it breaks off.
func (b *bench) measureStress(ctx context.Context, out *results) error {
	return b.with(ctx, program{documents: mainSources}, func(r *rig) error {
		w := work{request: chatRequest(chatOf(1*kib, answerBurst), answerBurst), status: injected, events: streamEvents}
		result := stressResult{Chats: b.StressChats}
		for _, to := range []struct {
			server *server
			lost   *int
			first  *string
		}{{r.relay, &result.RelayLost, &result.RelayError}, {r.sidenote, &result.SidenoteLost, &result.SidenoteError}} {
			lost, first, err := b.stress(ctx, to.server, w)
			if err != nil {
				return err
			}
			if *to.lost = lost; first != nil {
				*to.first = first.Error()
			}
		}
		out.Stress = &result
		return nil
	})
}

// stress counts the lost chats; first is one of the reasons.
func (b *bench) stress(ctx context.Context, s *server, w work) (lost int, first, err error) {
	l, err := newLoad(s, w, stressConnections)
	if err != nil {
		return 0, nil, err
	}
	defer l.close()
	var mu sync.Mutex
	var sent atomic.Int64
	var all sync.WaitGroup
	for i := range l.clients {
		all.Go(func() {
			for n := sent.Add(1); n <= int64(b.StressChats) && ctx.Err() == nil; n = sent.Add(1) {
				b.progress.Show(terminal.Work{Name: "stress, " + s.name, Done: int(n), Total: b.StressChats})
				if failed := l.one(l.clients[i]); failed != nil {
					mu.Lock()
					lost, first = lost+1, failed
					mu.Unlock()
					l.again(ctx, i)
				}
			}
		})
	}
	all.Wait()
	return lost, first, ctx.Err()
}

// again reconnects the i-th client.
func (l *load) again(ctx context.Context, i int) {
	l.clients[i].close()
	for ctx.Err() == nil {
		c, err := dial(l.server.addr)
		if err == nil {
			l.clients[i] = c
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
