package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// errProtocol is the error for input that is not RESP2.
var errProtocol = errors.New("not RESP2")

// roundTrip logs in if there is a password, runs one command and returns its
// reply as text.
func roundTrip(conn net.Conn, password string, args []string) (string, error) {
	r := bufio.NewReader(conn)
	if password != "" {
		// A refusal shows in the reply of the command itself.
		if _, err := ask(conn, r, []string{"AUTH", password}); err != nil {
			return "", err
		}
	}
	return ask(conn, r, args)
}

func ask(w io.Writer, r *bufio.Reader, args []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one reply and renders it as Do documents.
func readReply(r *bufio.Reader) (string, error) {
	kind, rest, err := readHead(r)
	if err != nil {
		return "", err
	}
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "-" + rest, nil
	case '$':
		return readBulk(r, rest)
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", fmt.Errorf("%w: array of %q", errProtocol, rest)
		}
		var items []string
		for range n {
			item, err := readReply(r)
			if err != nil {
				return "", err
			}
			items = append(items, item)
		}
		return strings.Join(items, "\n"), nil
	default:
		return "", fmt.Errorf("%w: %q", errProtocol, string(kind)+rest)
	}
}

// readCommand reads a command as clients send it, an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	kind, rest, err := readHead(r)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(rest)
	if kind != '*' || err != nil {
		return nil, fmt.Errorf("%w: %q", errProtocol, string(kind)+rest)
	}
	var args []string
	for range n {
		kind, rest, err := readHead(r)
		if err != nil {
			return nil, err
		}
		if kind != '$' {
			return nil, fmt.Errorf("%w: %q", errProtocol, string(kind)+rest)
		}
		arg, err := readBulk(r, rest)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// readHead reads the line that begins every value.
func readHead(r *bufio.Reader) (kind byte, rest string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok || line == "" {
		return 0, "", fmt.Errorf("%w: line %q", errProtocol, line)
	}
	return line[0], line[1:], nil
}

// readBulk reads the n bytes and the line break that follow a length; -1 is nil.
func readBulk(r *bufio.Reader, n string) (string, error) {
	size, err := strconv.Atoi(n)
	if err != nil || size < -1 {
		return "", fmt.Errorf("%w: bulk string of %q", errProtocol, n)
	}
	if size == -1 {
		return "", nil
	}
	val := make([]byte, size+2)
	if _, err := io.ReadFull(r, val); err != nil {
		return "", err
	}
	if string(val[size:]) != "\r\n" {
		return "", fmt.Errorf("%w: bulk string longer than its %d bytes", errProtocol, size)
	}
	return string(val[:size]), nil
}
