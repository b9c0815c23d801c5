package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TenantSeries says which tenants have series of their own; the others are counted together, as
// OtherName. The zero value is all.
type TenantSeries struct {
	Off bool // none
	Top int  // the busiest, at most this many; 0: all
}

const (
	rankEvery = time.Minute // least time between two rankings
	loadHalf  = time.Hour   // after which a request counts half in a ranking
	overtake  = 1.2         // by which factor a tenant must be busier to take the place of another
)

// A ranking decides which tenants have series of their own. A tenant gets a free place with its first
// request. Otherwise it takes the place of the least busy one, at a scrape, if it is busier by a
// fifth; requests count half after an hour.
//
// A tenant's request is counted either in its own series or in those of OtherName, and both only grow:
// a tenant that loses its place keeps its series, which are not exposed until it has a place again.
type ranking struct {
	places int
	shown  atomic.Pointer[map[string]struct{}] // the map is immutable
	loads  sync.Map                            // tenant → *load

	mu     sync.Mutex // held to change shown, and for the fields below
	ranked time.Time
}

// A load says how busy a tenant is.
type load struct {
	requests atomic.Uint64
	counted  uint64  // requests at the last ranking
	score    float64 // of the last ranking
}

func newRanking(places int) *ranking {
	r := &ranking{places: places}
	r.shown.Store(&map[string]struct{}{})
	return r
}

// has reports whether a tenant has a place.
func (r *ranking) has(tenant string) bool {
	_, ok := (*r.shown.Load())[tenant]
	return ok
}

// requested counts a request of a configured tenant.
func (r *ranking) requested(tenant string) {
	if l, ok := r.loads.Load(tenant); ok {
		l.(*load).requests.Add(1)
		return
	}
	l, _ := r.loads.LoadOrStore(tenant, new(load))
	l.(*load).requests.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if shown := *r.shown.Load(); len(shown) < r.places && !r.has(tenant) {
		r.show(append(slices.Collect(maps.Keys(shown)), tenant))
	}
}

func (r *ranking) show(tenants []string) {
	shown := make(map[string]struct{}, len(tenants))
	for _, tenant := range tenants {
		shown[tenant] = struct{}{}
	}
	r.shown.Store(&shown)
}

// rank gives places to busier tenants.
func (r *ranking) rank(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed := now.Sub(r.ranked)
	if passed < rankEvery {
		return
	}
	r.ranked = now
	type scored struct {
		tenant string
		score  float64
	}
	var in, out []scored
	r.loads.Range(func(tenant, of any) bool {
		l, requests := of.(*load), of.(*load).requests.Load()
		l.score = l.score*math.Exp2(-passed.Hours()/loadHalf.Hours()) + float64(requests-l.counted)
		l.counted = requests
		if s := (scored{tenant.(string), l.score}); r.has(s.tenant) {
			in = append(in, s)
		} else {
			out = append(out, s)
		}
		return true
	})
	byScore := func(a, b scored) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.tenant, b.tenant)) }
	slices.SortFunc(in, byScore)
	slices.SortFunc(out, func(a, b scored) int { return byScore(b, a) })
	changed := false
	for i := 0; i < min(len(in), len(out)) && out[i].score > overtake*in[i].score; i++ {
		in[i], changed = out[i], true
	}
	if !changed {
		return
	}
	var tenants []string
	for _, s := range in {
		tenants = append(tenants, s.tenant)
	}
	r.show(tenants)
}

// tenantNames are the names of tenants, of which not all may have series of their own.
type tenantNames struct {
	*names
	series  TenantSeries
	ranking *ranking // nil unless series has a Top
}

func newTenantNames(list []string, overflow prometheus.Counter, series TenantSeries) *tenantNames {
	t := &tenantNames{names: newNames(list, overflow), series: series}
	if !series.Off && series.Top > 0 {
		t.ranking = newRanking(series.Top)
	}
	return t
}

// all reports whether every tenant has series of its own.
func (t *tenantNames) all() bool { return !t.series.Off && t.ranking == nil }

// own reports whether a configured tenant has series of its own.
func (t *tenantNames) own(tenant string) bool {
	return t.all() || t.ranking != nil && t.ranking.has(tenant)
}

// configured reports whether a tenant is.
func (t *tenantNames) configured(tenant string) bool {
	_, ok := (*t.known.Load())[tenant]
	return ok
}

// label returns tenant if it has series of its own, else OtherName.
func (t *tenantNames) label(tenant string) string {
	if label := t.names.label(tenant); label == OtherName || t.own(label) {
		return label
	}
	return OtherName
}

// requested counts a request of a tenant.
func (t *tenantNames) requested(tenant string) {
	if t.ranking != nil && t.configured(tenant) {
		t.ranking.requested(tenant)
	}
}

// key returns the name under which the series of a tenant are cached: that of the tenant, or OtherName
// if it is configured but has none of its own.
func (t *tenantNames) key(tenant string) string {
	if t.all() || !t.configured(tenant) || t.own(tenant) {
		return tenant
	}
	return OtherName
}

// labelOf returns the label of a tenant for which key returned k, and whether its series can be cached
// under k.
func (t *tenantNames) labelOf(tenant, k string) (label string, remember bool) {
	if t.configured(tenant) {
		return k, true
	}
	return t.names.label(tenant), false
}

// highest returns values by label: those of tenants without series of their own are replaced by the
// highest of them.
func (t *tenantNames) highest(values map[string]float64) map[string]float64 {
	if t.all() {
		return values
	}
	folded := map[string]float64{}
	for tenant, v := range values {
		label := OtherName
		if t.own(tenant) {
			label = tenant
		}
		if most, ok := folded[label]; !ok || v > most {
			folded[label] = v
		}
	}
	return folded
}

// Gather implements prometheus.Gatherer. It leaves out series of tenants that have none of their own
// now.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	ranking := m.tenants.ranking
	if ranking == nil {
		return m.registry.Gather()
	}
	ranking.rank(time.Now())
	families, err := m.registry.Gather()
	for _, f := range families {
		f.Metric = slices.DeleteFunc(f.Metric, func(one *dto.Metric) bool {
			for _, l := range one.GetLabel() {
				if l.GetName() == "tenant" {
					return l.GetValue() != OtherName && !ranking.has(l.GetValue())
				}
			}
			return false
		})
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 }), err
}
