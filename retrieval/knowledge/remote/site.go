package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/temoto/robotstxt"
	"golang.org/x/net/html/charset"
)

// Site is the pages of one host. They are found by links from URLs, or listed by a sitemap. A page is not
// fetched again while its ETag or Last-Modified is the same. The robots.txt of the host is obeyed.
type Site struct {
	URLs    []string // where to begin; links are followed from here
	Sitemap string   // address of a sitemap, or of an index of sitemaps; its pages are fetched, their links are not followed
	// Include and Exclude are doublestar patterns for paths, such as /docs/**. Exclude takes
	// precedence. Without Include, links are followed below the folders of URLs.
	Include, Exclude []string
	MaxPages         int           // 1,000
	UserAgent        string        // DefaultUserAgent; robots.txt is read for its name up to a slash
	Delay            time.Duration // between requests; robots.txt may ask for more. Zero waits only as it asks

	Network
	Limits Limits
}

// DefaultUserAgent is the User-Agent of a Site that has none.
const DefaultUserAgent = "Sidenote/1 (reads pages for search; see robots.txt)"

// The bounds of a crawl.
const (
	defaultPages   = 1000
	maxDepth       = 32               // links from a page of URLs; names in a path
	maxQueue       = 20               // addresses waiting per page that may be fetched
	maxRobots      = 500 << 10        // bytes, RFC 9309
	maxSitemap     = 50 << 20         // bytes, as sitemaps.org allows
	maxSitemaps    = 500              // files of an index
	maxCrawlDelay  = 30 * time.Second // that robots.txt may ask for
	maxRetryAfter  = 60 * time.Second // that a busy server may ask for
	maxInARow      = 10               // failures until the site counts as unreachable
	crawlTotal     = 6 * time.Hour    // longest crawl by default
	maxURL         = 2000             // bytes of an address
	acceptedHeader = "text/html, application/xhtml+xml, text/markdown, text/plain, application/pdf, */*;q=0.5"
)

// String describes the site.
func (s Site) String() string {
	return strings.Join(append(append([]string{"http"}, s.URLs...), strings.Fields(s.Sitemap)...), " ")
}

// Fetch crawls the site.
func (s Site) Fetch(ctx context.Context, m *Mirror, progress func(Progress)) (Report, error) {
	s.Limits.Total = cmp.Or(s.Limits.Total, crawlTotal)
	s.Limits, s.MaxPages = s.Limits.withDefaults(), cmp.Or(s.MaxPages, defaultPages)
	s.UserAgent = cmp.Or(s.UserAgent, DefaultUserAgent)
	return run(ctx, m, s.Limits, func(ctx context.Context, r *Report) error {
		c := &crawl{
			Site: s, m: m, r: r, teller: teller{tell: progress}, client: s.client(s.Limits), delay: s.Delay,
			seen: map[string]bool{}, listed: map[string]bool{}, known: map[string]string{}, other: map[string]int{},
		}
		defer c.client.CloseIdleConnections()
		return c.run(ctx)
	})
}

// A crawl is one fetch of a site.
type crawl struct {
	Site
	m *Mirror
	r *Report
	teller
	client *http.Client
	robots *robotstxt.Group
	delay  time.Duration
	host   string // with the port
	last   time.Time
	below  []string // folders of URLs, in which links are followed unless there is an Include

	queue  []page
	seen   map[string]bool   // addresses that are or were in the queue
	listed map[string]bool   // files of pages that are there
	known  map[string]string // files by the address that they were fetched from
	other  map[string]int    // pages by types that are not read
	pages  int
	total  int64 // bytes of the files listed
	capped bool  // there is more than may be fetched
	failed int   // in a row
}

// A page is an address to fetch.
type page struct {
	url    *url.URL
	depth  int
	follow bool
}

func (c *crawl) run(ctx context.Context) error {
	for file, e := range c.m.entries() {
		c.known[e.From] = file
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	for len(c.queue) > 0 && c.pages < c.MaxPages {
		next := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.visit(ctx, next); err != nil {
			return err
		}
		c.Files = min(c.pages+len(c.queue), c.MaxPages)
	}
	if len(c.queue) > 0 || c.capped {
		c.capped = true
		c.r.note("the site has more than %d pages (max_pages); the rest is not read", c.MaxPages)
	}
	for _, kind := range sortedKeys(c.other) {
		c.r.note("%d of type %s are not read", c.other[kind], kind)
	}
	c.r.Listed = c.Done
	if f := c.r.Failures; len(f) > 0 && c.r.Failed == c.pages {
		return fmt.Errorf("%s: %s", f[0].Path, f[0].Reason)
	}
	if c.r.Failed == 0 && !c.capped {
		return c.m.prune(c.listed, c.r)
	}
	return c.ask(ctx)
}

// begin reads robots.txt and the sitemap, and fills the queue.
func (c *crawl) begin(ctx context.Context) error {
	var first []*url.URL
	for _, text := range append(slices.Clone(c.URLs), strings.Fields(c.Sitemap)...) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%q is not an http or https URL", text)
		}
		if c.host == "" {
			c.host = u.Host
		}
		if u.Host != c.host {
			return fmt.Errorf("%s and %s are different hosts; write a base for each", c.host, u.Host)
		}
		first = append(first, normal(u))
	}
	if len(first) == 0 {
		return errors.New("there are neither urls nor a sitemap")
	}
	if err := c.readRobots(ctx, first[0]); err != nil {
		return err
	}
	if c.Sitemap != "" {
		if err := c.readSitemaps(ctx, first[len(first)-1]); err != nil {
			return err
		}
		first = first[:len(first)-1]
	}
	for _, u := range first {
		c.below = append(c.below, u.Path[:strings.LastIndexByte(u.Path, '/')+1])
	}
	for _, u := range slices.Backward(first) { // before those of the sitemap
		if key := u.String(); !c.seen[key] {
			c.seen[key] = true
			c.queue = slices.Insert(c.queue, 0, page{url: u, follow: true})
		}
	}
	return nil
}

// normal returns an address without fragment and with a path.
func normal(u *url.URL) *url.URL {
	n := *u
	n.Fragment, n.RawFragment, n.User, n.Host = "", "", nil, strings.ToLower(u.Host)
	if n.Path == "" {
		n.Path = "/"
	}
	return &n
}

// readRobots reads robots.txt. A server that cannot say what is allowed is not read, as RFC 9309 has it.
func (c *crawl) readRobots(ctx context.Context, of *url.URL) error {
	at := &url.URL{Scheme: of.Scheme, Host: of.Host, Path: "/robots.txt"}
	response, err := c.get(withLimit(ctx, maxRobots), at, entry{})
	if err != nil {
		return fmt.Errorf("robots.txt: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("robots.txt: status %d", response.StatusCode)
	}
	text, err := io.ReadAll(response.Body)
	if tooLarge := (*tooLargeError)(nil); err != nil && !errors.As(err, &tooLarge) {
		return fmt.Errorf("robots.txt: %w", err)
	}
	if t, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); t == "text/html" {
		text = nil // a page that says that there is none
	}
	rules, err := robotstxt.FromStatusAndBytes(response.StatusCode, text)
	if err != nil {
		return fmt.Errorf("robots.txt: %w", err)
	}
	name, _, _ := strings.Cut(c.UserAgent, "/")
	c.robots = rules.FindGroup(strings.TrimSpace(name))
	c.delay = max(c.delay, min(c.robots.CrawlDelay, maxCrawlDelay))
	return nil
}

// wanted reports whether a page is part of what is mirrored, but for robots.txt.
func (c *crawl) wanted(u *url.URL) bool {
	if u.Host != c.host || u.Scheme != "http" && u.Scheme != "https" || len(u.String()) > maxURL || strings.Count(u.Path, "/") > maxDepth {
		return false
	}
	return (len(c.Include) == 0 || matches(c.Include, u.Path)) && !matches(c.Exclude, u.Path)
}

func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := doublestar.Match(p, path)
		return ok
	})
}

// allowed reports whether robots.txt allows to fetch a page.
func (c *crawl) allowed(u *url.URL) bool { return c.robots == nil || c.robots.Test(u.RequestURI()) }

// enqueue adds an address to the queue unless it was there.
func (c *crawl) enqueue(u *url.URL, depth int, follow bool) {
	u = normal(u)
	key := u.String()
	switch {
	case c.seen[key] || depth > maxDepth || !c.wanted(u):
	case len(c.queue) > maxQueue*c.MaxPages:
		c.capped = true
	default:
		c.seen[key] = true
		c.queue = append(c.queue, page{u, depth, follow})
	}
}

// get requests a page when it is time to. It is requested again once if the server is busy.
func (c *crawl) get(ctx context.Context, u *url.URL, known entry) (*http.Response, error) {
	for again := false; ; again = true {
		if err := wait(ctx, c.delay-time.Since(c.last)); err != nil {
			return nil, err
		}
		c.last = time.Now()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		q.Header.Set("User-Agent", c.UserAgent)
		q.Header.Set("Accept", acceptedHeader)
		if known.Version != "" {
			q.Header.Set("If-None-Match", known.Version)
		}
		if known.Modified != "" {
			q.Header.Set("If-Modified-Since", known.Modified)
		}
		response, err := c.client.Do(q)
		if err != nil {
			return nil, requestError(err)
		}
		busy := response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if !busy || again || seconds <= 0 {
			return response, nil
		}
		_ = response.Body.Close()
		if err := wait(ctx, min(time.Duration(seconds)*time.Second, maxRetryAfter)); err != nil {
			return nil, err
		}
	}
}

// requestError returns the cause of an error of a client, without the address, which reports have.
func requestError(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visit fetches a page and finds its links. It returns an error when the crawl must end.
func (c *crawl) visit(ctx context.Context, p page) error {
	if !c.allowed(p.url) {
		c.r.note("robots.txt forbids some pages, such as %s", p.url)
		return nil
	}
	c.pages++
	c.Done = c.pages
	defer c.show()
	err := c.fetch(ctx, p)
	if err == nil {
		c.failed = 0
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if file, ok := c.known[p.url.String()]; ok {
		c.keep(file, p)
	}
	c.r.fail(p.url.String(), err)
	if total := (*totalError)(nil); errors.As(err, &total) {
		return err
	}
	if c.failed++; c.failed >= maxInARow {
		return fmt.Errorf("%s: %w", p.url, err)
	}
	return nil
}

// keep lists a file that stays as it is, and follows its links.
func (c *crawl) keep(file string, p page) {
	e, ok := c.m.entry(file)
	if !ok {
		return
	}
	c.listed[file] = true
	c.total += e.Size
	if !p.follow || !strings.HasSuffix(file, ".html") && !strings.HasSuffix(file, ".htm") {
		return
	}
	f, err := c.m.open(file)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	found := readLinks(bufio.NewReader(f), p.url)
	c.follow(found, p)
}

func (c *crawl) follow(found links, p page) {
	if !p.follow {
		return
	}
	for _, u := range found.to {
		if len(c.Include) > 0 || slices.ContainsFunc(c.below, func(dir string) bool { return strings.HasPrefix(u.Path, dir) }) {
			c.enqueue(u, p.depth+1, true)
		}
	}
}

// A totalError means that the site has more bytes than allowed.
type totalError struct{ limit int64 }

func (e *totalError) Error() string { return "the pages have more than " + byteSize(e.limit) }

// fetch fetches a page if it has changed.
func (c *crawl) fetch(ctx context.Context, p page) error {
	file := c.known[p.url.String()]
	known, ok := c.m.entry(file)
	if !ok || !c.m.has(file, known) {
		known = entry{}
	}
	response, err := c.get(ctx, p.url, known)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusNotModified && known.From != "":
		c.r.Unchanged++
		c.keep(file, p)
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return c.gone(file)
	case code != http.StatusOK:
		return fmt.Errorf("status %d", code)
	}
	if final := normal(response.Request.URL); final.String() != p.url.String() {
		if c.seen[final.String()] || !c.wanted(final) || !c.allowed(final) {
			return nil // the other page is or will be fetched, or it is not wanted
		}
		c.seen[final.String()] = true
		p.url = final
	}
	return c.store(response, p)
}

// gone removes the file of a page that the server says is gone.
func (c *crawl) gone(file string) error {
	if _, ok := c.m.entry(file); !ok || c.listed[file] {
		return nil
	}
	c.r.Removed++
	return c.m.remove(file)
}

// store writes a page, and finds its links.
func (c *crawl) store(response *http.Response, p page) error {
	ext, kind := extensionOf(response.Header.Get("Content-Type"), p.url.Path)
	if ext == "" {
		c.other[kind]++
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, c.Limits.File+1))
	if err != nil {
		return err
	}
	if n := response.ContentLength; n >= 0 && int64(len(text)) != n && !response.Uncompressed {
		return fmt.Errorf("%d bytes came in place of %d", len(text), n)
	}
	if int64(len(text)) > c.Limits.File {
		return &tooLargeError{"the page", c.Limits.File}
	}
	text = asUTF8(text, response.Header.Get("Content-Type"))
	address := p.url
	if ext == ".html" {
		found := readLinks(bytes.NewReader(text), p.url)
		c.follow(found, p)
		if found.canonical != nil && found.canonical.Host == c.host {
			address = found.canonical
		}
	}
	named := p.url
	if address.Path == p.url.Path {
		named = address // it differs in the query only: another view of the same page
	}
	file := fileOf(named, ext)
	if c.listed[file] {
		return nil
	}
	if c.total += int64(len(text)); c.total > c.Limits.Bytes {
		return &totalError{c.Limits.Bytes}
	}
	c.Bytes += int64(len(text))
	c.r.Bytes = c.Bytes
	c.listed[file] = true
	e := entry{
		Version: header(response, "ETag"), Modified: header(response, "Last-Modified"), Address: address.String(), From: p.url.String(),
	}
	c.r.Fetched++
	return c.m.put(file, e, bytes.NewReader(text), c.Limits.File+3)
}

// header returns a header that is sent back later, or "" if it is too long for that.
func header(r *http.Response, name string) string {
	if value := r.Header.Get(name); len(value) <= 1000 {
		return value
	}
	return ""
}

// asUTF8 converts a text whose header says that it is in another encoding, which no reader of the file
// would know.
func asUTF8(text []byte, contentType string) []byte {
	kind, parameters, err := mime.ParseMediaType(contentType)
	name := strings.ToLower(parameters["charset"])
	if err != nil || name == "" || name == "utf-8" || name == "us-ascii" || !strings.HasPrefix(kind, "text/") && kind != "application/xhtml+xml" {
		return text
	}
	encoding, _ := charset.Lookup(name)
	if encoding == nil {
		return text
	}
	converted, err := encoding.NewDecoder().Bytes(text)
	if err != nil {
		return text
	}
	return append([]byte("\ufeff"), converted...) // tells that it is UTF-8, whatever the page says
}

// ask asks for the pages that a crawl which was not complete did not find. Only those that the server
// says are gone are removed.
func (c *crawl) ask(ctx context.Context) error {
	for _, file := range sortedKeys(c.m.entries()) {
		e, ok := c.m.entry(file)
		u, err := url.Parse(e.From)
		if !ok || c.listed[file] || c.seen[e.From] || err != nil {
			continue
		}
		if !c.wanted(u) || !c.allowed(u) {
			c.r.Removed++
			if err := c.m.remove(file); err != nil {
				return err
			}
			continue
		}
		response, err := c.get(ctx, u, e)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if c.failed++; c.failed >= maxInARow {
				return fmt.Errorf("%s: %w", u, err)
			}
			continue
		}
		c.failed = 0
		_ = response.Body.Close()
		if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone {
			if err := c.gone(file); err != nil {
				return err
			}
		}
	}
	return nil
}
