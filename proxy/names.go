package proxy

import "sidenote/proxy/tenant"

// What a server is told of tenants; see package tenancy.
type (
	Policy    = tenant.Policy
	Tenants   = tenant.Tenants
	Key       = tenant.Key
	KeyInfo   = tenant.KeyInfo
	Directory = tenant.Directory
	Models    = tenant.Models
	Override  = tenant.Override
	Caller    = tenant.Caller
	Sender    = tenant.Sender
)

// KeyPrefix begins the keys that Sidenote makes for tenants.
const KeyPrefix = tenant.KeyPrefix

// NewDirectory indexes tenants.
func NewDirectory(t Tenants) *Directory { return tenant.NewDirectory(t) }
