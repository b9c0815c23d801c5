package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A row is a line of a table: the code in its first cell, and the second cell.
type row struct{ at, head, code, second string }

// rows returns the names in the first column of each table of a page, by its heading.
func rows(name, prose string) (rows []row) {
	head := ""
	lines := strings.Split(prose, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			head = ""
			continue
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, " "), "|")
		first := strings.TrimSpace(cells[1])
		if head == "" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---") {
			head = first
			if head == "" {
				head = "-"
			}
			continue
		}
		for _, code := range spans(first) {
			rows = append(rows, row{name, head, code, strings.Trim(cells[2], " `")})
		}
	}
	return rows
}

// schemaKeys lists the keys of the configuration as the pages write them.
func schemaKeys(t reflect.Type, prefix string) (keys []string) {
	switch t {
	case reflect.TypeFor[config.Secret](), reflect.TypeFor[config.RedisURL](), reflect.TypeFor[config.ProxyURL](), reflect.TypeFor[config.Login]():
		return nil
	case reflect.TypeFor[config.Ports](): // an address stands for a list of one
		keys = append(keys, strings.TrimSuffix(prefix, "[]."))
	}
	switch t.Kind() {
	case reflect.Slice:
		return append(keys, schemaKeys(t.Elem(), prefix)...)
	case reflect.Map:
		return schemaKeys(t.Elem(), prefix+"NAME.")
	case reflect.Struct:
	default:
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "" || key == "-" || t == reflect.TypeFor[config.Override]() && len(f.Index) > 1 { // keys of the policy itself
			continue
		}
		sub := prefix + key
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct {
			sub += "[]"
		}
		below := schemaKeys(f.Type, sub+".")
		if len(below) == 0 {
			keys = append(keys, prefix+key)
		}
		keys = append(keys, below...)
	}
	return keys
}

// What looks like `key: value` on a page uses a key of the configuration.
func TestPagesKeys(t *testing.T) {
	words := map[string]bool{}
	for _, key := range schemaKeys(reflect.TypeFor[config.Config](), "") {
		for word := range strings.SplitSeq(strings.ReplaceAll(key, "[]", ""), ".") {
			words[word] = true
		}
	}
	// Names that users choose, and members of filters.
	for _, own := range []string{"docs", "legal", "env", "file", "default", "type", "key", "value", "audience", "include_usage", "stream_options"} {
		words[own] = true
	}
	pair := regexp.MustCompile(`(?:^|[{,] ?)([a-z_]+): `)
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, span := range spans(prose) {
			for _, m := range pair.FindAllStringSubmatch(span, -1) {
				if !words[m[1]] {
					t.Errorf("%s: there is no key %s: %s", name, m[1], span)
				}
			}
		}
	}
}

// exportedMetrics returns the metrics that a program exports, and the labels of those that have some.
func exportedMetrics(t *testing.T) (known map[string]bool, labels map[string]string) {
	t.Helper()
	known, labels = map[string]bool{}, map[string]string{}
	descs := make(chan *prometheus.Desc, 1000)
	all := report.NewMetrics(report.MetricNames{})
	all.NewBudgets()
	all.WatchUpstreams(nil)
	all.WatchIssuers(nil)
	all.WatchExpiries(nil)
	all.Registry().Describe(descs)
	close(descs)
	for d := range descs {
		if m := regexp.MustCompile(`fqName: "(\w+)".* variableLabels: {(.*)}}`).FindStringSubmatch(d.String()); m != nil {
			known[m[1]], labels[m[1]] = true, m[2]
		}
	}
	// Metrics that the wiring adds show in a running program.
	p := serve(t, "--upstream", newRecorder(t).URL, "--redis", "redis://127.0.0.1:1", "--mcp", "127.0.0.1:0")
	_, body := get(t, p.admin+"/metrics")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(body, -1) {
		known[m[1]] = true
	}
	if len(known) < 30 {
		t.Fatalf("only %d metrics", len(known))
	}
	return known, labels
}

// The page of operations lists exactly the metrics that exist; no page names another.
func TestPagesMetrics(t *testing.T) {
	known, labels := exportedMetrics(t)
	written := map[string]bool{}
	for _, name := range pages {
		_, prose := readPage(t, name)
		for _, metric := range regexp.MustCompile(`\bsidenote_[a-z_]+`).FindAllString(prose, -1) {
			if !known[metric] {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
		for _, r := range rows(name, prose) {
			if name == "deploy/README.md" && r.head == "metric" {
				written[r.code] = true
				if said := strings.NewReplacer("`", "", " ", "").Replace(r.second); labels[r.code] != "" && said != labels[r.code] {
					t.Errorf("%s: %s has the labels %s, not %s", name, r.code, labels[r.code], said)
				}
			}
		}
	}
	for metric := range known {
		if strings.HasPrefix(metric, "sidenote_") && !written[metric] {
			t.Errorf("deploy/README.md does not list %s", metric)
		}
	}
}

// sources walks the non-test Go files of a folder and those below it.
func sources(t *testing.T, dir string, visit func(n ast.Node) bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err == nil {
			ast.Inspect(parsed, visit)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if text, err := strconv.Unquote(l.Value); err == nil {
			return text
		}
	}
	return ""
}

// wire is what the code can report about a request: its constants of the types Reason, Outcome and
// StageOutcome, the codes of errors before a request is parsed, and the names of headers.
type wire struct{ reasons, early, outcomes, stages, headers map[string]bool }

func readWire(t *testing.T) wire {
	t.Helper()
	w := wire{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, dir := range []string{"retrieval", "rewrite", "proxy"} {
		sources(t, dir, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				w.constant(n)
			case *ast.BasicLit:
				if text := strings.ToLower(literal(n)); regexp.MustCompile(`^sidenote(-[a-z]+)+$`).MatchString(text) {
					w.headers[text] = true
				}
			}
			return true
		})
	}
	sources(t, "proxy/transport", func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Names[0].Name == "code" && len(n.Values) == 1 && literal(n.Values[0]) != "" {
				w.early[strings.ReplaceAll(literal(n.Values[0]), "_", "-")] = true
			}
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "code" && literal(n.Rhs[0]) != "" {
				w.early[strings.ReplaceAll(literal(n.Rhs[0]), "_", "-")] = true
			}
		}
		return true
	})
	sources(t, "proxy/transport", func(n ast.Node) bool {
		if n, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(n.Names[0].Name, "Code") && len(n.Values) == 1 {
			w.early[strings.ReplaceAll(literal(n.Values[0]), "_", "-")] = true
		}
		return true
	})
	if len(w.early) < 5 || len(w.reasons) < 30 || len(w.outcomes) < 7 || len(w.stages) < 10 || len(w.headers) < 7 {
		t.Fatalf("found %d and %d reasons, %d outcomes and %d of stages, %d headers", len(w.early), len(w.reasons), len(w.outcomes), len(w.stages), len(w.headers))
	}
	maps.Copy(w.reasons, w.early)
	return w
}

func (w wire) constant(spec *ast.ValueSpec) {
	kind := fmt.Sprint(spec.Type)
	if sel, ok := spec.Type.(*ast.SelectorExpr); ok {
		kind = sel.Sel.Name
	}
	for _, value := range spec.Values {
		switch text := literal(value); {
		case text == "":
		case kind == "Reason":
			w.reasons[text] = true
		case kind == "Outcome":
			w.outcomes[text] = true
		case kind == "StageOutcome":
			w.stages[text] = true
		}
	}
}

// The page of the wire lists every outcome, also of stages, every reason and every header.
func TestPagesNameTheWire(t *testing.T) {
	w := readWire(t)
	_, page := readPage(t, "proxy/README.md")
	for _, list := range []map[string]bool{w.reasons, w.outcomes, w.stages, w.headers} {
		for word := range list {
			if !strings.Contains(strings.ToLower(page), "`"+word+"`") {
				t.Errorf("proxy/README.md does not name %s", word)
			}
		}
	}
}

// The page of the wire lists every kind of call that usage is reported by.
func TestPagesKinds(t *testing.T) {
	_, page := readPage(t, "proxy/README.md")
	_, list, _ := strings.Cut(page, "by kind of call")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, kind := range budget.Kinds() {
		if !strings.Contains(list, "`"+string(kind)+"`") {
			t.Errorf("proxy/README.md does not name the kind %s", kind)
		}
	}
}

// No page names an outcome, a reason or a header that does not exist, or a status that a reason
// does not have.
func TestPagesWireIsTrue(t *testing.T) {
	w := readWire(t)
	for _, name := range pages {
		fences, prose := readPage(t, name)
		all := prose
		for _, f := range fences {
			all += f.text
		}
		for _, m := range regexp.MustCompile(`\breason=([a-z-]+)`).FindAllStringSubmatch(all, -1) {
			if !w.reasons[m[1]] {
				t.Errorf("%s: there is no reason %s", name, m[1])
			}
		}
		for _, header := range regexp.MustCompile(`\bSidenote-[A-Z][A-Za-z-]+`).FindAllString(all, -1) {
			if !w.headers[strings.ToLower(header)] {
				t.Errorf("%s: there is no header %s", name, header)
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^\| ([1-5][0-9]{2}) \|(.*)$`).FindAllStringSubmatch(prose, -1) {
			for _, word := range spans(m[2]) {
				if status := (&tenant.APIError{Reason: rewrite.Reason(word)}).Status(); !w.reasons[word] || !w.early[word] && fmt.Sprint(status) != m[1] {
					t.Errorf("%s: the status of %s is %d, not %s", name, word, status, m[1])
				}
			}
		}
		for _, r := range rows(name, prose) {
			if r.head == "failure" && !w.stages[r.code] || r.head == "reason" && !w.reasons[r.code] || r.head == "outcome" && !w.outcomes[r.code] {
				t.Errorf("%s: there is no %s %s", name, r.head, r.code)
			}
		}
	}
}

// UPGRADES.md names the present version of each format.
func TestUpgradesNameFormats(t *testing.T) {
	_, prose := readPage(t, "deploy/UPGRADES.md")
	steps, err := filepath.Glob(filepath.Join(root, "retrieval/knowledge/store/schema/*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(file, pattern string) string {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(source)
		if found == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		return string(found[1])
	}
	for _, row := range []string{
		fmt.Sprintf("`knowledge.db` in the state folder | schema %d |", len(steps)),
		"the state folder | segment " + number("retrieval/knowledge/index/image.go", `fileFormat += (\d+)`) + " |",
		"`budgets` in the state folder | journal " + number("cache/budget/journal.go", `sidenote budget (\d+)`) + " |",
		"`" + number("cache/redis/ledger.go", `":(budget\d+):`) + "`",
		"`" + number("cache/redis/usage.go", `":(usage\d+):`) + "`",
		"| Postgres | schema " + number("retrieval/postgres/schema.go", `const version = (\d+)`) + " |",
	} {
		if !strings.Contains(prose, row) {
			t.Errorf("the page lacks %q", row)
		}
	}
}
