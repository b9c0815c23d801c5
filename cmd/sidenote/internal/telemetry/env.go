package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"sidenote/retrieval/tracing"
)

// The protocols of OTLP.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// An environment reads variables.
type environment struct {
	lookup func(name string) (value string, ok bool)
}

// get returns the value of the first of these variables that is set and not empty, and its name.
func (e environment) get(names ...string) (value, name string) {
	for _, name := range names {
		if value, ok := e.lookup(name); ok && strings.TrimSpace(value) != "" {
			return strings.TrimSpace(value), name
		}
	}
	return "", ""
}

// A signal says where traces or metrics are sent.
type signal struct {
	variable string // that has the endpoint; "" if the signal is off
	host     string // of the endpoint
	protocol string
}

func (s signal) on() bool { return s.variable != "" }

// signals returns what is sent where.
func (e environment) signals() (traces, metrics signal, err error) {
	if off, _ := e.get("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		return traces, metrics, nil
	}
	if traces, err = e.signal("TRACES"); err != nil {
		return traces, metrics, err
	}
	metrics, err = e.signal("METRICS")
	return traces, metrics, err
}

// signal reads the variables of one signal, TRACES or METRICS. Those of the signal take precedence
// over those of all.
func (e environment) signal(name string) (s signal, err error) {
	switch exporter, variable := e.get("OTEL_" + name + "_EXPORTER"); exporter {
	case "", "otlp":
	case "none", "prometheus": // what Prometheus scrapes is not sent too
		return s, nil
	default:
		return s, fmt.Errorf("%s: %q is neither otlp nor none", variable, exporter)
	}
	endpoint, variable := e.get("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" {
		return s, nil
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return s, fmt.Errorf("%s: not a URL such as http://127.0.0.1:4318", variable) // it may hold a password
	}
	s = signal{variable, at.Host, protocolHTTP}
	if protocol, variable := e.get("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" {
		if s.protocol = protocol; protocol != protocolGRPC && protocol != protocolHTTP {
			return s, fmt.Errorf("%s: %q is neither %s nor %s", variable, protocol, protocolGRPC, protocolHTTP)
		}
	}
	for _, kind := range [...]string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		if file, variable := e.get("OTEL_EXPORTER_OTLP_"+name+"_"+kind, "OTEL_EXPORTER_OTLP_"+kind); file != "" {
			if _, err := os.Stat(file); err != nil {
				return s, fmt.Errorf("%s: %w", variable, err)
			}
		}
	}
	return s, nil
}

// sampler reads which requests are sampled.
func (e environment) sampler() (s tracing.Sampler, err error) {
	name, variable := e.get("OTEL_TRACES_SAMPLER")
	kind, parentBased := strings.CutPrefix(strings.ToLower(name), "parentbased_")
	s.ParentBased = parentBased || name == ""
	switch kind {
	case "", "always_on":
		s.Ratio = 1
	case "always_off":
	case "traceidratio":
		s.Ratio, err = e.ratio()
	default:
		err = fmt.Errorf("%s: %q is neither always_on, always_off nor traceidratio, alone or after parentbased_", variable, name)
	}
	return s, err
}

// ratio reads the argument of the sampler traceidratio.
func (e environment) ratio() (float64, error) {
	text, variable := e.get("OTEL_TRACES_SAMPLER_ARG")
	if text == "" {
		return 1, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 1) {
		return 0, fmt.Errorf("%s: %q is not a number from 0 to 1", variable, text)
	}
	return n, nil
}

// maxReason limits the bytes of a reason, which a receiver may have written.
const maxReason = 200

// describe returns why something could not be sent, in one line, without the values of the headers
// that the environment sets.
func (e environment) describe(err error) string {
	var at *url.Error
	var op *net.OpError
	text := ""
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &op):
		text = op.Op + ": " + op.Err.Error() // without the address of our side, which varies
	case errors.As(err, &at):
		text = at.Err.Error()
	default:
		text = err.Error()
	}
	for _, secret := range e.secrets() {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// secrets returns the values of headers in the environment, as written and as sent.
func (e environment) secrets() (all []string) {
	for _, signal := range [...]string{"", "TRACES_", "METRICS_"} {
		list, _ := e.get("OTEL_EXPORTER_OTLP_" + signal + "HEADERS")
		for pair := range strings.SplitSeq(list, ",") {
			_, value, _ := strings.Cut(pair, "=")
			value = strings.TrimSpace(value)
			sent, err := url.PathUnescape(value)
			if err != nil {
				sent = value
			}
			_, bare, _ := strings.Cut(sent, " ") // without "Bearer"
			for _, secret := range [...]string{value, sent, bare} {
				if secret != "" {
					all = append(all, secret)
				}
			}
		}
	}
	return all
}
