package proxy

import "sidenote/proxy/tenant"

// Names of package tenant, for those who configure a server.
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
