package proxy

import "sidenote/proxy/tenancy"

// What a server is told of tenants; see package tenancy.
type (
	Policy    = tenancy.Policy
	Tenants   = tenancy.Tenants
	Key       = tenancy.Key
	KeyInfo   = tenancy.KeyInfo
	Directory = tenancy.Directory
	Models    = tenancy.Models
	Override  = tenancy.Override
	Caller    = tenancy.Caller
	Sender    = tenancy.Sender
)

// KeyPrefix begins the keys that Sidenote makes for tenants.
const KeyPrefix = tenancy.KeyPrefix

// NewDirectory indexes tenants.
func NewDirectory(t Tenants) *Directory { return tenancy.NewDirectory(t) }
