package chat

import (
	"bytes"
	"fmt"
)

// keySet finds duplicate keys in nested objects. It keeps one stack of keys; each open object
// knows where its own begin. Keys of a small object are compared with each other, those of a
// large one are put into a map, so that a hostile body takes linear time.
type keySet struct {
	stack [][]byte
	first [16][]byte              // initial memory of stack, enough for most requests
	index map[int]map[string]bool // keys of large objects, by where their level begins

	ambiguous bool   // an ambiguity was found since this was reset
	quiet     bool   // only note ambiguities without describing them, since this part may not matter
	err       *Error // the first ambiguity described
}

const smallObject = 24

// level opens an object and returns the index of its first key on the stack.
func (k *keySet) level() int { return len(k.stack) }

// leave closes the object that level opened.
func (k *keySet) leave(level int) {
	k.stack = k.stack[:level]
	delete(k.index, level)
}

// add records a key of the object opened by level; at is the object's path.
func (k *keySet) add(level int, at string, key []byte) {
	if k.err != nil || k.quiet && k.ambiguous {
		return // the result is known already
	}
	seen := k.stack[level:]
	if len(seen) < smallObject {
		for _, s := range seen {
			if bytes.Equal(s, key) && k.note() {
				k.describe(at, key, "key %q stands twice in one object", key)
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
		k.describe(at, key, "key %q stands twice in one object", key)
	}
	names[string(key)] = true
}

// note records that two parsers could read the body differently. It returns true if the caller
// should describe it, which holds only for the first ambiguity: a hostile body has one in every
// third byte, and a description takes memory.
func (k *keySet) note() bool {
	k.ambiguous = true
	return k.err == nil && !k.quiet
}

func (k *keySet) describe(at string, key []byte, format string, args ...any) {
	k.err = &Error{Reason: Ambiguous, Param: at + string(key), Message: fmt.Sprintf(format, args...)}
}
