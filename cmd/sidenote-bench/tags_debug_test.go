//go:build sidenote_debug

package main

// tags are those of this build, in which most of the program is compiled already.
const tags = "sidenote_debug"
