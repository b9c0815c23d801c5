package answer

import "bytes"

// A CacheMiss says why an upstream could not read a prompt from its cache. It has a closed set of
// values, so it can be a metrics label.
type CacheMiss string

// The values. Those of Anthropic's cache_miss_reason are its own words.
const (
	CacheMissFirst       CacheMiss = "first"   // there was no earlier request to compare with
	CacheMissNone        CacheMiss = "none"    // the prompt continues that of the earlier request
	CacheMissPending     CacheMiss = "pending" // the answer began before the comparison had ended
	CacheMissUnread      CacheMiss = "unread"  // the answer, as far as it was read, does not say
	CacheMissOther       CacheMiss = "other"   // a reason that is not in this list
	CacheMissModel       CacheMiss = "model_changed"
	CacheMissSystem      CacheMiss = "system_changed"
	CacheMissTools       CacheMiss = "tools_changed"
	CacheMissMessages    CacheMiss = "messages_changed"
	CacheMissNotFound    CacheMiss = "previous_message_not_found"
	CacheMissUnavailable CacheMiss = "unavailable"
)

// cacheMiss returns the value for a cache_miss_reason.
func cacheMiss(reason []byte) CacheMiss {
	switch c := CacheMiss(reason); c {
	case CacheMissModel, CacheMissSystem, CacheMissTools, CacheMissMessages, CacheMissNotFound, CacheMissUnavailable:
		return c
	}
	return CacheMissOther
}

// A CacheDiagnosis is what an answer of the messages route says about the upstream's cache.
type CacheDiagnosis struct {
	ID     string    // of the answer; "" if it was not read
	Reason CacheMiss // of a request with an earlier one to compare with
	Missed int64     // tokens that could have been read from the cache, as estimated by the upstream
}

// CacheDiagnosis returns the diagnosis in an answer of the messages route. Call it after Usage.
func (r *UsageReader) CacheDiagnosis() CacheDiagnosis {
	d := CacheDiagnosis{Reason: CacheMissUnread}
	begin := r.end
	if r.cut {
		begin = r.begin
	}
	if r.undecodable {
		return d
	}
	if !r.stream {
		d.read(&cursor{text: begin})
		if d.Reason == CacheMissUnread {
			d.readLast(r.end)
		}
		return d
	}
	for data := range All(begin) {
		c := cursor{text: data}
		c.object(func(name []byte) {
			if string(name) == "message" && c.peek() == '{' {
				d.read(&c)
			} else {
				c.skip()
			}
		})
		if d.ID != "" {
			break
		}
	}
	return d
}

// read reads a message, which may be cut.
func (d *CacheDiagnosis) read(c *cursor) {
	c.object(func(name []byte) {
		switch string(name) {
		case "id":
			if c.peek() == '"' {
				if id := c.str(); !c.bad && len(id) <= maxName {
					d.ID = string(id)
				}
				return
			}
		case "diagnostics":
			d.readMiss(c)
			return
		}
		c.skip()
	})
}

// readLast reads the diagnostics of a message that ends with text.
func (d *CacheDiagnosis) readLast(text []byte) {
	key := []byte(`"diagnostics"`)
	for end := len(text); ; {
		i := bytes.LastIndex(text[:end], key)
		if i < 1 {
			return
		}
		end = i
		c := cursor{text: text, i: i + len(key)}
		if b := text[i-1]; b == '\\' || !c.take(':') {
			continue
		}
		found := *d
		if found.readMiss(&c); !c.bad && depth(text[c.i:]) == 1 {
			*d = found
			return
		}
	}
}

// readMiss reads the value of diagnostics.
func (d *CacheDiagnosis) readMiss(c *cursor) {
	if c.peek() != '{' {
		c.skip()
		if !c.bad {
			d.Reason = CacheMissNone
		}
		return
	}
	found := CacheDiagnosis{Reason: CacheMissPending}
	c.object(func(name []byte) {
		if string(name) != "cache_miss_reason" || c.peek() != '{' {
			c.skip()
			return
		}
		found.Reason = CacheMissOther
		c.object(func(name []byte) {
			switch string(name) {
			case "type":
				if c.peek() == '"' {
					found.Reason = cacheMiss(c.str())
					return
				}
			case "cache_missed_input_tokens":
				if n, bad := c.number(); bad == "" {
					found.Missed = n
				}
				return
			}
			c.skip()
		})
	})
	if !c.bad {
		d.Reason, d.Missed = found.Reason, found.Missed
	}
}
