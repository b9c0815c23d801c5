package rewrite

import "sidenote/rewrite/calibration"

// model resolves a model's name, with what is known of it at the policy's upstream.
func (rw *Rewriter) model(p *Policy, name string) Model {
	m := rw.Models.Model(name)
	if p.Window > 0 && (m.Window == 0 || p.Window < m.Window) {
		m.Window = p.Window
	}
	if rw.Calibration != nil {
		m.Calibration = rw.Calibration.Of(calibration.Key{Tenant: p.Tenant, Upstream: p.Upstream, Row: m.Row, Name: name})
		if m.Window > 0 {
			m.Calibration = m.Calibration.Within(m.Window / 4)
		}
	}
	return m
}

// Of the requests of a process the first ones and then one of so many are compared
// with what is billed for them.
const (
	firstSamples = 32
	sampleEvery  = 16
)

// Sample tells whether this request is one to Learn from.
func (rw *Rewriter) Sample() bool {
	n := rw.samples.Add(1)
	return n <= firstSamples || n%sampleEvery == 0
}

// Calibrated is what an answer changed of a calibration.
type Calibrated struct {
	Row     string            // of the model table
	Counted int               // tokens of the whole request; 0: it holds more than text
	Value   calibration.Value // in force by now
	Absurd  bool              // what was billed cannot be, beside what was counted, and was ignored
}

// Learn counts a request as it went up from a tenant to an upstream, and compares that with the
// tokens that were billed for it. Requests with images and other files say nothing
// of how text is counted.
func (rw *Rewriter) Learn(tenant, upstream string, body []byte, billed int) (Calibrated, error) {
	req, err := Parse(body)
	if err != nil {
		return Calibrated{}, err
	}
	m := rw.Models.Model(req.Model)
	c := rw.costs.weigher(&m).cost(req)
	if rw.Calibration == nil || c.Images > 0 {
		return Calibrated{Row: m.Row}, nil
	}
	k := calibration.Key{Tenant: tenant, Upstream: upstream, Row: m.Row, Name: req.Model}
	taken := rw.Calibration.Observe(k, c.sum(), billed)
	return Calibrated{Row: m.Row, Counted: c.sum(), Value: rw.Calibration.Of(k), Absurd: !taken}, nil
}
