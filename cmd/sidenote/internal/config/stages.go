package config

import (
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// checkStages refuses a chain that cannot run, at the key where it is written.
func checkStages(c checker, policy string, t Treatment) {
	s, key := t.Stages, policy+".stages"
	_, written := c.places[key+".chain"]
	switch {
	case len(s.Chain) > 0 && written:
	case len(s.Chain) == 0 && t.Mode == rewrite.Staged.String() && !refused(c.Config, key) && !refused(c.Config, key+".chain"):
		c.problem(key, "is missing; name a preset, %s, or list the stages", strings.Join(staged.Presets(), ", "))
		return
	default:
		return
	}
	if at, why := s.Wrong(t.Template.TagNames()); why != "" && !refused(c.Config, strictyaml.Join(key, at)) { // a missing prompt was reported
		c.problem(strictyaml.Join(key, at), "%s", why)
	}
	for i, stage := range s.Chain {
		at := key + ".chain[" + itoa(i) + "]"
		if stage.Upstream != "" && known(c.Config, at+".upstream", "upstream", stage.Upstream, c.upstreams()) && stage.Model == "" {
			c.problem(at+".model", "is missing; name the model of upstream %q that the stage asks", stage.Upstream)
		}
		if _, written := c.places[at+".draft"]; written && !stage.Draft && i+1 < len(s.Chain) && s.Chain[i+1].When.StopIf != "" {
			c.problem(at+".draft", "is false, and the output is the answer where stop_if of stage %q ends the chain", s.Chain[i+1].Name)
		}
	}
}
