package admin

import (
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/experiment"
)

// ExperimentsPath is the path of all experiments; see ExperimentPath for one.
const ExperimentsPath = "/v1/experiments"

// ExperimentPath returns the path of an experiment.
func ExperimentPath(name string) string { return ExperimentsPath + "/" + name }

// experiments serve the endpoints of experiments.
type experiments struct{ store *experiment.Store }

// endpoint returns the endpoint at a path.
func (e experiments) endpoint(path string) (endpoint, bool) {
	if path == ExperimentsPath {
		return endpoint{method: "GET", path: path, handle: e.list}, true
	}
	name, ok := strings.CutPrefix(path, ExperimentsPath+"/")
	return endpoint{method: "GET", path: ExperimentsPath + "/{name}", handle: func(ctx *fasthttp.RequestCtx) error { return e.one(ctx, name) }}, ok && name != ""
}

// list answers with a page of all experiments by name.
func (e experiments) list(ctx *fasthttp.RequestCtx) error {
	all := e.store.Views()
	return answerList(ctx, len(all), func(i int) string { return all[i].Name }, func(i int) experiment.View { return all[i] })
}

func (e experiments) one(ctx *fasthttp.RequestCtx, name string) error {
	for _, v := range e.store.Views() {
		if v.Name == name {
			return writeJSON(ctx, fasthttp.StatusOK, v)
		}
	}
	fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is no experiment %q.", name))
	return nil
}
