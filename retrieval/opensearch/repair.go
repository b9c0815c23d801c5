package opensearch

import (
	"context"
)

// repair makes the chunks agree with the documents' records: chunks of a version that no record
// has are removed, those of the version that the next generation shows do not end, and
// others end with it.
func (l *lease) repair(ctx context.Context) error {
	shown, kept, err := l.versions(ctx)
	if err != nil {
		return err
	}
	index := l.server.chunksOf(l.base)
	var revive, end []string
	b := l.bulk(index)
	body := object{
		"size": 5000, "track_total_hits": false, "query": object{"match_all": object{}},
		"sort": []object{{"doc": "asc"}, {"born": "asc"}, {"ordinal": "asc"}}, "_source": []string{"doc", "born", "ordinal", "died"},
	}
	for {
		p, err := l.server.page(ctx, index, body)
		if err != nil {
			return err
		}
		for _, h := range p.hits {
			doc, born, died := h.source.Get("doc").Str, h.source.Get("born").Int(), h.source.Get("died").Int()
			v := shown[doc]
			isShown := v.born == born && int(h.source.Get("ordinal").Int()) < v.chunks
			switch {
			case isShown && died <= l.state.Next:
				revive = append(revive, h.id)
			case isShown || died <= l.state.Next && kept[doc] == born:
			case kept[doc] == born:
				end = append(end, h.id)
			default:
				if err := b.delete(ctx, h.id); err != nil {
					return err
				}
			}
		}
		if len(p.hits) < 5000 {
			break
		}
		body["search_after"] = p.hits[len(p.hits)-1].sortValues()
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if err := l.setDied(ctx, revive, never); err != nil {
		return err
	}
	if err := l.setDied(ctx, end, l.state.Next); err != nil {
		return err
	}
	return l.refresh(ctx, index)
}

type shownVersion struct {
	born   int64
	chunks int
}

// versions returns the versions that the next generation shows, and the generations of those that
// the current one shows and the next does not, by document.
func (l *lease) versions(ctx context.Context) (shown map[string]shownVersion, kept map[string]int64, err error) {
	shown, kept = map[string]shownVersion{}, map[string]int64{}
	query := object{"match_all": object{}}
	for r, err := range l.scan(ctx, l.server.documentsOf(l.base), query, "new.terms", "new.texts", "new.total", "old.terms", "old.texts", "old.total") {
		if err != nil {
			return nil, nil, err
		}
		id := idOf(r.Doc)
		if v := r.visible(l.state.Next); v != nil {
			shown[id] = shownVersion{v.Born, v.Chunks}
		}
		if v := r.visible(l.state.Current); v != nil {
			kept[id] = v.Born
		}
	}
	return shown, kept, nil
}
