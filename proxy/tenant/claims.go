package tenant

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-jose/go-jose/v4/json"
)

// maxClaimDepth limits the nesting of objects in claims.
const maxClaimDepth = 8

var errClaims = errors.New("claims that can be read in two ways, or are nested too deeply")

// flatten returns the claims of a payload by name. The claims of a nested object get the object's
// name and a dot as a prefix. A string, number (as written) or boolean is one value; a list of
// these is several. Other lists, empty lists and null are ignored. Two claims of the same name are
// an error.
func flatten(payload []byte) (map[string][]string, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.SetNumberType(json.UnmarshalJSONNumber)
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return nil, errClaims
	}
	claims := make(map[string][]string, len(object))
	if err := addClaims(claims, "", object, 1); err != nil {
		return nil, err
	}
	return claims, nil
}

func addClaims(claims map[string][]string, prefix string, object map[string]any, depth int) error {
	if depth > maxClaimDepth {
		return errClaims
	}
	for name, value := range object {
		name = prefix + name
		if inner, ok := value.(map[string]any); ok {
			if err := addClaims(claims, name+".", inner, depth+1); err != nil {
				return err
			}
			continue
		}
		values := valuesOf(value)
		if len(values) == 0 {
			continue
		}
		if _, twice := claims[name]; twice {
			return errClaims
		}
		claims[name] = values
	}
	return nil
}

// valuesOf returns nil for values that are not claims.
func valuesOf(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	values := make([]string, 0, len(list))
	for _, item := range list {
		switch item := item.(type) {
		case string:
			values = append(values, item)
		case json.Number:
			values = append(values, item.String())
		case bool:
			values = append(values, strconv.FormatBool(item))
		default:
			return nil
		}
	}
	return values
}
