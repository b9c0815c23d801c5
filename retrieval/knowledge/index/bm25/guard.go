package bm25

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// A MappedFaultError says that a mapped file could not be read where it lies: somebody has
// truncated it, or its disk fails.
type MappedFaultError struct{ Address uintptr }

func (e *MappedFaultError) Error() string {
	return fmt.Sprintf("a mapped file cannot be read any more, at %#x", e.Address)
}

// GuardMapped calls f, which reads Files, and returns its error, or a *FaultError where a read
// failed; without GuardMapped such a read ends the process. What f starts in other goroutines is not guarded.
func GuardMapped(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch value := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			err = &MappedFaultError{Address: value.Addr()}
		default:
			panic(value)
		}
	}()
	return f()
}

// Holds tells whether an address is in the file.
func (f *MappedFile) Holds(address uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
	return first <= address && address < first+uintptr(len(f.data))
}
