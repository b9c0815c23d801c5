package rewrite

import "sidenote/rewrite/model"

// See package model.
type (
	Model  = model.Model
	Window = model.Window
)

// measureWindow computes how much of the window the request leaves.
func (j *job) measureWindow() {
	p := j.policy
	j.window = j.model.Measure(j.req, &j.messages, model.Limits{ContextTokens: p.ContextTokens, ReserveOutput: p.ReserveOutputTokens, CountWhole: p.CountWhole})
}

// budget returns how many tokens may be added.
func (j *job) budget() int {
	if j.window.Limits {
		return max(j.window.Room, 0)
	}
	return j.model.Allowed(j.policy.ContextTokens)
}

// noRoom returns the reason if nothing could be added.
func (j *job) noRoom() Reason {
	if j.window.Limits {
		return ReasonWindow
	}
	return ReasonBudget
}
