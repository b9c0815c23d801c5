package report

import "github.com/prometheus/client_golang/prometheus"

// WatchTenants registers a gauge for each configured tenant that is read at each scrape. Call it
// at the start of the process; it panics if the name is taken.
func (m *Metrics) WatchTenants(name, help string, value func(tenant string) float64) {
	m.registry.MustRegister(&ofTenants{prometheus.NewDesc("sidenote_"+name, help, []string{"tenant"}, nil), m, value})
}

// ofTenants collects a gauge of each tenant.
type ofTenants struct {
	desc    *prometheus.Desc
	metrics *Metrics
	value   func(tenant string) float64
}

// Describe implements prometheus.Collector.
func (o *ofTenants) Describe(out chan<- *prometheus.Desc) { out <- o.desc }

// Collect implements prometheus.Collector.
func (o *ofTenants) Collect(out chan<- prometheus.Metric) {
	for tenant := range *o.metrics.tenants.known.Load() {
		out <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, o.value(tenant), tenant)
	}
}
