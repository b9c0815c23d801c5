package screen

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"sidenote/proxy/admin"
)

// Modes shows the modes set by the kill switch.
func Modes(w io.Writer, modes *admin.Modes) {
	for _, m := range modes.Data {
		who := "all tenants"
		if m.Tenant != "" {
			who = "tenant " + m.Tenant
		}
		until := "until it is taken back"
		if !m.Until.IsZero() {
			until = "until " + m.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(w, "%-7s %s, %s (set %s)\n", m.Mode, who, until, m.Since.Local().Format(time.DateTime))
	}
	if len(modes.Data) == 0 {
		fmt.Fprintln(w, "nothing is set: all modes are those of the policies")
	}
}

// Keys shows the keys of tenants, a line each.
func Keys(w io.Writer, keys []admin.Key) {
	for _, k := range keys {
		fmt.Fprintln(w, keyLine(k))
	}
}

func keyLine(k admin.Key) string {
	line := fmt.Sprintf("%-20s  %-20s  %s…  %-7s", k.Tenant, cmp.Or(k.Name, "-"), k.Prefix, strings.ReplaceAll(k.Status, "_", " "))
	if !k.NotBefore.IsZero() {
		line += "  from " + k.NotBefore.Format(time.DateOnly)
	}
	if !k.Expires.IsZero() {
		line += "  until " + k.Expires.Add(-1).Format(time.DateOnly)
	}
	if k.LastUsed.IsZero() {
		return line + "  not used"
	}
	return line + "  last used " + k.LastUsed.Format("2006-01-02 15:04")
}
