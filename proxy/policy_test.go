package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/proxy"
)

// A secret is never printed, however deeply nested, with any verb.
func TestSecretNeverPrints(t *testing.T) {
	const canary = "sk-canary"
	hidden := struct{ inner proxy.Secret }{proxy.NewSecret(canary)}
	up := proxy.Upstream{Name: "u", APIKey: proxy.NewSecret(canary)}
	encoded, err := json.Marshal(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(hidden), fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden),
		fmt.Sprintf("%v %+v %#v %s", up, up, &up, up.APIKey), string(encoded),
	} {
		if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
			t.Errorf("printed: %s", text)
		}
	}
	if up.APIKey.Reveal() != canary || up.APIKey.String() != "***" || (proxy.Secret{}).String() != "" {
		t.Error("the secret itself is wrong")
	}
}
