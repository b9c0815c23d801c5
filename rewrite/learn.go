package rewrite

import "sidenote/rewrite/model"

// model looks up a model by name, narrows its window to the policy's and to the one observed at
// the upstream, and adds the calibration of the upstream's billing.
func (rw *Rewriter) model(p *Policy, name string) Model {
	m := rw.Models.Model(name)
	m.NoSystem = m.NoSystem || p.NoSystem
	if p.Window > 0 && (m.Window == 0 || p.Window < m.Window) {
		m.Window = p.Window
	}
	if rw.Calibration != nil {
		k := model.CalibrationKey{Tenant: p.Tenant, Upstream: p.Upstream, Row: m.Row, Name: name}
		m.Calibration = rw.Calibration.Correction(k)
		if served := rw.Calibration.Window(k); served > 0 && (m.Window == 0 || served < m.Window) {
			m.Window = served
		}
		if m.Window > 0 {
			m.Calibration = m.Calibration.Within(m.Window / 4)
		}
	}
	return m
}

// The first requests of a process, then one in sampleEvery, are compared with what the upstream
// bills for them.
const (
	firstSamples = 32
	sampleEvery  = 16
)

// Sample reports whether the answer to this request should be passed to Learn.
func (rw *Rewriter) Sample() bool {
	n := rw.samples.Add(1)
	return n <= firstSamples || n%sampleEvery == 0
}

// Calibrated is the result of Learn.
type Calibrated struct {
	Row     string                 // row of the model table
	Counted int                    // tokens counted for the whole request; 0 if nothing was learned
	Value   model.CalibrationValue // the correction now in force
	Absurd  bool                   // the billed number is impossible for that count and was ignored
	Model   string                 // as named in the request
	Window  int                    // observed at the upstream; 0 if unknown
}

// Learn counts a request as sent to an upstream and compares the count with the tokens billed for
// it. Requests with images or other files are ignored: they say nothing about how text is
// counted.
func (rw *Rewriter) Learn(tenant, upstream string, body []byte, billed int) (Calibrated, error) {
	req, err := Parse(body)
	if err != nil {
		return Calibrated{}, err
	}
	m := rw.Models.Model(req.Model)
	c := rw.costs.Count(req, m.Counting(), 0)
	if rw.Calibration == nil || c.Images > 0 {
		return Calibrated{Row: m.Row}, nil
	}
	k := model.CalibrationKey{Tenant: tenant, Upstream: upstream, Row: m.Row, Name: req.Model}
	taken := rw.Calibration.Observe(k, c.Sum(), billed)
	return Calibrated{Row: m.Row, Counted: c.Sum(), Value: rw.Calibration.Correction(k), Absurd: !taken, Model: req.Model, Window: rw.Calibration.Window(k)}, nil
}
