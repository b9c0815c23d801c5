package postgres

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidenote/retrieval/engine"
)

// The pool. An idle connection is closed after a few minutes, so that a database with thousands of
// clients keeps connections only for those that search.
const (
	defaultConns = 8
	idleTime     = 5 * time.Minute
	lifetime     = time.Hour
	// readBuffer is for the 100 to 500 kB of an answer, which pgx reads in pieces of 8 kB.
	readBuffer = 64 << 10
)

// poolConfig returns the configuration of the pool. Environment variables such as PGHOST, which pgx
// reads as psql does, have no effect.
func poolConfig(c *engine.Connection) (*pgxpool.Config, error) {
	if len(c.URL) == 0 {
		return nil, errors.New("postgres: no url")
	}
	config, err := pgxpool.ParseConfig("postgres://host:5432/database?sslmode=disable&user=user&password=none")
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	conn := config.ConnConfig
	conn.Fallbacks = nil
	for i, u := range c.URL {
		if err := checkURL(u); err != nil {
			return nil, err
		}
		host, port, tlsConfig := endpoint(u, c.TLS)
		if i == 0 {
			conn.Host, conn.Port, conn.TLSConfig = host, port, tlsConfig
		} else {
			conn.Fallbacks = append(conn.Fallbacks, &pgconn.FallbackConfig{Host: host, Port: port, TLSConfig: tlsConfig})
		}
	}
	conn.User = cmp.Or(c.User, c.URL[0].User.Username(), "postgres")
	conn.Database = cmp.Or(strings.TrimPrefix(c.URL[0].Path, "/"), conn.User)
	conn.Password = ""
	conn.ConnectTimeout = c.Timeout
	if n := len(c.URL); n > 1 { // one that hangs leaves time for the others
		conn.ConnectTimeout = c.Timeout / time.Duration(n+1)
	}
	conn.RuntimeParams = map[string]string{"application_name": "sidenote"}
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	conn.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(bufio.NewReaderSize(r, readBuffer), w)
	}
	if c.Dial != nil {
		conn.DialFunc = c.Dial
		// Dial resolves names.
		conn.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	config.MaxConns = int32(cmp.Or(c.Most, defaultConns)) //nolint:gosec // a configuration bounds it
	config.MaxConnIdleTime, config.MaxConnLifetime = idleTime, lifetime
	config.MaxConnLifetimeJitter = lifetime / 10
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // see Server.run
	config.BeforeConnect = beforeConnect(c)
	config.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() {
			// A call failed. The server may hang, and pgx waits for its farewell while the
			// connection counts as one of the pool.
			_ = conn.PgConn().Conn().Close()
		}
	}
	return config, nil
}

// checkURL returns an error for a URL that is not one of a database.
func checkURL(u *url.URL) error {
	if u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Hostname() == "" {
		return fmt.Errorf("postgres: url %q: want postgres://host:port/database", u.Redacted())
	}
	if port := u.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("postgres: url %q: port %q is not a number up to 65535", u.Redacted(), port)
		}
	}
	return nil
}

// endpoint returns the address in a URL. The certificate is checked for its own host.
func endpoint(u *url.URL, config *tls.Config) (host string, port uint16, _ *tls.Config) {
	n, err := strconv.ParseUint(cmp.Or(u.Port(), "5432"), 10, 16)
	if err != nil {
		panic("BUG: the port was checked")
	}
	if config != nil && config.ServerName == "" {
		config = config.Clone()
		config.ServerName = u.Hostname()
	}
	return u.Hostname(), uint16(n), config
}

// beforeConnect reads the password, and prevents requests to cancel a query: pgx waits for them
// while the connection counts as one of the pool, up to 15 s if the server hangs. The server ends a
// query itself, by statement_timeout.
func beforeConnect(c *engine.Connection) func(context.Context, *pgx.ConnConfig) error {
	return func(_ context.Context, conn *pgx.ConnConfig) error {
		if c.Password != nil {
			conn.Password = c.Password()
		}
		var connected atomic.Bool
		dial := conn.DialFunc
		conn.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			if connected.Load() {
				return nil, errors.New("queries end by statement_timeout")
			}
			return dial(ctx, network, address)
		}
		conn.AfterConnect = func(context.Context, *pgconn.PgConn) error {
			connected.Store(true)
			return nil
		}
		return nil
	}
}

// A statement is a query with its parameters: strings, []string, int64, []int64, float64,
// []float64, []float32, []byte, [][]byte or bool.
type statement struct {
	sql  string
	args []any
}

// A session is a connection during a call.
type session struct {
	conn *pgxpool.Conn
}

// acquire takes a connection from the pool. release must be called.
func (s *Server) acquire(ctx context.Context) (*session, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, s.failure(ctx, err)
	}
	return &session{conn}, nil
}

// release gives the connection back. An open transaction is rolled back.
func (c *session) release(ctx context.Context) {
	if pg := c.conn.Conn().PgConn(); !pg.IsClosed() && pg.TxStatus() != 'I' && ctx.Err() == nil {
		_, _ = pg.Exec(ctx, "rollback").ReadAll() // if it fails the pool closes the connection
	}
	c.conn.Release()
}

// run sends statements in one pipeline and calls each with each row, given the statement's index;
// each may be nil if there are no rows of interest. All statements are one transaction, unless some
// of them begin or end one.
func (c *session) run(ctx context.Context, statements []statement, each func(i int, r *row)) error {
	batch := &pgconn.Batch{}
	for _, s := range statements {
		if err := c.queue(batch, s); err != nil {
			return err
		}
	}
	results := c.conn.Conn().PgConn().ExecBatch(ctx, batch)
	err := readResults(results, each)
	if closing := results.Close(); closing != nil {
		return closing // the error of a statement, before which rows may have been read
	}
	return err
}

func readResults(results *pgconn.MultiResultReader, each func(i int, r *row)) error {
	for i := 0; results.NextResult(); i++ {
		reader := results.ResultReader()
		for reader.NextRow() {
			if each == nil {
				continue
			}
			r := row{values: reader.Values()}
			each(i, &r)
			if r.err != nil {
				return fmt.Errorf("postgres: statement %d: %w", i+1, r.err)
			}
		}
		if _, err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}

// queue adds a statement to a pipeline, with its parameters and results in binary form.
func (c *session) queue(batch *pgconn.Batch, s statement) error {
	types := c.conn.Conn().TypeMap()
	n := len(s.args)
	values, oids, formats := make([][]byte, n), make([]uint32, n), make([]int16, n)
	for i, arg := range s.args {
		oids[i], formats[i] = oidOf(arg), pgtype.BinaryFormatCode
		var err error
		if values[i], err = types.Encode(oids[i], pgtype.BinaryFormatCode, arg, []byte{}); err != nil {
			return fmt.Errorf("postgres: parameter %d: %w", i+1, err)
		}
	}
	batch.ExecParams(s.sql, values, oids, formats, []int16{pgtype.BinaryFormatCode})
	return nil
}

// oidOf returns the Postgres type of a parameter.
func oidOf(arg any) uint32 {
	switch arg.(type) {
	case string:
		return pgtype.TextOID
	case []string:
		return pgtype.TextArrayOID
	case int64:
		return pgtype.Int8OID
	case []int64:
		return pgtype.Int8ArrayOID
	case float64:
		return pgtype.Float8OID
	case []float64:
		return pgtype.Float8ArrayOID
	case []float32:
		return pgtype.Float4ArrayOID
	case []byte:
		return pgtype.ByteaOID
	case [][]byte:
		return pgtype.ByteaArrayOID
	case bool:
		return pgtype.BoolOID
	}
	panic(fmt.Sprintf("BUG: a parameter of type %T", arg))
}

// read runs statements that only read, in one transaction with one view of the data and in one
// round trip. It is repeated once if the connection turns out to be dead, as after a restart of the
// server. each must be able to begin anew: first is called before each attempt.
func (s *Server) read(ctx context.Context, tenant string, statements []statement, first func(), each func(i int, r *row)) error {
	all, skipped := s.transaction(ctx, tenant, statements)
	shifted := func(i int, r *row) {
		if i -= skipped; i >= 0 && i < len(statements) {
			each(i, r)
		}
	}
	for attempt := 0; ; attempt++ {
		c, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		first()
		err = c.run(ctx, all, shifted)
		dead := err != nil && c.conn.Conn().IsClosed()
		c.release(ctx)
		if err == nil || attempt == 1 || !dead || ctx.Err() != nil {
			return needs(readRights, s.failure(ctx, err))
		}
		s.pool.Reset() // the idle connections are as dead
	}
}

// transaction returns statements as a transaction, and how many come before them. A pipeline of one
// statement is a transaction with one view of the data by itself.
func (s *Server) transaction(ctx context.Context, tenant string, statements []statement) (all []statement, before int) {
	if len(statements) > 1 {
		all = append(all, statement{sql: "begin isolation level repeatable read, read only"})
	}
	all = append(all, s.settings(ctx, tenant))
	before = len(all)
	for _, q := range statements {
		all = append(all, statement{q.sql, storable(q.args)})
	}
	if len(statements) > 1 {
		all = append(all, statement{sql: "commit"})
	}
	return all, before
}

// storable returns parameters whose texts Postgres takes: it refuses NUL and invalid UTF-8, which
// questions may hold, and stores neither.
func storable(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		switch v := arg.(type) {
		case string:
			out[i] = storableText(v)
		case []string:
			v = slices.Clone(v)
			for j := range v {
				v[j] = storableText(v[j])
			}
			out[i] = v
		}
	}
	return out
}

// storableText returns a text as copier.text stores it.
func storableText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// settings is the statement that bounds a transaction in time, passes on the tenant, and prevents
// compilation, which takes longer than a search.
func (s *Server) settings(ctx context.Context, tenant string) statement {
	q := statement{sql: "select set_config('jit', 'off', true), set_config('statement_timeout', $1, true)"}
	q.args = append(q.args, strconv.FormatInt(remaining(ctx), 10))
	if s.options.TenantAs != "" {
		q.sql += ", set_config($2, $3, true)"
		q.args = append(q.args, s.options.TenantAs, storableText(tenant))
	}
	return q
}

// The SQLSTATEs that callers tell apart,
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeDenied        = "42501"
	codeReadOnly      = "25006"
	codeNoTable       = "42P01"
	codeNoSchema      = "3F000"
	codeNoFunction    = "42883"
	codeCanceled      = "57014"
	codeWrongRole     = "28000"
	codeWrongPassword = "28P01"

	classData  = "22" // a value that cannot be
	classNames = "42" // what does not exist, or is of another type
	classLimit = "54" // too many columns, too long a statement
)

// failure returns an error for callers: one of package engine where it has one, or ctx's.
func (s *Server) failure(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg):
		switch pg.Code {
		case codeWrongRole, codeWrongPassword:
			return fmt.Errorf("postgres: %w: %w", engine.ErrLogin, err)
		case codeDenied:
			return fmt.Errorf("postgres: %w: %w", engine.ErrDenied, err)
		case codeReadOnly:
			return fmt.Errorf("postgres: the server takes no writes, as a standby: %w", err)
		case codeCanceled:
			switch cause := context.Cause(ctx); {
			case cause != nil: // it ended while the server did so too
				return fmt.Errorf("postgres: %w: %w", cause, err)
			case remaining(ctx) <= 1:
				return fmt.Errorf("postgres: %w: %w", context.DeadlineExceeded, err)
			}
		}
		if strings.HasPrefix(pg.Code, classData) || strings.HasPrefix(pg.Code, classLimit) {
			return fmt.Errorf("postgres: %w: %w", engine.ErrRefused, err)
		}
	case ctx.Err() != nil:
		return fmt.Errorf("postgres: %w", context.Cause(ctx))
	case strings.HasPrefix(err.Error(), "postgres: "):
		return err
	}
	return fmt.Errorf("postgres: %w", err)
}

// readRights are the rights that a search needs.
const readRights = "select, and usage of the schema"

// needs adds to an error about a permission which rights the call needs.
func needs(rights string, err error) error {
	if !isDenied(err) {
		return err
	}
	return fmt.Errorf("%w; the role needs %s", err, rights)
}

// isReadOnly reports whether an error says that the server takes no writes.
func isReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeReadOnly
}

// isMissing reports whether an error says that a table or a schema does not exist.
func isMissing(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == codeNoTable || pg.Code == codeNoSchema)
}

// isDenied reports whether an error says that the user lacks a permission.
func isDenied(err error) bool { return errors.Is(err, engine.ErrDenied) }

// quoteName quotes an SQL identifier.
func quoteName(name string) string { return pgx.Identifier{name}.Sanitize() }

// quoteText quotes a string for SQL that people run; statements use parameters.
func quoteText(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}
