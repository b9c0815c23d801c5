package config

import (
	"time"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A Policy says how a tenant's requests are handled. In a file a policy holds only the differences
// from the one it extends; in a Config it is complete.
type Policy struct {
	Treatment       `yaml:",inline"`
	Spending        `yaml:",inline"`
	Extends         Name           `yaml:"extends,omitempty"`
	Upstream        Name           `yaml:"upstream,omitempty"`
	Knowledge       []Name         `yaml:"knowledge,omitempty,flow"`
	Filters         []Filter       `yaml:"filters,omitempty"` // on documents; all of them apply
	MaxRewriteBytes Bytes          `yaml:"max_rewrite_bytes" min:"1KiB" max:"1GiB"`
	Routes          []Route        `yaml:"routes,omitempty"`
	Models          []modelPattern `yaml:"models,omitempty,flow"` // that requests may name; absent: all
	// CacheDiagnostics is the share of the conversations for which the upstream is asked why it did
	// not read a prompt from its cache.
	CacheDiagnostics percentage `yaml:"cache_diagnostics"`
	Record           Record     `yaml:"record,omitempty"`
	Overrides        []Override `yaml:"overrides,omitempty"`
	Experiment       Experiment `yaml:"experiment,omitempty"`
}

// A Treatment says how a chat is handled. Overrides of a policy can change it.
type Treatment struct {
	Mode               string             `yaml:"mode" of:"off|shadow|inject|tools|staged"`
	Placement          rewrite.Placement  `yaml:"placement" of:"system|last_user|split|marker|auto"`
	CacheMarks         rewrite.CacheMarks `yaml:"cache_marks,omitempty" of:"auto|off"`
	CacheGuard         string             `yaml:"cache_guard" of:"off|warn|switch"`     // if sources break the upstream's prompt cache
	History            rewrite.History    `yaml:"history" of:"auto|instructions|input"` // of Responses requests
	ContextTokens      Count              `yaml:"context_tokens" min:"1" max:"10M"`
	ReserveOutput      Count              `yaml:"reserve_output_tokens,omitempty" min:"1" max:"10M"`
	Template           rewrite.Template   `yaml:"template,omitempty"`
	Components         []Component        `yaml:"components,omitempty"`
	Chunks             Chunks             `yaml:"chunks"`
	Renderers          []renderer         `yaml:"renderers,omitempty"`
	Order              rewrite.Order      `yaml:"order" of:"priority|declared|edges"`
	ComponentsFormat   string             `yaml:"components_format" of:"tags|headings"`
	Sources            SourcesComponent   `yaml:"sources"`
	SourceAttributes   []string           `yaml:"source_attributes,flow" of:"id|type|kb_id|doc_id|name|section|date"`
	Rules              string             `yaml:"rules" of:"on|off"` // whether Sidenote's rules precede the sources, or stand in the template
	Citations          rewrite.Citations  `yaml:"citations" of:"auto|on|off"`
	Annotations        annotations        `yaml:"annotations"`
	Grounding          rewrite.Grounding  `yaml:"grounding" of:"default|strict"`
	Escape             rewrite.Escape     `yaml:"escape" of:"tags|all"`
	MinTruncatedTokens Count              `yaml:"min_truncated_tokens" min:"1" max:"1M"`
	Skip               Skip               `yaml:"skip"` // background calls
	Planner            Planner            `yaml:"planner"`
	Retrieval          Retrieval          `yaml:"retrieval"`
	Rerank             rerank             `yaml:"rerank"`
	Grade              grade              `yaml:"grade"`
	Tools              Tools              `yaml:"tools"`  // for mode tools
	Stages             Stages             `yaml:"stages"` // for mode staged
	OnEmpty            rewrite.OnEmpty    `yaml:"on_empty,omitempty" of:"pass|notice|refuse"`
	EmptyAnswer        string             `yaml:"empty_answer"`
	OnFailure          OnFailure          `yaml:"on_failure"`
	Expose             report.Expose      `yaml:"expose" of:"none|ids|names"`
}

// A Component is a named text that competes for the token budget.
type Component struct {
	Name        Name     `yaml:"name" need:"true"`
	Text        string   `yaml:"text" need:"true"`
	Priority    Priority `yaml:"priority"`
	Truncatable bool     `yaml:"truncatable"`
}

// SetDefaults sets the defaults of a component, the same as in a request.
func (c *Component) SetDefaults() { c.Priority, c.Truncatable = rewrite.PriorityMedium, true }

// SourcesComponent places the sources among the components.
type SourcesComponent struct {
	Priority   Priority `yaml:"priority"`
	Format     string   `yaml:"format" of:"tags|plain|search_result"`
	Order      string   `yaml:"order" of:"relevance|edges|document"`  // of the sources themselves
	Neighbours string   `yaml:"neighbours" of:"adjacent|section|off"` // chunks added next to a source if there is room
	Repeat     string   `yaml:"repeat" of:"fresh|keep"`               // whether a follow-up gets the sources of earlier turns again
}

// formatTags is the default format of components and sources. It is passed on as "", so that it
// does not change the hash of a policy.
const formatTags = "tags"

func formatOf(s string) string {
	if s == formatTags {
		return ""
	}
	return s
}

// These defaults are passed on as zero values, so that they do not change the hash of a policy.
const (
	sourcesByRelevance = "relevance"
	adjacentNeighbours = "adjacent"
	freshSources       = "fresh"
)

func (s SourcesComponent) order() rewrite.SourceOrder {
	if s.Order == sourcesByRelevance {
		return rewrite.SourcesByRelevance
	}
	return rewrite.SourceOrder(s.Order)
}

func (s SourcesComponent) neighbours() rewrite.Neighbours {
	if s.Neighbours == adjacentNeighbours {
		return rewrite.NeighboursAdjacent
	}
	return rewrite.Neighbours(s.Neighbours)
}

func (s SourcesComponent) repeat() rewrite.Repeat {
	if s.Repeat == freshSources {
		return rewrite.RepeatFresh
	}
	return rewrite.Repeat(s.Repeat)
}

// Retrieval configures the search.
type Retrieval struct {
	Deadline       time.Duration `yaml:"deadline" min:"1ms" max:"1m"`
	TopK           Count         `yaml:"top_k" min:"1" max:"100"`
	NumCandidates  Count         `yaml:"num_candidates" min:"1" max:"1000"`
	ScoreThreshold threshold     `yaml:"score_threshold"`
	MaxPerDocument Count         `yaml:"max_per_document" min:"1" max:"100"`
	MaxVariants    Count         `yaml:"max_variants" min:"1" max:"100"`
	Versions       string        `yaml:"versions" of:"newest|all|off"`
	Synonyms       string        `yaml:"synonyms"`     // a file, relative to the one that names it, synonymsDefault, or off
	DenseWeight    weight        `yaml:"dense_weight"` // share of the vector score, in bases with vectors
	Fusion         string        `yaml:"fusion" of:"distribution|rrf"`
}

// The ways to fuse result lists.
const (
	fusionDistribution = "distribution"
	fusionRRF          = "rrf"
)

// fusion converts Fusion for package retrieval.
func (r Retrieval) fusion() retrieval.Fusion {
	if r.Fusion == fusionRRF {
		return retrieval.FusionRanks
	}
	return retrieval.FusionScores
}

// guardWarn is the default of Treatment.CacheGuard.
const guardWarn = "warn"

// cacheGuard converts CacheGuard for package tenant.
func (t Treatment) cacheGuard() tenant.CacheGuard {
	if t.CacheGuard == guardWarn {
		return tenant.GuardWarn
	}
	return tenant.CacheGuard(t.CacheGuard)
}

// versionsNewest is the default of Retrieval.Versions.
const versionsNewest = "newest"

// versions converts Versions for package retrieval.
func (r Retrieval) versions() retrieval.Versions {
	if r.Versions == versionsNewest {
		return retrieval.VersionsNewest
	}
	return retrieval.Versions(r.Versions)
}

// OnFailure says what happens when something fails.
type OnFailure struct {
	Retrieval     string `yaml:"retrieval" of:"pass|refuse"`     // the search failed and found nothing
	Partial       string `yaml:"partial" of:"pass|refuse"`       // the search failed in part but found something
	ContextLength string `yaml:"context_length" of:"retry|pass"` // the upstream finds the request too long
	Stage         string `yaml:"stage" of:"degrade|refuse"`      // a stage of mode staged failed
}

// DefaultPolicy returns the policy that applies if none is configured.
func DefaultPolicy() Policy {
	p := rewrite.DefaultPolicy()
	return Policy{MaxRewriteBytes: 32 << 20, Spending: Spending{Ladder: defaultLadder()}, Treatment: Treatment{
		Mode:               p.Mode.String(),
		Placement:          p.Placement,
		CacheGuard:         guardWarn,
		History:            p.History,
		ContextTokens:      Count(p.ContextTokens),
		Chunks:             defaultChunks(),
		Order:              p.Order,
		Sources:            SourcesComponent{Priority: Priority(p.Sources.Priority), Format: formatTags, Order: sourcesByRelevance, Neighbours: adjacentNeighbours, Repeat: freshSources},
		ComponentsFormat:   formatTags,
		SourceAttributes:   p.SourceAttributes,
		Rules:              "on",
		Citations:          p.Citations,
		Annotations:        defaultCitations(),
		Grounding:          p.Grounding,
		Escape:             p.Escape,
		MinTruncatedTokens: Count(p.MinTruncatedTokens),
		Skip:               defaultSkip(),
		Planner:            defaultPlanner(),
		Retrieval: Retrieval{
			Deadline: p.Search.Deadline, TopK: Count(p.Search.TopK), NumCandidates: Count(p.Search.NumCandidates),
			ScoreThreshold: threshold(p.Search.ScoreThreshold), MaxPerDocument: Count(p.Search.MaxPerDocument),
			MaxVariants: Count(p.Search.MaxVariants), Versions: versionsNewest, Synonyms: synonymsDefault,
			Fusion: fusionDistribution,
		},
		Rerank:      defaultRerank(),
		Grade:       defaultGrade(),
		Tools:       defaultTools(),
		Stages:      defaultStages(),
		EmptyAnswer: p.EmptyAnswer,
		OnFailure:   OnFailure{Retrieval: "pass", Partial: "pass", ContextLength: "retry", Stage: "degrade"},
		Expose:      report.ExposeNames,
	}}
}

// rewritePolicy returns the part for package rewrite.
func (p Policy) rewritePolicy(tenant Name) rewrite.Policy {
	mode, err := rewrite.ParseMode(p.Mode)
	if err != nil {
		panic("BUG: mode was not checked: " + p.Mode)
	}
	out := rewrite.Policy{
		Tenant: string(tenant), Upstream: string(p.Upstream), Mode: mode, Knowledge: Texts(p.Knowledge), Filter: allFilters(p.Filters),
		Search: retrieval.Settings{
			TopK: int(p.Retrieval.TopK), NumCandidates: int(p.Retrieval.NumCandidates), MaxPerDocument: int(p.Retrieval.MaxPerDocument),
			MaxVariants: int(p.Retrieval.MaxVariants), Versions: p.Retrieval.versions(),
			ScoreThreshold: float64(p.Retrieval.ScoreThreshold), Deadline: p.Retrieval.Deadline,
			DenseWeight: float64(p.Retrieval.DenseWeight), Fusion: p.Retrieval.fusion(),
		},
		Skip: p.Skip.policy(), Planner: p.Planner.settings(), Chunks: chunksPolicy(p.Chunks, p.Renderers),
		Placement: p.Placement, CacheMarks: p.CacheMarks, History: p.History, ContextTokens: int(p.ContextTokens), ReserveOutputTokens: int(p.ReserveOutput), Template: p.Template,
		Sources: rewrite.Component{Name: rewrite.SourcesName, Priority: int(p.Sources.Priority), Truncatable: true},
		Order:   p.Order,
		Style: rewrite.Style{
			ComponentsFormat: rewrite.ComponentsFormat(formatOf(p.ComponentsFormat)), SourcesFormat: rewrite.SourcesFormat(formatOf(p.Sources.Format)),
			SourceOrder: p.Sources.order(), Neighbours: p.Sources.neighbours(), Repeat: p.Sources.repeat(), NoRules: p.Rules == Off, Citations: p.Citations, Grounding: p.Grounding,
			SourceAttributes: p.SourceAttributes, Escape: p.Escape,
		},
		MinTruncatedTokens: int(p.MinTruncatedTokens),
		OnEmpty:            p.OnEmpty, EmptyAnswer: p.EmptyAnswer, RefuseOnFailure: p.OnFailure.Retrieval == "refuse",
		RefuseOnPartial: p.OnFailure.Partial == "refuse",
	}
	for _, c := range p.Components {
		out.Components = append(out.Components, rewrite.Component{
			Name: string(c.Name), Text: c.Text, Priority: int(c.Priority), Truncatable: c.Truncatable,
		})
	}
	return out
}

// Texts converts names, patterns and the like to strings.
func Texts[T ~string](list []T) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// AllDefault says that a policy can be written as {}.
func (*Policy) AllDefault() {}

// DefaultHybrid returns the DenseWeight and the Fusion of the policy default, which a search for no
// tenant uses; zero values if there is no such policy.
func DefaultHybrid(c *Config) retrieval.Settings {
	p, ok := c.Policies[defaultName]
	if !ok {
		return retrieval.Settings{}
	}
	return retrieval.Settings{DenseWeight: float64(p.Retrieval.DenseWeight), Fusion: p.Retrieval.fusion()}
}
