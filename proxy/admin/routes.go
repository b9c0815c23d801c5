package admin

// A need says what a request must bring to be answered.
type need int

// The needs. A route that is not in the table needs needAdmin.
const (
	needAdmin     need = iota // a token that may do everything
	needNothing               // no token
	needSignature             // a signature instead of a token, which the handler checks
	needMetrics               // a token that may scrape
	needRead                  // a token that may read knowledge
	needWrite                 // a token that may change documents
	needInspect               // a token that may see requests, tenants and settings
)

// changes reports whether such requests change something.
func (n need) changes() bool { return n == needAdmin || n == needWrite }

// A route is a method and a path of this port, and what a request for it needs.
type route struct {
	method string
	path   string // parts in braces stand for any name
	need   need
}

// routes lists what each request needs. No other place decides it.
func routes() []route {
	return []route{
		{"GET", "/healthz", needNothing},
		{"GET", "/readyz", needNothing},
		{"GET", ProofPath, needNothing},
		{"POST", "/v1/knowledge/{base}/webhook", needSignature},

		{"GET", "/metrics", needMetrics},

		{"POST", "/v1/search", needRead},
		{"POST", "/v1/read", needRead},
		{"GET", ToolsPath, needRead},
		{"POST", ToolsPath + "/{name}", needRead},
		{"GET", "/v1/knowledge", needRead},
		{"GET", "/v1/knowledge/{base}", needRead},
		{"GET", "/v1/knowledge/{base}/documents", needRead},
		{"GET", "/v1/knowledge/{base}/documents/{id}", needRead},
		{"GET", storesPath, needRead},
		{"GET", storesPath + "/{base}", needRead},
		{"POST", storesPath + "/{base}/search", needRead},
		{"GET", storesPath + "/{base}/files", needRead},
		{"GET", storesPath + "/{base}/files/{id}", needRead},

		{"POST", "/v1/knowledge/{base}/documents", needWrite},
		{"PUT", "/v1/knowledge/{base}/documents/{id}", needWrite},
		{"DELETE", "/v1/knowledge/{base}/documents/{id}", needWrite},
		{"POST", "/v1/knowledge/{base}/forget", needWrite},
		{"POST", "/v1/knowledge/{base}/ingest", needWrite},

		{"GET", OverviewPath, needInspect},
		{"GET", ExplainPath + "{id}", needInspect},
		{"GET", KeysPath, needInspect},
		{"GET", UsagePath, needInspect},
		{"GET", tenantsPath + "{tenant}" + usageSuffix, needInspect},
		{"GET", "/v1/calibration", needInspect},
		{"GET", ExperimentsPath, needInspect},
		{"GET", ExperimentsPath + "/{name}", needInspect},
		{"GET", ModePath, needInspect},
		{"POST", "/v1/rewrite", needInspect},
		{"POST", "/v1/context", needInspect},

		{"POST", "/v1/knowledge", needAdmin},
		{"DELETE", "/v1/knowledge/{base}", needAdmin},
		{"POST", ModePath, needAdmin},
		{"POST", ReloadPath, needAdmin},
	}
}

// need returns what requests to an endpoint need.
func (e endpoint) need() need {
	for _, r := range routes() {
		if r.method == e.method && r.path == e.path {
			return r.need
		}
	}
	return needAdmin
}
