package config

import (
	"sidenote/cmd/sidenote/internal/config/callers"
	"sidenote/cmd/sidenote/internal/config/helpers"
	"sidenote/cmd/sidenote/internal/config/port"
	"sidenote/cmd/sidenote/internal/config/value"
)

// Off is the Address of a listener that is turned off.
const Off = port.Off

// What listeners are made of.
type (
	Address  = port.Address
	Listener = port.Listener
	Ports    = port.Ports
	TLS      = port.TLS
)

// What policies say of services that help a search.
type (
	Grade  = helpers.Grade
	Rerank = helpers.Rerank
)

// A Network is an address or a range of them.
type Network = callers.Network

// The values that package value has.
type (
	BaseURL   = value.BaseURL
	Bytes     = value.Bytes
	Count     = value.Count
	Date      = value.Date
	Digest    = value.Digest
	Glob      = value.Glob
	Host      = value.Host
	Model     = value.Model
	Name      = value.Name
	Origin    = value.Origin
	Priority  = value.Priority
	Threshold = value.Threshold
	Relevance = value.Relevance
	Weight    = value.Weight
	Route     = value.Route
)
