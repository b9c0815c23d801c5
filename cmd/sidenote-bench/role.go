package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/valyala/fasthttp"
)

// A role is what this program does when it starts itself: serve on a free port until its standard
// input ends.
type role func(args []string) *fasthttp.Server

// roles is never changed.
var roles = map[string]role{
	"role-relay":    relayRole,
	"role-upstream": upstreamRole,
}

// playRole serves and prints its address on stdout.
func playRole(r role, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	raiseDescriptors()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // ends when the parent process ends
		os.Exit(exitDone)
	}()
	fmt.Fprintln(stdout, ln.Addr())
	if err := r(args).Serve(ln); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	return exitDone
}
