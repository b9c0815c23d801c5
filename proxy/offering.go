package proxy

import (
	"encoding/json"
	"slices"
	"strings"

	"sidenote/proxy/answer"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
	"sidenote/rewrite/toolcalls"
)

// An Offering is what Sidenote adds to a request for its tools: the tools, or a text that
// describes them, and messages that the client has not seen.
type Offering struct {
	Names        map[string]tools.ToolName // Sidenote's tools, by the names under which they are offered
	GivenSources []json.RawMessage         // the sources of restored turns, as report.Tools.MarshalSources returned them

	req       *chat.Request
	policy    *tools.Policy
	asked     toolcalls.OfferRequest
	tools     rewrite.Edit   // offers them; none under the XML protocol
	lastTools []rewrite.Edit // the same in the last round
	text      string         // describes them, under the XML protocol
	place     chat.Place     // of the text
	restored  []rewrite.Edit
	history   *toolcalls.History // the client's; nil without kept
	kept      *toolcalls.TurnStore
	owner     toolcalls.TurnOwner
	nextID    int               // first source id that no restored turn uses
	messages  []json.RawMessage // of earlier rounds
	last      bool              // offer no more tools
	withdrawn bool              // add nothing at all
	base      []rewrite.Edit    // of the rewrite
}

// OfferTools offers the tools of a policy to the model of a request. If it cannot, refusal says
// why. knowledge lists the bases that the model may search. A model without function calling is
// offered the tools in text if it is known to handle that, or if the policy says so.
func OfferTools(req *chat.Request, p *tools.Policy, m model.Model, knowledge []string) (o *Offering, refusal toolcalls.OfferReason) {
	o = &Offering{req: req, policy: p, asked: toolcalls.ReadOffer(req), Names: map[string]tools.ToolName{}}
	uses := m.Tools.For(o.asked.Effort)
	textCalls := p.XML || uses == tokens.ToolXML
	switch {
	case o.asked.Refusal != "":
		return nil, o.asked.Refusal
	case p.MaxRounds < 2, len(knowledge) == 0:
		return nil, toolcalls.Unavailable
	case uses == tokens.ToolNone && !p.XML:
		return nil, toolcalls.Model
	case textCalls && !o.asked.CallsInText():
		return nil, toolcalls.InText
	case uses == tokens.ToolXML && !p.XML:
		inText := *p
		inText.XML = true
		p = &inText
		o.policy = p
	}
	defined := tools.Define(p.Offer, slices.DeleteFunc(slices.Clone(p.Bases), func(b tools.Base) bool { return !slices.Contains(knowledge, b.ID) }))
	if p.XML {
		for _, d := range defined {
			o.Names[string(d.Name)] = d.Name
		}
		o.text, o.place = tools.DescribeXML(defined), req.System()
		if _, last := req.Question(); m.NoSystem && last >= 0 {
			o.place = req.EndOf(last)
		}
		return o, ""
	}
	var kit []toolcalls.Tool
	for _, d := range defined {
		name := o.asked.Rename(string(d.Name))
		o.Names[name] = d.Name
		kit = append(kit, toolcalls.Tool{Name: name, Description: d.Description, Parameters: d.Parameters})
	}
	o.tools = o.asked.Tools(kit)
	o.lastTools = o.asked.LastTools(o.tools)
	return o, ""
}

// Policy returns the policy of the offered tools.
func (o *Offering) Policy() *tools.Policy { return o.policy }

// Rules returns the rules for reading answers, without Take.
func (o *Offering) Rules() answer.LoopRules {
	r := answer.LoopRules{
		API: o.req.API, Stateless: !o.req.History.Keeps(),
		HideText: o.hidesText(),
		Ours:     o.ours,
		MayStartOurs: func(name string) bool {
			for ours := range o.Names {
				if strings.HasPrefix(ours, name) {
					return !o.policy.XML
				}
			}
			return !o.policy.XML && (strings.HasPrefix(toolcalls.Prefix, name) || strings.HasPrefix(name, toolcalls.Prefix))
		},
	}
	if o.policy.XML {
		r.Text = func() answer.LoopTextReader { return newElements(o.policy.Offer) }
	}
	return r
}

// ours reports whether Sidenote answers calls of that name: those of its own tools, and those of
// unknown tools that cannot be the application's.
func (o *Offering) ours(name string) bool {
	switch {
	case o.policy.XML || name == "":
		return false
	case o.Names[name] != "":
		return true
	}
	return len(o.asked.Names) == 0 || strings.HasPrefix(name, toolcalls.Prefix) && !slices.Contains(o.asked.Names, name)
}

// hidesText reports whether the client does not get the text of rounds before the last.
func (o *Offering) hidesText() bool {
	return o.policy.HidePreamble || !o.req.TextFormat || o.asked.Logprobs
}

// Protecting returns a policy that escapes text in prompts that looks like a call.
func (o *Offering) Protecting(p rewrite.Policy) rewrite.Policy {
	if o.policy.XML {
		return p.Protecting(tools.XMLTags())
	}
	return p
}

// FirstSearchPolicy returns the policy for rewriting a request whose model can search.
func (o *Offering) FirstSearchPolicy(p rewrite.Policy) rewrite.Policy {
	if p.Empty() == rewrite.EmptyRefuse {
		p.OnEmpty = rewrite.EmptyPass // the model may find what this search did not
	}
	if !o.policy.FirstSearch {
		p.Knowledge = nil
	}
	return p
}

// AddEdits adds the edits of this round, and those that continue an earlier turn, to those of the
// rewrite.
func (o *Offering) AddEdits(edits, continued []rewrite.Edit) []rewrite.Edit {
	all := slices.Concat(edits, continued)
	if o.withdrawn {
		return rewrite.SortEdits(all)
	}
	o.base = edits
	if o.text != "" {
		all = o.describe(all)
	}
	all = append(all, o.restored...)
	if len(o.messages) > 0 {
		all = o.asked.Messages(all, o.messages)
	}
	return rewrite.SortEdits(append(all, o.toolEdits()...))
}

// toolEdits returns the edits that offer the tools in this round.
func (o *Offering) toolEdits() []rewrite.Edit {
	switch {
	case o.text != "":
		return nil
	case o.last:
		return o.lastTools
	}
	return []rewrite.Edit{o.tools}
}

// describe adds the text about tools after the application's text and after what the rewrite adds
// there.
func (o *Offering) describe(edits []rewrite.Edit) []rewrite.Edit {
	place := o.place
	for i := range edits {
		if e := &edits[i]; e.Offset == place.Offset && e.Insert.Len() > 0 {
			e.Insert = rewrite.EditText{place.Extended(e.Insert.Append(nil), "\n"+o.text)}
			return edits
		}
	}
	lead := ""
	if !place.Added {
		lead = "\n\n"
	}
	return append(edits, rewrite.Edit{Name: toolcalls.EditTools, Offset: place.Offset, Delete: place.Remove, Insert: rewrite.EditText{place.JSON([]string{lead + o.text})}})
}

// Withdraw makes AddEdits add nothing to the next round, which is the last, because the upstream
// refuses it.
func (o *Offering) Withdraw() { o.withdrawn = true }

// Withdrawn reports whether Withdraw was called.
func (o *Offering) Withdrawn() bool { return o.withdrawn }

// HasAppTools reports whether the request also has tools of the application.
func (o *Offering) HasAppTools() bool { return len(o.asked.Names) > 0 }

// HasRestored reports whether turns of earlier requests were restored.
func (o *Offering) HasRestored() bool { return len(o.restored) > 0 }

// Next moves the offering to the next round and returns the edits of its body.
func (o *Offering) Next(messages []json.RawMessage, last bool) []rewrite.Edit {
	o.messages, o.last = messages, last
	return o.base
}

// Tokens counts the tokens added to the rewritten request.
func (o *Offering) Tokens(c retrieval.Counter) int64 {
	if o.withdrawn {
		return 0
	}
	n := count(c, o.restored) + countText(c, []byte(o.text)) + count(c, o.toolEdits())
	for _, message := range o.messages {
		n += countText(c, message)
	}
	return n
}

// count counts the tokens that edits insert.
func count(c retrieval.Counter, edits []rewrite.Edit) (n int64) {
	for i := range edits {
		n += countText(c, edits[i].Insert.Append(nil))
	}
	return n
}

func countText(c retrieval.Counter, text []byte) int64 {
	n, _ := c.Count(string(text))
	return int64(n)
}
