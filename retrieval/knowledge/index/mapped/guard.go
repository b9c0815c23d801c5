package mapped

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// A FaultError says that a mapped file could not be read where it lies: somebody has
// truncated it, or its disk fails.
type FaultError struct{ Address uintptr }

func (e *FaultError) Error() string {
	return fmt.Sprintf("a mapped file cannot be read any more, at %#x", e.Address)
}

// Guard calls f, which reads Files, and returns its error, or a *FaultError where a read
// failed; without Guard such a read ends the process. What f starts in other goroutines is not guarded.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch value := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			err = &FaultError{Address: value.Addr()}
		default:
			panic(value)
		}
	}()
	return f()
}

// Holds tells whether an address is in the file.
func (f *File) Holds(address uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(f.data)))
	return first <= address && address < first+uintptr(len(f.data))
}
