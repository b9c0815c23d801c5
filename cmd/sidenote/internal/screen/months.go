package screen

import (
	"fmt"
	"io"
	"text/tabwriter"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/admin"
)

// MonthUsage shows what tenants used in a month, a line for each row.
func MonthUsage(w io.Writer, all []admin.MonthUsage) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TENANT\tKIND\tMODEL\tKEY\tREQUESTS\tTOKENS\tINJECTED\tUSD")
	for _, one := range all {
		for _, r := range one.Rows {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Clean(one.ID), terminal.Clean(r.Kind), dash(r.Model), dash(r.Key),
				thousands(r.Requests), thousands(r.Tokens), thousands(r.Injected), r.USD)
		}
	}
	_ = table.Flush() // the writers before it do not check either
	fmt.Fprintln(w, "calls count in the month (UTC) in which they ended; - is a model that was not read, or no key")
}

// dash returns a name for the screen, "-" for none.
func dash(name string) string {
	if name == "" {
		return "-"
	}
	return terminal.Clean(name)
}
