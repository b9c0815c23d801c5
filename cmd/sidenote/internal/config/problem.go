package config

import (
	"sidenote/cmd/sidenote/internal/strictyaml"
)

// MaxProblems is how many problems an error shows; the rest is counted.
const MaxProblems = strictyaml.MaxProblems

// What is wrong, and where. Problems is the only error that Load returns.
type (
	Place    = strictyaml.Place
	Problem  = strictyaml.Problem
	Problems = strictyaml.Problems
)
