package engine

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"
)

// A Connection says how to reach an engine. Bases with equal Connections share one Server.
type Connection struct {
	URL       []*url.URL    // without secrets; several are tried in order, as after a failover
	User      string        // "" if the engine asks for none, or takes the certificate
	Password  func() string // read for each new connection, as it may have been replaced; nil for none
	APIKey    func() string // of a search server, instead of a user; nil for none
	TLS       *tls.Config   // nil for a URL without TLS
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	Most      int           // connections at the same time
	Timeout   time.Duration // of a call, unless its context ends earlier
	TenantAs  string        // setting that holds the tenant during a search, for row-level security, such as app.tenant; "" for none
	Vectors   bool          // bases are to be searched by vector, so an engine that cannot says so
	Namespace string        // the database schema, or the prefix of the indexes; "" is sidenote
}

// A Mapping describes a table or an index that others write. Nothing is ever written there.
type Mapping struct {
	Table string // table or view, or index or alias; may be qualified

	// Columns or fields. ID and Text are required, "" for others that do not exist. Every row is a
	// document of one chunk, unless Document and Ordinal are set.
	ID, Text, Title, Section string
	Document, Ordinal        string // the id of the document that a row is a chunk of, and its number there
	URL, Date                string // become the attributes url and date
	Attributes               string // a JSON object
	// AttributeColumns are further columns with one attribute each, by attribute.
	AttributeColumns map[string]string

	// Lexemes is what is searched by words: a tsvector column, or an analysed text field. If it is
	// "", Text is, in Language, which then needs an index. Language is a text search configuration.
	Lexemes, Language string

	Vector     string // column or field of vectors of Text; "" for none
	Space      string // of the vectors, see retrieval.Space.String
	Dimensions int

	// Generation is a column whose greatest value changes with every change, such as updated_at. If
	// it is "", the number of rows is compared instead, and what is cached expires after TTL.
	Generation string
	TTL        time.Duration
}
