package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// jsonProblem says what is wrong with a body in terms of JSON. The decoder's own errors name Go
// types, which callers need not know.
func jsonProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Sprintf("%s is %s, not %s", cmp.Or(strings.Trim(wrong.Field, "."), "it"), given(wrong.Value), wanted(wrong.Type))
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// given names the kind of value in the body.
func given(value string) string {
	names := map[string]string{"array": "a list", "bool": "a boolean", "number": "a number", "object": "an object", "string": "a string"}
	return cmp.Or(names[value], value) // such as number 1.5
}

// wanted names the kind of JSON value that a type is decoded from.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Float64, reflect.Float32:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}
