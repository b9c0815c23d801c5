package main

import (
	"cmp"
	"fmt"
	"strconv"
	"text/tabwriter"

	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

type modelsCmd struct {
	Name   string `arg:"" optional:"" help:"Show the row that a model of this name matches."`
	Config string `placeholder:"FILE" help:"Configuration whose models come first."`
}

// Help shows how models is used.
func (modelsCmd) Help() string {
	return "The rows of models come first, then those of models_file, then the built-in ones, of " + tokens.TableDate + ". The first row that matches wins; exact counts use the model's own encoding, estimates add 10 %. RESERVED tokens of the window are kept free for an answer that neither request nor policy caps. To a model of the roles \"no system\" sources go in the last user message; one of the tools \"none\" is not offered any under mode: tools.\n\nsidenote models openai/gpt-5-mini"
}

// Run prints the model table, or one row of it.
func (c *modelsCmd) Run(a *app) error {
	table := tokens.Builtin()
	if c.Config != "" {
		cfg, err := configFlags{Config: c.Config}.load(a, true)
		if err != nil {
			return err
		}
		table = cfg.ModelTable()
	}
	if c.Name != "" {
		row, _ := tokens.Lookup(table, c.Name)
		table = []tokens.Model{row}
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MATCH\tENCODING\tWINDOW\tMAX OUTPUT\tRESERVED\tIMAGE 1024²\tCOUNT\tROLES\tTOOLS\tSEARCH RESULTS\tPROMPT CACHE")
	for _, m := range table {
		count := "exact"
		if m.Estimated {
			count = "estimated"
		}
		roles := "all"
		if m.NoSystem {
			roles = "no system"
		}
		results := "text"
		if m.SearchResults {
			results = "cited"
		}
		row := model.Model{Window: m.Window, MaxOutput: m.MaxOutput, DefaultOutput: m.DefaultOutput}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", m.Match, m.Encoding, orUnknown(m.Window), orUnknown(m.MaxOutput),
			row.ReservedOutput(), m.Images.Tokens(1024, 1024, "high"), count, roles, m.Tools, results, cmp.Or(m.PromptCache, "unknown"))
	}
	return w.Flush()
}

func orUnknown(n int) string {
	if n == 0 {
		return "unknown"
	}
	return strconv.Itoa(n)
}
