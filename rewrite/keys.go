package rewrite

import (
	"bytes"
	"fmt"
)

// keySet finds duplicate keys within each object of a nest of objects: one
// stack of keys, on which each level knows where it starts. A small object is
// compared key by key; a large one is indexed, so that a hostile one stays
// linear.
type keySet struct {
	stack [][]byte
	first [16][]byte              // the stack of most requests
	index map[int]map[string]bool // by level start, once an object is large

	unclear bool       // something was ambiguous since this was last cleared
	quiet   bool       // and is not to be told: nobody may be reading there
	err     *BodyError // the first that was told
}

const smallObject = 24

// level opens an object and returns its mark.
func (k *keySet) level() int { return len(k.stack) }

// leave closes the object that level opened.
func (k *keySet) leave(level int) {
	k.stack = k.stack[:level]
	delete(k.index, level)
}

// add notes a key of the object at a path that level opened.
func (k *keySet) add(level int, at string, key []byte) {
	if k.err != nil || k.quiet && k.unclear {
		return // there is no more to find out
	}
	seen := k.stack[level:]
	if len(seen) < smallObject {
		for _, s := range seen {
			if bytes.Equal(s, key) && k.note() {
				k.tell(at, key, "key %q stands twice in one object", key)
			}
		}
		if k.stack == nil {
			k.stack = k.first[:0]
		}
		k.stack = append(k.stack, key)
		return
	}
	names := k.index[level]
	if names == nil {
		names = make(map[string]bool, 2*smallObject)
		for _, s := range seen {
			names[string(s)] = true
		}
		if k.index == nil {
			k.index = map[int]map[string]bool{}
		}
		k.index[level] = names
	}
	if names[string(key)] && k.note() {
		k.tell(at, key, "key %q stands twice in one object", key)
	}
	names[string(key)] = true
}

// note notes that two parsers could differ. It is true where that is to be told, which is
// the first time: a hostile body has a reason in every third byte.
func (k *keySet) note() bool {
	k.unclear = true
	return k.err == nil && !k.quiet
}

func (k *keySet) tell(at string, key []byte, format string, args ...any) {
	k.err = &BodyError{Reason: ReasonAmbiguous, Param: at + string(key), Message: fmt.Sprintf(format, args...)}
}
