package bm25

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// A FaultError means that a mapped file could not be read: it was truncated, or its disk failed.
type MappedFaultError struct{ Address uintptr }

func (e *MappedFaultError) Error() string {
	return fmt.Sprintf("a mapped file cannot be read any more, at %#x", e.Address)
}

// Guard calls f, which reads Files, and returns its error, or a *FaultError if a read failed;
// without Guard such a read ends the process. Guard does not cover goroutines that f starts.
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

// Holds reports whether an address is in the file.
func (f *MappedFile) Holds(address uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
	return first <= address && address < first+uintptr(len(f.data))
}
