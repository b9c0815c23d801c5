package rewrite

import (
	"strings"

	"sidenote/rewrite/chat"
)

// placement returns the effective placement: the policy's if the request and the model allow it,
// else another one. It is "" if there is no place at all.
func placement(r *Request, p *Policy, m *Model, last int) Placement {
	switch want := p.Placement; {
	case m.NoSystem && r.Empty: // in a message of its own
		return PlaceLastUser
	case m.NoSystem && last < 0:
		return ""
	case m.NoSystem:
		return PlaceLastUser
	case last >= 0 && (want == PlaceLastUser || want == PlaceSplit):
		return want
	case want == PlaceMarker && len(r.Markers()) > 0:
		return want
	}
	return PlaceSystem
}

// maxPlaces is the maximum number of places where a rewrite inserts text.
const maxPlaces = 2

// places are where text is inserted: the block's place and, under PlaceSplit, that of the sources
// after it.
type places struct {
	at [maxPlaces]chat.Place
	n  int
}

// findPlaces finds the places for the effective placement.
func (j *job) findPlaces() {
	r, at := j.req, &j.places.at
	j.places.n = 1
	switch j.placement {
	case PlaceLastUser:
		if j.last < 0 {
			at[0] = r.First("user")
		} else {
			at[0] = r.EndOf(j.last)
		}
	case PlaceSplit:
		at[0], at[1], j.places.n = r.System(), r.EndOf(j.last), 2
	case PlaceMarker:
		at[0] = r.AtMarker(r.Markers()[0])
	default:
		at[0] = r.System()
	}
}

// around returns the line feeds to put between the block and the application's text: two on each
// side, minus those that are already there.
func around(at chat.Frame, parts []part) (lead, trail string) {
	end := ""
	if at.After != "" {
		end = joined(parts)
	}
	behind := feedsAt(end, strings.TrimRight(end, "\n")) + feedsAt(at.After, strings.TrimLeft(at.After, "\n"))
	return feeds(at.Before, feedsAt(at.Before, strings.TrimRight(at.Before, "\n"))), feeds(at.After, behind)
}

func feedsAt(text, trimmed string) int { return len(text) - len(trimmed) }

func feeds(neighbour string, have int) string {
	if neighbour == "" {
		return ""
	}
	return "\n\n"[min(have, 2):]
}
