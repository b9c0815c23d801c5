package config

import (
	"sidenote/cmd/sidenote/internal/config/document"
)

// MaxProblems is how many problems an error shows; the rest is counted.
const MaxProblems = document.MaxProblems

// What is wrong, and where. Problems is the only error that Load returns.
type (
	Place    = document.Place
	Problem  = document.Problem
	Problems = document.Problems
)
