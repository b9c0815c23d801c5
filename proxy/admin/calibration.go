package admin

import "github.com/valyala/fasthttp"

// A calibrated says how an upstream counts the tokens of a model, as learnt from its answers.
type calibrated struct {
	Tenant      string  `json:"tenant"`
	Upstream    string  `json:"upstream"`
	Row         string  `json:"row"`   // of the model table
	Model       string  `json:"model"` // as named in requests; "" for many names
	Samples     int     `json:"samples"`
	InForce     bool    `json:"in_force"`           // false if there are too few samples; the fields below are then 0
	Ratio       float64 `json:"ratio"`              // tokens billed per token counted, median
	RatioUpper  float64 `json:"ratio_upper_bound"`  // factor for estimates; 0 if unknown
	Offset      int     `json:"offset"`             // tokens billed in addition to those counted, median
	OffsetUpper int     `json:"offset_upper_bound"` // reserved in addition to a count
	Window      int     `json:"served_window"`      // at which prompts are truncated; 0 if no truncation was seen
}

// calibration returns what was learnt about how upstreams count tokens.
func (h *Handler) calibration(ctx *fasthttp.RequestCtx) error {
	list := struct {
		Object string       `json:"object"`
		Data   []calibrated `json:"data"`
	}{"list", []calibrated{}}
	if h.Rewriter.Calibration != nil {
		for _, e := range h.Rewriter.Calibration.All() {
			list.Data = append(list.Data, calibrated{
				Tenant: e.Tenant, Upstream: e.Upstream, Row: e.Row, Model: e.Name, Samples: e.Samples, InForce: e.Value.Ratio > 0,
				Ratio: e.Value.Ratio, RatioUpper: e.Value.RatioUpper, Offset: e.Value.Offset, OffsetUpper: e.Value.OffsetUpper,
				Window: h.Rewriter.Calibration.Window(e.CalibrationKey),
			})
		}
	}
	return writeJSON(ctx, fasthttp.StatusOK, list)
}
