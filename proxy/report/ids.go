package report

// IDs are the ids under which others know a request.
type IDs struct {
	Trace    string `json:"trace_id,omitempty"`            // Report.TraceID in hexadecimal
	Request  string `json:"request_id,omitempty"`          // Report.RequestID
	Upstream string `json:"upstream_request_id,omitempty"` // Call.RequestID of the last call
}

// IDs returns the ids under which others know the request.
func (r *Report) IDs() IDs {
	ids := IDs{Request: r.RequestID, Upstream: r.upstreamID()}
	if r.TraceID.IsValid() {
		ids.Trace = r.TraceID.String()
	}
	return ids
}

func (r *Report) upstreamID() string {
	if len(r.Calls) == 0 {
		return ""
	}
	return r.Calls[len(r.Calls)-1].RequestID
}

// maxRequestID is the length of the longest id that is kept, in bytes. Common ids have 36.
const maxRequestID = 128

// ReadRequestID returns an id in a header of a stranger; "" if it is not printable ASCII of at most
// 128 bytes without quotes and backslashes.
func ReadRequestID(header []byte) string {
	if len(header) > maxRequestID || !Printable(header) {
		return ""
	}
	return string(header)
}
