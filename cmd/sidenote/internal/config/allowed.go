package config

import (
	"strings"
)

// checkAllowedModels refuses a tenant's list of models that has none of its policy's models.
func checkAllowedModels(c checker) {
	for _, name := range sortedKeys(c.Tenants) {
		t := c.Tenants[name]
		if p := c.policy(t.policyName()); p.Models != nil && len(bothPatterns(p.Models, t.Models)) == 0 {
			c.problem("tenants."+string(name)+".models", "has none of the models of policy %q, which are %s",
				t.policyName(), strings.Join(Texts(p.Models), ", "))
		}
	}
}
