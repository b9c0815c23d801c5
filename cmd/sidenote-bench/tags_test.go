//go:build !sidenote_debug

package main

const tags = ""
