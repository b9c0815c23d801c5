package experiment_test

import (
	"context"
	"testing"

	"sidenote/proxy/experiment"
)

// A replica that knows a text such as "Yes" of another conversation asks the others for what tells more. It
// asks nobody about a conversation whose turns it has seen itself.
func TestOtherReplicasKnowConversationsBetter(t *testing.T) {
	both := &shared{units: map[string]experiment.Key{}}
	one, two := experiment.Conversations{Shared: both}, experiment.Conversations{Shared: both}
	of := func(c *experiment.Conversations, turn *experiment.Turn) experiment.Key {
		t.Helper()
		unit, ok := c.Of(t.Context(), "acme", turn)
		if !ok {
			t.Errorf("%+v has no conversation", turn)
		}
		return unit
	}
	const yes, other, first, second, third = 1, 10, 20, 21, 22
	const otherPair, firstPair, secondPair = 30, 31, 32
	of(&one, &experiment.Turn{First: other, Messages: []experiment.Key{other}})
	of(&one, &experiment.Turn{First: other, Messages: []experiment.Key{yes, other}, Pairs: []experiment.Key{otherPair}})

	of(&two, &experiment.Turn{First: first, Messages: []experiment.Key{first}})
	of(&two, &experiment.Turn{First: first, Messages: []experiment.Key{yes, first}, Pairs: []experiment.Key{firstPair}})
	next := &experiment.Turn{First: first, Messages: []experiment.Key{second, yes, first}, Pairs: []experiment.Key{secondPair, firstPair}}
	if got := of(&one, next); got != first {
		t.Errorf("the third turn is of conversation %v, want %v", got, experiment.Key(first))
	}

	two.Shared = nobody{t}
	last := &experiment.Turn{First: first, Messages: []experiment.Key{third, second, yes, first}, Pairs: []experiment.Key{33, secondPair, firstPair}}
	if got := of(&one, last); got != first {
		t.Errorf("the fourth turn is of conversation %v", got)
	}
	if got := of(&two, last); got != first {
		t.Errorf("the fourth turn is of conversation %v where the first ones were", got)
	}
}

// nobody is a Shared that must not be asked.
type nobody struct{ t *testing.T }

func (n nobody) Each(context.Context, string, string, []string, func(int, experiment.Key) bool) {
	n.t.Error("other replicas are asked")
}

func (nobody) Keep(context.Context, string, string, string, experiment.Key) {}
