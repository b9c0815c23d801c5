package report

import "sidenote/proxy/answer"

// recordCitations counts the citations of an answer. c is nil if they were not checked.
func recordCitations(m *Metrics, c *answer.CitationReport) {
	if c == nil {
		return
	}
	m.citations.WithLabelValues("given").Add(float64(c.Times()))
	m.citations.WithLabelValues("unknown").Add(float64(c.Unknown))
	if c.Unread != "" {
		m.citationsUnread.WithLabelValues(string(c.Unread)).Inc()
	}
	for i := range c.Cited {
		if s := c.Cited[i].Support; s != nil {
			m.support.Observe(*s)
		}
	}
}
