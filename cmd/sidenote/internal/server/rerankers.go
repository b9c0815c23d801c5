package server

import (
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/retrieval/services"
)

// addRerankers adds rerank services to made, and their clients to next.
func (p *Planners) addRerankers(made *proxy.Planners, asked map[proxy.RerankService]bool, upstreams map[string]proxy.Upstream, next map[string]client) {
	for service := range asked {
		u := upstreams[service.Upstream]
		if service.Dialect == services.RerankLLM {
			made.Judges[u.Name] = proxy.PlanUpstream{API: p.chats("rerank-llm", u, next), Base: u.BaseURL.String(), OwnHeader: proxy.OwnKey(u)}
			continue
		}
		made.Scorers[service] = clientOf(p, "rerank-"+string(service.Dialect), u, next, func() *services.Reranker {
			return services.NewReranker(services.RerankOptions{
				Name: u.Name, BaseURL: u.BaseURL, Dialect: service.Dialect, Key: u.APIKey.Reveal,
				Dial: u.Dial.DialContext, TLS: u.Dial.TLS(u.BaseURL.Hostname()), Others: config.ServiceBases(u.Others), Changed: p.options.Changed,
			})
		})
	}
}
